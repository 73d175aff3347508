-- The people at an OpenID provider who sign in as a user. The id follows from issuer and subject: a
-- person is one user.
CREATE TABLE identities (
    id         uuid PRIMARY KEY,
    user_id    uuid NOT NULL,
    issuer     text NOT NULL,
    subject    text NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX identities_user ON identities (user_id);

-- email_confirmed_at: the time at which an operator, a mailed link or the provider confirmed the
-- address. Empty for users who signed up without such a proof, and for users of earlier releases. An
-- identity is linked only to a user with a confirmed address.
ALTER TABLE users ADD COLUMN email_confirmed_at bigint;
