//! Audit log entries: the author of a change, its origin and its action.

use std::fmt;
use std::net::IpAddr;

use super::names::names;
use super::{KeyId, UserId};

names! {
    /// The action: the kind of the object and the verb.
    Action {
        /// An account was created.
        AccountCreated = "account.created",
        /// An account was put on another plan.
        AccountPlanSet = "account.plan_set",
        /// An account was suspended.
        AccountSuspended = "account.suspended",
        /// A suspended account was resumed.
        AccountResumed = "account.resumed",
        /// An account was deleted.
        AccountDeleted = "account.deleted",
        /// All data of an account was read, with its secrets in clear text.
        AccountExported = "account.exported",
        /// A user was added to an account.
        MemberAdded = "member.added",
        /// A user of an account was given another role.
        MemberRoleSet = "member.role_set",
        /// A user was removed from an account.
        MemberRemoved = "member.removed",
        /// A user without an account was created.
        UserCreated = "user.created",
        /// A user was disabled.
        UserDisabled = "user.disabled",
        /// A disabled user was enabled again.
        UserEnabled = "user.enabled",
        /// A user's password was set.
        UserPasswordSet = "user.password_set",
        /// All sessions of a user were ended, or all but one.
        UserSignedOut = "user.signed_out",
        /// A user became an operator of the installation.
        OperatorAdded = "operator.added",
        /// A user lost the role of an operator.
        OperatorRemoved = "operator.removed",
        /// A user changed the display settings for times.
        UserTimeDisplaySet = "user.time_display_set",
        /// An operator confirmed the address of a user.
        UserEmailConfirmed = "user.email_confirmed",
        /// The links of a user to people at the OpenID provider were removed.
        UserIdentitiesUnlinked = "user.identities_unlinked",
        /// A user was linked to a person at the OpenID provider, who can sign in as this user.
        UserIdentityLinked = "user.identity_linked",
        /// A person was invited to an account.
        InvitationCreated = "invitation.created",
        /// An invitation was withdrawn.
        InvitationTakenBack = "invitation.taken_back",
        /// An invited person became a member of an account.
        InvitationAccepted = "invitation.accepted",
        /// An API key was created.
        KeyCreated = "key.created",
        /// An API key was replaced by a new one.
        KeyRotated = "key.rotated",
        /// An API key was revoked.
        KeyRevoked = "key.revoked",
        /// The secret that signs an account's requests was replaced by a new one.
        SigningSecretRotated = "signing_secret.rotated",
        /// The secrets that sign an account's requests were read in clear text.
        SigningSecretsShown = "signing_secrets.shown",
        /// The re-encryption of all stored secrets with the first key was started.
        SecretsRotated = "secrets.rotated",
        /// The preparation of a restored backup was started: ticks that are already due are
        /// skipped.
        StoreRestored = "store.restored",
        /// A schedule was created.
        ScheduleCreated = "schedule.created",
        /// Fields of a schedule were changed.
        ScheduleUpdated = "schedule.updated",
        /// A schedule was deleted.
        ScheduleDeleted = "schedule.deleted",
        /// A schedule was enabled.
        ScheduleEnabled = "schedule.enabled",
        /// A schedule was disabled.
        ScheduleDisabled = "schedule.disabled",
        /// A schedule was triggered by hand.
        ScheduleTriggered = "schedule.triggered",
        /// A finished job was run again.
        JobRetried = "job.retried",
        /// A job was cancelled by hand.
        JobCancelled = "job.cancelled",
        /// A notification channel was created.
        ChannelCreated = "channel.created",
        /// A notification channel was given another label or configuration.
        ChannelUpdated = "channel.updated",
        /// A notification channel was deleted.
        ChannelDeleted = "channel.deleted",
        /// A test notification has arrived at a channel, which can now be attached to schedules.
        ChannelVerified = "channel.verified",
        /// A notification channel lost its verification: its provider says that it is gone, or its
        /// reader has unsubscribed.
        ChannelUnverified = "channel.unverified",
        /// The secret with which a webhook channel signs was replaced by a new one.
        ChannelSecretRotated = "channel.secret_rotated",
        /// The notification preference of a schedule was set.
        PreferenceSet = "schedule.notifications_set",
        /// A failed alert was sent again.
        AlertRedelivered = "alert.redelivered",
    }
}

/// The actor of a change. Audit log searches use its text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A client that presents an API key.
    Key(KeyId),
    /// A user who has signed in.
    User(UserId),
    /// An operator at a command line, with the user name on that machine.
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

/// The origin of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The address of a client.
    Client(IpAddr),
    /// The machine on which the command line was used.
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

/// The actor and the origin of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    /// The actor.
    pub actor: Actor,
    /// The origin.
    pub origin: Origin,
}

impl Author {
    /// The service, for changes that no caller requested.
    pub const SERVICE: Self = Self { actor: Actor::Service, origin: Origin::Service };
}

/// A name from the machine: its printable characters, 64 bytes at most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShortName {
    bytes: [u8; Self::MAX_BYTES],
    length: usize,
}

impl ShortName {
    const MAX_BYTES: usize = 64;

    /// Returns the name without control characters, cut after 64 bytes at most.
    pub fn new(name: &str) -> Self {
        let mut short = Self { bytes: [0; Self::MAX_BYTES], length: 0 };
        for letter in name.trim().chars().filter(|letter| !letter.is_control()) {
            let end = short.length + letter.len_utf8();
            let Some(free) = short.bytes.get_mut(short.length..end) else { break };
            letter.encode_utf8(free);
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
