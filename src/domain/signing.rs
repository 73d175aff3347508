//! Signs requests, so that the receiver can verify that they come from this service (Standard
//! Webhooks).

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::Timestamp;

/// The header with the message's id: the same on every attempt.
pub const ID_HEADER: &str = "webhook-id";
/// The header with the time of the attempt, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header with the signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// The maximum number of secrets that sign at the same time: the new one and, for a while, the
/// previous one.
pub const MAX_SECRETS: usize = 2;

const PREFIX: &str = "whsec_";
const NEW_BYTES: usize = 32;
const MIN_BYTES: usize = 24;
const MAX_BYTES: usize = 64;

/// A secret that the sender and the receiver of a message share.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Zeroizing<Vec<u8>>);

/// The error for a text that is not a signing secret. It does not quote the text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a signing secret: whsec_ and, in base64, 24 to 64 bytes")]
pub struct InvalidSecret;

impl SigningSecret {
    /// Returns a new secret of 32 bytes, drawn from `random`.
    pub fn new(random: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = Zeroizing::new(vec![0; NEW_BYTES]);
        random(&mut bytes);
        Self(bytes)
    }

    /// Returns the form that [`FromStr`] reads, for the receiver that verifies with it: secret.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(&*self.0)))
    }

    fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any length");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(hidden)")
    }
}

impl FromStr for SigningSecret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(InvalidSecret)?;
        let bytes = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| InvalidSecret)?);
        let fits = (MIN_BYTES..=MAX_BYTES).contains(&bytes.len());
        if fits { Ok(Self(bytes)) } else { Err(InvalidSecret) }
    }
}

/// The values of the headers with which a message is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The value of [`TIMESTAMP_HEADER`].
    pub timestamp: String,
    /// The value of [`SIGNATURE_HEADER`]: one signature for each secret, separated by blanks.
    pub signatures: String,
}

impl Signature {
    /// Signs a message that is sent at `at` with each of the secrets, in their order.
    ///
    /// `id` must not contain a dot, because a dot separates it from the next part of the signed
    /// text.
    pub fn new(secrets: &[SigningSecret], id: &str, at: Timestamp, body: &[u8]) -> Self {
        debug_assert!(!id.contains('.'), "{id}");
        let seconds = at.as_millis().div_euclid(1_000);
        let signatures = secrets.iter().map(|secret| secret.sign(id, seconds, body));
        Self {
            timestamp: seconds.to_string(),
            signatures: signatures.collect::<Vec<_>>().join(" "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8, bytes: usize) -> SigningSecret {
        SigningSecret(Zeroizing::new(vec![byte; bytes]))
    }

    #[test]
    fn the_vector_of_the_specification_comes_out() {
        let secret: SigningSecret =
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().expect("a secret");
        let at = Timestamp::from_millis(1_614_265_330_999);
        let body = br#"{"test": 2432232314}"#;
        let signed = Signature::new(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body);
        assert_eq!(signed.timestamp, "1614265330");
        assert_eq!(signed.signatures, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn every_secret_signs_in_its_order() {
        let at = Timestamp::from_millis(1_000);
        let of = |secrets: &[SigningSecret]| Signature::new(secrets, "job_1", at, b"").signatures;
        let [new, old] = [secret(1, 32), secret(2, 32)];
        let both = format!("{} {}", of(std::slice::from_ref(&new)), of(std::slice::from_ref(&old)));
        assert_eq!(of(&[new, old]), both);
        assert_eq!(of(&[]), "");
    }

    #[test]
    fn a_secret_reads_back_and_hides_itself() {
        let new = SigningSecret::new(|bytes| bytes.fill(7));
        assert_eq!(new, secret(7, 32));
        assert_eq!(new.reveal().parse(), Ok(new.clone()));
        assert_eq!(format!("{new:?}"), "SigningSecret(hidden)");
        for bytes in [24, 64] {
            assert!(secret(7, bytes).reveal().parse::<SigningSecret>().is_ok());
        }
        for wrong in [
            String::new(),
            "whsec_".to_owned(),
            "whsec_%".to_owned(),
            new.reveal().replace("whsec_", "whsk_"),
            secret(7, 23).reveal().to_string(),
            secret(7, 65).reveal().to_string(),
        ] {
            assert_eq!(wrong.parse::<SigningSecret>(), Err(InvalidSecret), "{wrong}");
        }
    }
}
