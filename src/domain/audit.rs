//! What the audit log says of a change: who made it, from where, and what it was.

use std::fmt;
use std::net::IpAddr;

use super::names::names;
use super::{KeyId, UserId};

names! {
    /// What was done to an object: its kind, and the verb.
    Action {
        /// An account was made.
        AccountCreated = "account.created",
        /// An account was put on another plan.
        AccountPlanSet = "account.plan_set",
        /// An account was suspended.
        AccountSuspended = "account.suspended",
        /// A suspended account was let go on.
        AccountResumed = "account.resumed",
        /// An account was deleted.
        AccountDeleted = "account.deleted",
        /// Everything that an account has was read, with its secrets in clear.
        AccountExported = "account.exported",
        /// A user was let belong to an account.
        MemberAdded = "member.added",
        /// A user of an account was given another role.
        MemberRoleSet = "member.role_set",
        /// A user belongs to an account no more.
        MemberRemoved = "member.removed",
        /// A user was made who belongs to no account yet.
        UserCreated = "user.created",
        /// A user was disabled.
        UserDisabled = "user.disabled",
        /// A disabled user was let sign in again.
        UserEnabled = "user.enabled",
        /// A user's password was set.
        UserPasswordSet = "user.password_set",
        /// All sessions of a user were ended, or all but one.
        UserSignedOut = "user.signed_out",
        /// Somebody was invited into an account.
        InvitationCreated = "invitation.created",
        /// An invitation was taken back.
        InvitationTakenBack = "invitation.taken_back",
        /// Somebody who was invited into an account belongs to it now.
        InvitationAccepted = "invitation.accepted",
        /// An API key was made.
        KeyCreated = "key.created",
        /// An API key was replaced by a new one.
        KeyRotated = "key.rotated",
        /// An API key was revoked.
        KeyRevoked = "key.revoked",
        /// The secret that an account's requests are signed with was replaced by a new one.
        SigningSecretRotated = "signing_secret.rotated",
        /// The secrets that an account's requests are signed with were read in clear.
        SigningSecretsShown = "signing_secrets.shown",
        /// The encryption of all stored secrets with the first key was begun.
        SecretsRotated = "secrets.rotated",
        /// A restored backup was begun to be made ready: what was due by then is skipped.
        StoreRestored = "store.restored",
        /// A schedule was made.
        ScheduleCreated = "schedule.created",
        /// Fields of a schedule were changed.
        ScheduleUpdated = "schedule.updated",
        /// A schedule was deleted.
        ScheduleDeleted = "schedule.deleted",
        /// A schedule was switched on.
        ScheduleEnabled = "schedule.enabled",
        /// A schedule was switched off.
        ScheduleDisabled = "schedule.disabled",
        /// A schedule was run by hand.
        ScheduleTriggered = "schedule.triggered",
        /// A finished job was run again.
        JobRetried = "job.retried",
        /// A job was ended by hand.
        JobCancelled = "job.cancelled",
        /// A notification channel was made.
        ChannelCreated = "channel.created",
        /// A notification channel was given another label or configuration.
        ChannelUpdated = "channel.updated",
        /// A notification channel was deleted.
        ChannelDeleted = "channel.deleted",
        /// A test notification has arrived at a channel, which can be attached to schedules now.
        ChannelVerified = "channel.verified",
        /// A notification channel lost its verification: its provider says that it is gone, or its reader
        /// has unsubscribed.
        ChannelUnverified = "channel.unverified",
        /// The secret that a webhook channel signs with was replaced by a new one.
        ChannelSecretRotated = "channel.secret_rotated",
        /// The notification preference of a schedule was set.
        PreferenceSet = "schedule.notifications_set",
        /// A failed alert was sent again.
        AlertRedelivered = "alert.redelivered",
    }
}

/// Who makes a change. Its text is what the audit log is searched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Whoever shows an API key.
    Key(KeyId),
    /// A person who has signed in.
    User(UserId),
    /// An operator at a command line, by the name that the machine knows.
    Operator(ShortName),
    /// The service itself.
    Service,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => id.fmt(f),
            Self::User(id) => id.fmt(f),
            Self::Operator(name) => write!(f, "operator:{name}"),
            Self::Service => f.write_str("service"),
        }
    }
}

/// From where a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The address of a client.
    Client(IpAddr),
    /// The machine whose command line was used.
    Host(ShortName),
    /// The service's own process.
    Service,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(address) => address.to_canonical().fmt(f),
            Self::Host(name) => write!(f, "host:{name}"),
            Self::Service => f.write_str("service"),
        }
    }
}

/// Who makes a change, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    /// Who.
    pub actor: Actor,
    /// From where.
    pub origin: Origin,
}

impl Author {
    /// The service, when nobody has asked for the change.
    pub const SERVICE: Self = Self { actor: Actor::Service, origin: Origin::Service };
}

/// A name given by the machine: what can be printed of its first bytes, 64 at most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShortName {
    bytes: [u8; Self::LONGEST],
    length: usize,
}

impl ShortName {
    const LONGEST: usize = 64;

    /// The name without what cannot be printed, cut where it is too long.
    pub fn new(name: &str) -> Self {
        let mut short = Self { bytes: [0; Self::LONGEST], length: 0 };
        for letter in name.trim().chars().filter(|letter| !letter.is_control()) {
            let end = short.length + letter.len_utf8();
            let Some(place) = short.bytes.get_mut(short.length..end) else { break };
            letter.encode_utf8(place);
            short.length = end;
        }
        short
    }
}

impl fmt::Display for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::str::from_utf8(&self.bytes[..self.length]);
        f.write_str(text.expect("only whole characters were put in"))
    }
}

impl fmt::Debug for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_a_character_and_hold_nothing_that_cannot_be_printed() {
        assert_eq!(ShortName::new(" ro\not\u{1b}[1m\n").to_string(), "root[1m");
        let long = ShortName::new(&format!("a{}", "ü".repeat(60))).to_string();
        assert_eq!(long, format!("a{}", "ü".repeat(31)));
        assert_eq!(ShortName::new("").to_string(), "");
    }

    #[test]
    fn actors_and_origins_are_told_apart_by_their_text() {
        let alice = ShortName::new("alice");
        assert_eq!(Actor::Operator(alice).to_string(), "operator:alice");
        assert_eq!(Origin::Host(alice).to_string(), "host:alice");
        let mapped = "::ffff:192.0.2.1".parse().expect("an address");
        assert_eq!(Origin::Client(mapped).to_string(), "192.0.2.1");
    }
}
