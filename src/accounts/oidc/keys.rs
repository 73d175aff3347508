//! The public keys of a provider, and the signatures that they verify.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

use super::error::InvalidIdToken;

/// The maximum number of keys that are read. A provider has few.
const MAX_KEYS: usize = 100;

/// The public keys of a provider (RFC 7517).
#[derive(Debug, Default)]
pub(super) struct JsonWebKeys(Vec<JsonWebKey>);

#[derive(Debug)]
struct JsonWebKey {
    id: Option<String>,
    /// The only algorithm of the key, if the provider names one.
    algorithm: Option<String>,
    material: KeyMaterial,
}

#[derive(Debug)]
enum KeyMaterial {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A signature algorithm, with the parameters of its verification. Neither `none` nor the
/// symmetric algorithms are among them: with those, the public key would be the secret.
#[derive(Clone, Copy)]
enum SignatureAlgorithm {
    Rsa(&'static RsaParameters),
    P256,
    P384,
    Ed25519,
}

impl SignatureAlgorithm {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Self::Rsa(&RSA_PSS_2048_8192_SHA256),
            "PS384" => Self::Rsa(&RSA_PSS_2048_8192_SHA384),
            "PS512" => Self::Rsa(&RSA_PSS_2048_8192_SHA512),
            "ES256" => Self::P256,
            "ES384" => Self::P384,
            "EdDSA" | "Ed25519" => Self::Ed25519,
            _ => return None,
        })
    }
}

/// A published key. Numbers and coordinates are in base64url.
#[derive(Deserialize)]
struct PublishedKey {
    kty: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    kid: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct PublishedKeys {
    keys: Vec<Value>,
}

impl JsonWebKeys {
    /// Reads published keys. Keys of other kinds or for other purposes are left out. Returns `None`
    /// if the text is not a list of keys.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let PublishedKeys { keys } = serde_json::from_slice(body).ok()?;
        let keys = keys.into_iter().take(MAX_KEYS).filter_map(|key| {
            let key: PublishedKey = serde_json::from_value(key).ok()?;
            let is_for_signatures = key.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
            let material = key.material().filter(|_| is_for_signatures)?;
            Some(JsonWebKey { id: key.kid, algorithm: key.alg, material })
        });
        Some(Self(keys.collect()))
    }

    /// Returns `true` if no key can verify a signature.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Verifies the signature of a message with the key of this id. Without an id, the provider
    /// must have only one key for the algorithm.
    pub(super) fn verify(
        &self,
        (algorithm, id): (&str, Option<&str>),
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidIdToken> {
        let named = SignatureAlgorithm::named(algorithm).ok_or(InvalidIdToken::Algorithm)?;
        let fits = |key: &&JsonWebKey| {
            key.material.is_for(named)
                && key.algorithm.as_deref().is_none_or(|its| its == algorithm)
                && (id.is_none() || key.id.as_deref() == id)
        };
        let mut keys = self.0.iter().filter(fits);
        let key = keys.next().ok_or(InvalidIdToken::UnknownKey)?;
        if id.is_none() && keys.next().is_some() {
            return Err(InvalidIdToken::UnknownKey);
        }
        key.material.verify(named, message, signature).ok_or(InvalidIdToken::Signature)
    }
}

impl PublishedKey {
    fn material(&self) -> Option<KeyMaterial> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        match (&*self.kty, self.crv.as_deref()) {
            ("RSA", _) => {
                let number = |text| Some(without_zeros(bytes(text)?));
                Some(KeyMaterial::Rsa { modulus: number(&self.n)?, exponent: number(&self.e)? })
            }
            ("EC", Some(curve @ ("P-256" | "P-384"))) => {
                // The form of an uncompressed point.
                let point = [vec![4], bytes(&self.x)?, bytes(&self.y)?].concat();
                let is_p256 = curve == "P-256";
                Some(if is_p256 { KeyMaterial::P256(point) } else { KeyMaterial::P384(point) })
            }
            ("OKP", Some("Ed25519")) => Some(KeyMaterial::Ed25519(bytes(&self.x)?)),
            _ => None,
        }
    }
}

/// Removes leading zeros, which some providers write and the library refuses.
fn without_zeros(mut number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..zeros);
    number
}

impl KeyMaterial {
    fn is_for(&self, algorithm: SignatureAlgorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::Rsa { .. }, SignatureAlgorithm::Rsa(_))
                | (Self::P256(_), SignatureAlgorithm::P256)
                | (Self::P384(_), SignatureAlgorithm::P384)
                | (Self::Ed25519(_), SignatureAlgorithm::Ed25519)
        )
    }

    /// Returns `None` if the signature is not by this key.
    fn verify(&self, by: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> Option<()> {
        let simple = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).ok()
        };
        match (self, by) {
            (Self::Rsa { modulus, exponent }, SignatureAlgorithm::Rsa(parameters)) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).ok()
            }
            (Self::P256(key), SignatureAlgorithm::P256) => simple(&ECDSA_P256_SHA256_FIXED, key),
            (Self::P384(key), SignatureAlgorithm::P384) => simple(&ECDSA_P384_SHA384_FIXED, key),
            (Self::Ed25519(key), SignatureAlgorithm::Ed25519) => simple(&ED25519, key),
            _ => None,
        }
    }
}
