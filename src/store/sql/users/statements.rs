//! The statements on users, and their rows.

use crate::domain::user::{EmailAddress, TimeDisplay};
use crate::store::sql::encoding::rows::{ReadColumn, read_rows, unfit};
use crate::store::{AccountMember, Invitation, Membership, PasswordHash, Session, User};

/// Adds a user, unless the address is in use. Parameters: id, address, password hash, instant,
/// instant of the confirmation or NULL.
pub(in crate::store) const INSERT_USER: &str = "
    INSERT INTO users (id, email, password, password_version, created_at, email_confirmed_at)
    VALUES ($1, $2, $3, 1, $4, $5) ON CONFLICT (email) DO NOTHING";
/// Marks the address of a user as confirmed. Parameters: user, instant.
pub(in crate::store) const CONFIRM_EMAIL: &str = "
    UPDATE users SET email_confirmed_at = $2 WHERE id = $1 AND email_confirmed_at IS NULL";
/// Reads `true` if the user's address is confirmed. Parameter: user.
pub(in crate::store) const HAS_CONFIRMED_EMAIL: &str =
    "SELECT email_confirmed_at IS NOT NULL FROM users WHERE id = $1";
/// Deletes a user. Parameter: user.
pub(in crate::store) const DELETE_USER: &str = "DELETE FROM users WHERE id = $1";
/// Reads a user. Parameter: user.
pub(in crate::store) const USER: &str = "SELECT * FROM users WHERE id = $1";
/// Reads the user with an address. Parameter: address.
pub(in crate::store) const USER_NAMED: &str = "SELECT * FROM users WHERE email = $1";
/// Reads all users in the order of their addresses.
pub(in crate::store) const USERS: &str = "SELECT * FROM users ORDER BY email";
/// Sets a password and raises its version, if the current version is the given one or none is
/// given. Parameters: user, password hash, version or NULL.
pub(in crate::store) const SET_PASSWORD: &str = "
    UPDATE users SET password = $2, password_version = password_version + 1
    WHERE id = $1 AND (CAST($3 AS bigint) IS NULL OR password_version = $3)";
/// Replaces the hash of an unchanged password. Parameters: user, version, password hash.
pub(in crate::store) const REHASH_PASSWORD: &str = "
    UPDATE users SET password = $3 WHERE id = $1 AND password_version = $2";
/// Disables or enables a user. Parameters: user, instant or NULL.
pub(in crate::store) const DISABLE_USER: &str = "
    UPDATE users SET disabled_at = $2 WHERE id = $1 AND (disabled_at IS NULL) <> ($2 IS NULL)";
/// Makes a user an operator, or takes that right away. Parameters: user, instant or NULL.
pub(in crate::store) const SET_OPERATOR: &str = "
    UPDATE users SET operator_since = $2
    WHERE id = $1 AND (operator_since IS NULL) <> ($2 IS NULL)";
/// Sets how a user sees times. Parameters: user, zone or NULL, `true` for the 12-hour clock.
pub(in crate::store) const SET_TIME_DISPLAY: &str = "
    UPDATE users SET time_zone = $2, has_12_hour_clock = $3
    WHERE id = $1
      AND (coalesce(time_zone, '') <> coalesce($2, '') OR has_12_hour_clock <> $3)";
/// Reads `true` if a user exists. Parameter: user.
pub(in crate::store) const HAS_USER: &str = "SELECT EXISTS (SELECT 1 FROM users WHERE id = $1)";
/// Deletes the password resets of a user. Parameter: user.
pub(in crate::store) const DELETE_RESETS: &str = "DELETE FROM password_resets WHERE user_id = $1";
/// Ends all sessions of a user. Parameter: user.
pub(in crate::store) const END_SESSIONS: &str = "DELETE FROM sessions WHERE user_id = $1";
/// Ends one session of a user. Parameters: user, session.
pub(in crate::store) const END_SESSION: &str =
    "DELETE FROM sessions WHERE user_id = $1 AND id = $2";
/// Ends all sessions of a user but one. Parameters: user, session that continues.
pub(in crate::store) const END_OTHERS: &str =
    "DELETE FROM sessions WHERE user_id = $1 AND id <> $2";

/// Reads the members of an account. Parameter: account.
pub(in crate::store) const MEMBERS: &str = "
    SELECT m.user_id, u.email, m.role, m.created_at
    FROM memberships AS m JOIN users AS u ON u.id = m.user_id
    WHERE m.account_id = $1 ORDER BY u.email";
/// Reads the accounts of a user with their names, and the user's roles. Parameter: user.
pub(in crate::store) const MEMBERSHIPS: &str = "
    SELECT m.account_id, a.name, m.role
    FROM memberships AS m JOIN accounts AS a ON a.id = m.account_id
    WHERE m.user_id = $1 ORDER BY a.name";
/// Reads the ids of the accounts of a user. Parameter: user.
pub(in crate::store) const ACCOUNTS_OF: &str = "
    SELECT m.account_id FROM memberships AS m JOIN accounts AS a ON a.id = m.account_id
    WHERE m.user_id = $1 ORDER BY m.account_id";
/// Reads the role of a member who is not disabled. Parameters: account, user.
pub(in crate::store) const ROLE: &str = "
    SELECT m.role FROM memberships AS m JOIN users AS u ON u.id = m.user_id
    JOIN accounts AS a ON a.id = m.account_id
    WHERE m.account_id = $1 AND m.user_id = $2 AND u.disabled_at IS NULL";
/// Reads the role of a member, who may be disabled. Parameters: account, user.
pub(in crate::store) const MEMBER_ROLE: &str =
    "SELECT role FROM memberships WHERE account_id = $1 AND user_id = $2";
/// Counts the other owners who are not disabled. Parameters: account, user.
pub(in crate::store) const OTHER_OWNERS: &str = "
    SELECT count(*) FROM memberships AS m JOIN users AS u ON u.id = m.user_id
    WHERE m.account_id = $1 AND m.user_id <> $2 AND m.role = 'owner' AND u.disabled_at IS NULL";
/// Adds a member, if account and user exist. Parameters: id, account, user, role, instant.
pub(in crate::store) const ADD_MEMBER: &str = "
    INSERT INTO memberships (id, account_id, user_id, role, created_at)
    SELECT $1, a.id, u.id, $4, $5 FROM accounts AS a CROSS JOIN users AS u
    WHERE a.id = $2 AND u.id = $3 ON CONFLICT (id) DO NOTHING";
/// Sets the role of a member. Parameters: account, user, role.
pub(in crate::store) const SET_ROLE: &str =
    "UPDATE memberships SET role = $3 WHERE account_id = $1 AND user_id = $2";
/// Removes a member. Parameters: account, user.
pub(in crate::store) const REMOVE_MEMBER: &str =
    "DELETE FROM memberships WHERE account_id = $1 AND user_id = $2";

/// Adds an invitation, if the account exists. Parameters: id, account, address, role, digest of the
/// token, instant, expiry.
pub(in crate::store) const INSERT_INVITATION: &str = "
    INSERT INTO invitations (id, account_id, email, role, digest, created_at, expires_at)
    SELECT $1, id, $3, $4, $5, $6, $7 FROM accounts WHERE id = $2";
/// Deletes earlier invitations to an address. Parameters: account, address, id of the invitation to
/// keep.
pub(in crate::store) const REPLACE_INVITATIONS: &str =
    "DELETE FROM invitations WHERE account_id = $1 AND email = $2 AND id <> $3";
/// Reads the open invitations of an account, newest first. Parameters: account, instant.
pub(in crate::store) const INVITATIONS: &str = "
    SELECT id, email, role, created_at, expires_at FROM invitations
    WHERE account_id = $1 AND expires_at > $2 ORDER BY created_at DESC, id DESC";
/// Deletes an invitation. Parameters: account, id.
pub(in crate::store) const DELETE_INVITATION: &str =
    "DELETE FROM invitations WHERE account_id = $1 AND id = $2";
/// Takes an open invitation to the user's address. Parameters: digest of the token, instant, user.
pub(in crate::store) const USE_INVITATION: &str = "
    DELETE FROM invitations
    WHERE digest = $1 AND expires_at > $2 AND email = (SELECT email FROM users WHERE id = $3)
      AND account_id IN (SELECT id FROM accounts)
    RETURNING account_id, role, id";
/// Reads `true` if an open invitation with a token is for an address. Parameters: digest of the
/// token, instant, address.
pub(in crate::store) const INVITED: &str = "
    SELECT EXISTS (SELECT 1 FROM invitations WHERE digest = $1 AND expires_at > $2 AND email = $3)";

/// Reads the digests of the open invitations to a user's address. Parameters: instant, user.
pub(in crate::store) const INVITATIONS_FOR: &str = "
    SELECT digest FROM invitations
    WHERE expires_at > $1 AND email = (SELECT email FROM users WHERE id = $2)
      AND account_id IN (SELECT id FROM accounts)
    ORDER BY id";

/// Reads the user with an identity. Parameters: id, issuer, subject.
pub(in crate::store) const IDENTITY_USER: &str = "
    SELECT u.* FROM identities AS i JOIN users AS u ON u.id = i.user_id
    WHERE i.id = $1 AND i.issuer = $2 AND i.subject = $3";
/// Adds an identity of a user. Parameters: id, user, issuer, subject, instant.
pub(in crate::store) const INSERT_IDENTITY: &str = "
    INSERT INTO identities (id, user_id, issuer, subject, created_at)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING";
/// Reads the user with an identity. Parameter: id.
pub(in crate::store) const IDENTITY_OWNER: &str = "SELECT user_id FROM identities WHERE id = $1";
/// Reads `true` if a user has an identity of an issuer. Parameters: user, issuer.
pub(in crate::store) const HAS_IDENTITY: &str = "
    SELECT EXISTS (SELECT 1 FROM identities WHERE user_id = $1 AND issuer = $2)";
/// Deletes all identities of a user. Parameter: user.
pub(in crate::store) const DELETE_IDENTITIES: &str = "DELETE FROM identities WHERE user_id = $1";
/// Deletes an identity. Parameter: id.
pub(in crate::store) const DELETE_IDENTITY: &str = "DELETE FROM identities WHERE id = $1";

/// Begins a session, if the password is still the one that was checked. Parameters: id, user,
/// version of the password, digest of the token, instant, expiry, latest end.
pub(in crate::store) const INSERT_SESSION: &str = "
    INSERT INTO sessions (id, user_id, digest, created_at, expires_at, ends_at)
    SELECT $1, id, $4, $5, $6, $7 FROM users
    WHERE id = $2 AND password_version = $3 AND disabled_at IS NULL";
/// Reads an open session and its user. Parameters: digest of the token, instant.
pub(in crate::store) const SESSION: &str = "
    SELECT s.id, s.user_id, u.email, u.operator_since, u.time_zone, u.has_12_hour_clock,
        s.created_at, s.expires_at, s.ends_at
    FROM sessions AS s JOIN users AS u ON u.id = s.user_id
    WHERE s.digest = $1 AND s.expires_at > $2 AND u.disabled_at IS NULL";
/// Reads the open sessions of a user, newest first. Parameters: user, instant.
pub(in crate::store) const SESSIONS: &str = "
    SELECT s.id, s.user_id, u.email, u.operator_since, u.time_zone, u.has_12_hour_clock,
        s.created_at, s.expires_at, s.ends_at
    FROM sessions AS s JOIN users AS u ON u.id = s.user_id
    WHERE s.user_id = $1 AND s.expires_at > $2 AND u.disabled_at IS NULL ORDER BY s.id DESC";
/// Extends an open session, up to its latest end. Parameters: id, instant, new expiry.
pub(in crate::store) const EXTEND_SESSION: &str = "
    UPDATE sessions SET expires_at = CASE WHEN $3 < ends_at THEN $3 ELSE ends_at END
    WHERE id = $1 AND expires_at > $2 AND expires_at < $3";

/// Adds a password reset, if the user is not disabled. Parameters: id, user, digest of the token,
/// instant, expiry.
pub(in crate::store) const INSERT_RESET: &str = "
    INSERT INTO password_resets (id, user_id, digest, created_at, expires_at)
    SELECT $1, id, $3, $4, $5 FROM users WHERE id = $2 AND disabled_at IS NULL";
/// Reads the user of an open password reset. Parameters: digest of the token, instant.
pub(in crate::store) const RESET: &str =
    "SELECT user_id FROM password_resets WHERE digest = $1 AND expires_at > $2";

fn email(row: &impl ReadColumn<String>) -> sqlx::Result<EmailAddress> {
    row.read("email")?.parse().map_err(|_| unfit("email", "an address in another form"))
}

fn password(row: &impl ReadColumn<String>) -> sqlx::Result<PasswordHash> {
    row.read("password").map(PasswordHash)
}

/// Reads the display of times. A zone that this version does not know is left out: the user then
/// sees the zone of the browser.
fn time_display(
    row: &(impl ReadColumn<Option<String>> + ReadColumn<bool>),
) -> sqlx::Result<TimeDisplay> {
    let zone: Option<String> = row.read("time_zone")?;
    let zone = zone.and_then(|name| name.parse().ok());
    Ok(TimeDisplay { zone, has_12_hour_clock: row.read("has_12_hour_clock")? })
}

read_rows! {
    Invitation { id, email by email, role, created_at, expires_at }
    AccountMember { user: "user_id", email by email, role, since: "created_at" }
    Membership { account: "account_id", name, role }
    Session {
        id, user: "user_id", email by email, operator_since, time_display by time_display, created_at,
        expires_at, ends_at,
    }
    User {
        id, email by email, password by password, password_version, created_at, disabled_at,
        operator_since, email_confirmed_at,
    }
}
