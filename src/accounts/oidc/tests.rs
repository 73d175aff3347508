//! ID tokens that are right and wrong, signed with generated keys.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
};
use serde_json::{Value, json};

use super::error::InvalidIdToken;
use super::id_token::{VerifiedIdentity, verify};
use super::keys::JsonWebKeys;
use super::settings::{OidcJoinSettings, OidcSettings};
use crate::domain::user::Role;
use crate::domain::{AccountId, Timestamp};

/// A key for tests only. The library cannot generate RSA keys.
const RSA_KEY: &str = "\
    MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCuFvnQn/UX/izEJpbaW4yTqs28LZsHmNjYTbRv+1\
    PnSeqDWEnyFRJWF2jO9vdPePSjttpFUGYkFpaRFFaRx6jdr6Rslrjil4TRjUIoXLbQHiaYk7poSgCh1QCZr9F4itMi\
    eh7pB4PHj+zyNv5EvqrRyZCRuQracxnBcn+GNn+a0Ton7pACEOz0joTimv+W7GSLCcMBfTDcQc+FN96QQctTg/t+8b\
    3F5rHbPMpkMV/EHvMB0e5coW+EVyUMpewacgznVJEaRapCfSZ5hsJG5EmK/yk19Wn1z/dR9Pxm80662BJ8Tfwo+/lX\
    HYgSEGv30F4jqNhHMEt5dmjhKIkKszWVAgMBAAECggEACeawn+xDtPD10X9zBkmSqItcVsmD5F4NvIT0MDJBHAnDgW\
    OHa8dFsF51zYo/l+YvM73LPYn3D90LrzCoQ8jxPQ/SRYLE/SN/oFNtDH1Jax4WiohMX8YQXHk60YLYYlyy6WZnVPri\
    byUrur2PSeWg3XxIm/Zu5uxeQ0xPHcOtD5GiuM++d4wvOo20P0cBvXHOjxM8oHpdfa+lWPv43vqNOZ59/bgIGEqiUj\
    hCIObMkDWqA5ahRqFZK0TvARCvz60YVzgysr2M8T4j8SikfOcngE5gfcOnshy7BXHjqOp4PzvL4/v+RHmcZp+Arqge\
    6qEMQDjNoTh465o67HfZrgd6gQKBgQDcPn9xbOximUea4V4srpfqOcnQZq54e29ZCzRmRWd9puuy4NfETtPQaKL6CO\
    zL6TbYtpgiqdYxbq8rB25LNfRNTtqD0u5aP8e5Fnp3lATWbiedQH6wf3UOxzFaznIJQNO7Ub3h2/LjIuEGYkivQ4AJ\
    aFeS1vee1/AEhQncKFbwkQKBgQDKWkToJMfERfelZJpMcX7sRMOERokUOaQlY4hbMpQ75ZMLee1vh6UKDHQ+cUYgFH\
    JGcFx9RNB54w2y0gB8SHm3ykHIwufLiZ3yxPK4e8TRs6E7upINFkNLqSaMel4eNgTbyHKNYSUMex9jLlQbNG5C+Grs\
    Mjez/2cVMMBXlvW2xQKBgQDKPBEmA9CjUQAxNZQWD1OrXdj0pfS66Qz7hJBfAIfhFy8Cl/dIaOGSUyKj2SIms0ULhc\
    74tV7bETmDl1UtdqOXgTqhJUR8Vmh8iil2N9KhW5DAkoJCayb/pOSq7zpDSOWi8ZIcHK1Q56wdAo6fcKnW+ZrAWOgT\
    UVExtT+yitAaIQKBgGdJZFrKS12YCSxXCZtzY0HeZ54hEt9L/MlI4NUMIDXinQgCmHuRVWCnsr4cu5qsVRg3Sj523a\
    MZjmh0YOMPa3Gwv5tmQULXX9QHS413P6N6eRYvyVT8xCTellqmK1xoXlqBGlen+m1Ae2j4wN2SCaYNfyZJC73I5Ckg\
    1UzgNVOxAoGAQmzPHgXmI+lofl85/oLLzGb+ixZsjBFnfDa6Aak3Ru3ijSzjPYUnDdFTkh2ZufLxiphNOKg7DJvz2N\
    TLJw5SzRKeVaqBnHR5kQNBBaKIw7mb9zUebYvPVMeKCFSx++0Sdz8LUJz7qP/XK78P8fojNUjtJM3zB6iIAlMHvcBH\
    jWM=";

const NOW: i64 = 1_893_456_000;
const NONCE: &str = "the-nonce";

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn settings() -> OidcSettings {
    OidcSettings {
        issuer: "https://id.example".into(),
        client_id: "punctual".into(),
        client_secret: "hunter2".into(),
        client_secret_file: None,
        name: "Example".into(),
        scopes: "openid email".into(),
        redirect_url: "https://punctual.example/dashboard/oidc/callback".into(),
        join: Some(OidcJoinSettings {
            claim: "groups".into(),
            value: "staff".into(),
            account: AccountId::from_bytes([7; 16]),
            role: Role::Viewer,
        }),
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://id.example",
        "sub": "1234",
        "aud": "punctual",
        "exp": NOW + 300,
        "iat": NOW,
        "nonce": NONCE,
        "email": "Ann@Example.com",
        "email_verified": true,
    })
}

/// Returns the claims with another value for one of them; `null` removes it.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    claims
}

/// Signs a message.
type SignMessage = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// A generated key pair, which signs tokens.
struct Signer {
    algorithm: &'static str,
    published: Value,
    sign: SignMessage,
}

impl Signer {
    fn ecdsa(
        algorithm: &'static str,
        curve: &str,
        signing: &'static EcdsaSigningAlgorithm,
    ) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(signing, &random).expect("generated");
        let pair = EcdsaKeyPair::from_pkcs8(signing, pkcs8.as_ref(), &random).expect("a pair");
        let (x, y) = pair.public_key().as_ref()[1..].split_at(signing_half(curve));
        let published = json!({ "kty": "EC", "crv": curve, "x": encoded(x), "y": encoded(y) });
        let sign = move |message: &[u8]| {
            pair.sign(&SystemRandom::new(), message).expect("signed").as_ref().to_vec()
        };
        Self { algorithm, published: named(published), sign: Box::new(sign) }
    }

    fn es256() -> Self {
        Self::ecdsa("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    fn eddsa() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("generated");
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a pair");
        let x = encoded(pair.public_key());
        let published = named(json!({ "kty": "OKP", "crv": "Ed25519", "x": x }));
        let sign = move |message: &[u8]| pair.sign(message).as_ref().to_vec();
        Self { algorithm: "EdDSA", published, sign: Box::new(sign) }
    }

    fn rsa(algorithm: &'static str, padding: &'static dyn RsaEncoding) -> Self {
        let pkcs8 = STANDARD.decode(RSA_KEY).expect("base64");
        let pair = RsaKeyPair::from_pkcs8(&pkcs8).expect("a pair");
        let public: ring::rsa::PublicKeyComponents<Vec<u8>> = pair.public().into();
        // Some providers write a leading zero.
        let modulus = encoded([vec![0], public.n].concat());
        let published = json!({ "kty": "RSA", "n": modulus, "e": encoded(public.e) });
        let sign = move |message: &[u8]| {
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(padding, &SystemRandom::new(), message, &mut signature).expect("signed");
            signature
        };
        Self { algorithm, published: named(published), sign: Box::new(sign) }
    }

    fn header(&self) -> Value {
        json!({ "alg": self.algorithm, "kid": "k1", "typ": "JWT" })
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        format!("{signed}.{}", encoded((self.sign)(signed.as_bytes())))
    }

    fn keys(&self) -> JsonWebKeys {
        keys(std::slice::from_ref(&self.published))
    }
}

fn signing_half(curve: &str) -> usize {
    if curve == "P-256" { 32 } else { 48 }
}

fn named(mut key: Value) -> Value {
    key["kid"] = "k1".into();
    key
}

fn keys(published: &[Value]) -> JsonWebKeys {
    let body = json!({ "keys": published }).to_string();
    JsonWebKeys::read(body.as_bytes()).expect("keys")
}

fn read(token: &str, keys: &JsonWebKeys) -> Result<VerifiedIdentity, InvalidIdToken> {
    verify(token, keys, (&settings(), NONCE), Timestamp::from_millis(NOW * 1_000))
}

#[test]
fn a_token_of_each_algorithm_is_accepted_and_a_changed_one_is_not() {
    for signer in [
        Signer::es256(),
        Signer::ecdsa("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
        Signer::eddsa(),
        Signer::rsa("RS256", &RSA_PKCS1_SHA256),
        Signer::rsa("RS384", &RSA_PKCS1_SHA384),
        Signer::rsa("RS512", &RSA_PKCS1_SHA512),
        Signer::rsa("PS256", &RSA_PSS_SHA256),
        Signer::rsa("PS384", &RSA_PSS_SHA384),
        Signer::rsa("PS512", &RSA_PSS_SHA512),
    ] {
        let token = signer.token(&signer.header(), &claims());
        let person = read(&token, &signer.keys()).expect(signer.algorithm);
        assert_eq!(person.identity.subject, "1234");
        assert_eq!(person.email.expect("confirmed").as_str(), "ann@example.com");
        assert_eq!(person.joins, None);
        let forged = encoded(with("sub", json!("1235")).to_string());
        let parts: Vec<&str> = token.split('.').collect();
        let forged = format!("{}.{forged}.{}", parts[0], parts[2]);
        let refused = read(&forged, &signer.keys());
        assert_eq!(refused, Err(InvalidIdToken::Signature), "{}", signer.algorithm);
        let signature = URL_SAFE_NO_PAD.decode(parts[2]).expect("base64");
        let short = encoded(&signature[1..]);
        let short = format!("{}.{}.{short}", parts[0], parts[1]);
        assert_eq!(read(&short, &signer.keys()), Err(InvalidIdToken::Signature));
    }
}

#[test]
fn no_token_is_accepted_without_a_private_key() {
    let signer = Signer::rsa("RS256", &RSA_PKCS1_SHA256);
    let keys = signer.keys();
    let body = encoded(claims().to_string());
    for algorithm in ["none", "None", "HS256", "HS384", "HS512", "", "RS1", "ES256K"] {
        let header = encoded(json!({ "alg": algorithm, "kid": "k1" }).to_string());
        let signed = format!("{header}.{body}");
        // The public key as a shared secret.
        let secret = signer.published.to_string();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let mac = encoded(ring::hmac::sign(&key, signed.as_bytes()));
        for signature in [mac.as_str(), ""] {
            let refused = read(&format!("{signed}.{signature}"), &keys);
            assert_eq!(refused, Err(InvalidIdToken::Algorithm), "{algorithm}");
        }
    }
    let other = Signer::rsa("PS256", &RSA_PSS_SHA256);
    let mut only = signer.published.clone();
    only["alg"] = "RS256".into();
    let token = other.token(&other.header(), &claims());
    assert_eq!(read(&token, &self::keys(&[only])), Err(InvalidIdToken::UnknownKey));
}

#[test]
fn a_key_is_one_that_the_provider_publishes_for_signatures() {
    let (signer, other) = (Signer::es256(), Signer::es256());
    let token = signer.token(&signer.header(), &claims());
    let renamed = |name: &str, value: Value| {
        let mut key = signer.published.clone();
        key[name] = value;
        key
    };
    let unknown = Err(InvalidIdToken::UnknownKey);
    assert_eq!(read(&token, &keys(&[])), unknown);
    assert_eq!(read(&token, &keys(&[renamed("kid", json!("k2"))])), unknown);
    assert_eq!(read(&token, &keys(&[renamed("use", json!("enc"))])), unknown);
    assert_eq!(read(&token, &keys(&[renamed("crv", json!("secp256k1"))])), unknown);
    assert_eq!(read(&token, &keys(&[renamed("x", json!("?"))])), unknown);
    assert_eq!(read(&token, &other.keys()), Err(InvalidIdToken::Signature));
    let strange = [json!(7), json!({ "kty": "oct", "k": "AAAA", "kid": "k1" })];
    let published = [&strange[..], std::slice::from_ref(&signer.published)].concat();
    assert!(read(&token, &keys(&published)).is_ok(), "other keys do no harm");
    let nameless = signer.token(&json!({ "alg": "ES256" }), &claims());
    assert!(read(&nameless, &signer.keys()).is_ok());
    let both = keys(&[signer.published.clone(), renamed("kid", json!("k2"))]);
    assert_eq!(read(&nameless, &both), unknown, "it could be either");
    assert!(JsonWebKeys::read(b"{}").is_none() && JsonWebKeys::read(b"").is_none());
}

#[test]
fn a_token_is_of_this_provider_for_this_client_and_this_sign_in() {
    let signer = Signer::es256();
    let check = |claims: &Value| read(&signer.token(&signer.header(), claims), &signer.keys());
    let mut two = with("aud", json!(["punctual", "other"]));
    assert_eq!(check(&two), Err(InvalidIdToken::Audience), "it lacks azp");
    two["azp"] = "punctual".into();
    assert!(check(&two).is_ok() && check(&with("aud", json!(["punctual"]))).is_ok());
    for (name, value, error) in [
        ("iss", json!("https://id.example/"), InvalidIdToken::Issuer),
        ("iss", json!("https://evil.example"), InvalidIdToken::Issuer),
        ("iss", Value::Null, InvalidIdToken::Malformed),
        ("aud", json!("other"), InvalidIdToken::Audience),
        ("aud", json!([]), InvalidIdToken::Audience),
        ("aud", json!(7), InvalidIdToken::Malformed),
        ("azp", json!("other"), InvalidIdToken::Audience),
        ("nonce", json!("other"), InvalidIdToken::Nonce),
        ("nonce", Value::Null, InvalidIdToken::Nonce),
        ("sub", json!(""), InvalidIdToken::Malformed),
        ("sub", json!("a\0b"), InvalidIdToken::Malformed),
        ("sub", json!("a".repeat(256)), InvalidIdToken::Malformed),
        ("sub", json!(7), InvalidIdToken::Malformed),
    ] {
        assert_eq!(check(&with(name, value.clone())), Err(error), "{name} {value}");
    }
    for token in ["", ".", "..", "a.b", "a.b.c", "e30.e30.e30.e30"] {
        assert_eq!(read(token, &signer.keys()), Err(InvalidIdToken::Malformed), "{token}");
    }
    let mut critical = signer.header();
    critical["crit"] = json!(["exp"]);
    let refused = read(&signer.token(&critical, &claims()), &signer.keys());
    assert_eq!(refused, Err(InvalidIdToken::Malformed));
}

#[test]
fn a_token_is_valid_now_within_a_minute() {
    let signer = Signer::es256();
    let check = |claims: &Value| read(&signer.token(&signer.header(), claims), &signer.keys());
    for (name, seconds, is_valid) in [
        ("exp", -59, true),
        ("exp", -60, false),
        ("iat", 60, true),
        ("iat", 61, false),
        ("nbf", 60, true),
        ("nbf", 61, false),
    ] {
        let checked = check(&with(name, json!(NOW + seconds)));
        assert_eq!(checked.is_ok(), is_valid, "{name} {seconds}");
        assert!(is_valid || checked == Err(InvalidIdToken::Time));
    }
    for wrong in [json!("1893456300"), Value::Null, json!([])] {
        assert_eq!(check(&with("exp", wrong)), Err(InvalidIdToken::Malformed));
    }
    assert_eq!(check(&with("exp", json!(i64::MIN))), Err(InvalidIdToken::Time));
}

#[test]
fn an_address_counts_if_it_is_confirmed_and_a_rule_if_the_claim_has_the_value() {
    let signer = Signer::es256();
    let person = |name: &str, value: Value| {
        read(&signer.token(&signer.header(), &with(name, value)), &signer.keys()).expect("valid")
    };
    for (value, is_confirmed) in [
        (json!(true), true),
        (json!("true"), true),
        (json!(false), false),
        (json!("false"), false),
        (json!(1), false),
        (Value::Null, false),
    ] {
        let email = person("email_verified", value.clone()).email;
        assert_eq!(email.is_some(), is_confirmed, "{value}");
    }
    assert_eq!(person("email", json!("no address")).email, None);
    let joins = Some((AccountId::from_bytes([7; 16]), Role::Viewer));
    for (value, expected) in [
        (json!("staff"), joins),
        (json!(["guests", "staff"]), joins),
        (json!("staffs"), None),
        (json!(["guests"]), None),
        (json!({ "staff": true }), None),
        (Value::Null, None),
    ] {
        assert_eq!(person("groups", value.clone()).joins, expected, "{value}");
    }
}
