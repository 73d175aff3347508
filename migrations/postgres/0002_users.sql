-- Users and how they get in. Of what a browser or a mail holds, only digests are here.

-- password: what argon2id made of it. password_version rises when it is changed, not when it is only
-- hashed anew. disabled_at: since when the user cannot sign in.
CREATE TABLE users (
    id               uuid PRIMARY KEY,
    email            text COLLATE "C" NOT NULL UNIQUE,
    password         text NOT NULL,
    password_version bigint NOT NULL,
    created_at       bigint NOT NULL,
    disabled_at      bigint
);

-- The id follows from account and user: one membership for each pair.
CREATE TABLE memberships (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL,
    user_id    uuid NOT NULL,
    role       text NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX memberships_account ON memberships (account_id, user_id);
CREATE INDEX memberships_user ON memberships (user_id);

-- Gone once they are accepted.
CREATE TABLE invitations (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL,
    email      text NOT NULL,
    role       text NOT NULL,
    digest     bytea NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX invitations_account ON invitations (account_id, email);
CREATE INDEX invitations_expired ON invitations (expires_at);

-- expires_at moves on with use, up to ends_at.
CREATE TABLE sessions (
    id         uuid PRIMARY KEY,
    user_id    uuid NOT NULL,
    digest     bytea NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    ends_at    bigint NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id, id);
CREATE INDEX sessions_expired ON sessions (expires_at);

-- Gone once they are used, or the password is changed in another way.
CREATE TABLE password_resets (
    id         uuid PRIMARY KEY,
    user_id    uuid NOT NULL,
    digest     bytea NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX password_resets_user ON password_resets (user_id);
CREATE INDEX password_resets_expired ON password_resets (expires_at);
