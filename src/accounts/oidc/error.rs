//! The errors of a sign-in with the provider.

/// The reason why a sign-in with the provider failed. The texts are for the log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OidcError {
    /// No provider is configured.
    #[error("no OpenID provider is configured (oidc.issuer)")]
    NoProvider,
    /// The sign-in was not started in this browser, or too long ago.
    #[error("the answer does not belong to a sign-in of this browser")]
    OtherBrowser,
    /// The provider or the person refused the sign-in.
    #[error("the OpenID provider refuses the sign-in: {0}")]
    Refused(String),
    /// The provider did not answer, or answered with an error of its own.
    #[error("the OpenID provider is not available: {0}")]
    Unreachable(String),
    /// The answer of the provider cannot be used.
    #[error("the OpenID provider cannot be used: {0}")]
    Unusable(String),
    /// The file with the client's secret cannot be read.
    #[error("the file named by oidc.client_secret_file cannot be read: {0}")]
    SecretFile(String),
    /// The ID token cannot be trusted.
    #[error("the ID token of the OpenID provider is refused: {0}")]
    IdToken(#[from] InvalidIdToken),
}

/// The reason why an ID token cannot be trusted.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidIdToken {
    /// It is not a signed token with the claims of an ID token.
    #[error("it is malformed")]
    Malformed,
    /// Its algorithm is not accepted.
    #[error("its algorithm is not one of RS256 to RS512, PS256 to PS512, ES256, ES384 and EdDSA")]
    Algorithm,
    /// The provider does not publish the key that it names.
    #[error("the provider does not publish its key")]
    UnknownKey,
    /// Its signature is wrong.
    #[error("its signature is wrong")]
    Signature,
    /// Another provider has issued it.
    #[error("it was issued by another provider (iss)")]
    Issuer,
    /// It was issued to another client.
    #[error("it was issued to another client (aud, azp)")]
    Audience,
    /// It has expired, or is not valid yet.
    #[error("it has expired or is not valid yet (exp, iat, nbf): compare the clocks")]
    Time,
    /// It belongs to another sign-in.
    #[error("it belongs to another sign-in (nonce)")]
    Nonce,
}
