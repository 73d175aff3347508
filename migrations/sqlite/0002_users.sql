-- Users and how they get in. Of what a browser or a mail holds, only digests are here.

-- password: what argon2id made of it. password_version rises when it is changed, not when it is only
-- hashed anew. disabled_at: since when the user cannot sign in.
CREATE TABLE users (
    id               BLOB PRIMARY KEY NOT NULL,
    email            TEXT NOT NULL UNIQUE,
    password         TEXT NOT NULL,
    password_version INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    disabled_at      INTEGER
) STRICT, WITHOUT ROWID;

-- The id follows from account and user: one membership for each pair.
CREATE TABLE memberships (
    id         BLOB PRIMARY KEY NOT NULL,
    account_id BLOB NOT NULL,
    user_id    BLOB NOT NULL,
    role       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_account ON memberships (account_id, user_id);
CREATE INDEX memberships_user ON memberships (user_id);

-- Gone once they are accepted.
CREATE TABLE invitations (
    id         BLOB PRIMARY KEY NOT NULL,
    account_id BLOB NOT NULL,
    email      TEXT NOT NULL,
    role       TEXT NOT NULL,
    digest     BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX invitations_account ON invitations (account_id, email);
CREATE INDEX invitations_expired ON invitations (expires_at);

-- expires_at moves on with use, up to ends_at.
CREATE TABLE sessions (
    id         BLOB PRIMARY KEY NOT NULL,
    user_id    BLOB NOT NULL,
    digest     BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ends_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user_id, id);
CREATE INDEX sessions_expired ON sessions (expires_at);

-- Gone once they are used, or the password is changed in another way.
CREATE TABLE password_resets (
    id         BLOB PRIMARY KEY NOT NULL,
    user_id    BLOB NOT NULL,
    digest     BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX password_resets_user ON password_resets (user_id);
CREATE INDEX password_resets_expired ON password_resets (expires_at);
