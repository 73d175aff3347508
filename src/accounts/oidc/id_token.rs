//! The checks of an ID token (OpenID Connect Core 1.0, section 3.1.3.7).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::InvalidIdToken;
use super::keys::JsonWebKeys;
use super::settings::{OidcJoinSettings, OidcSettings};
use crate::domain::user::{EmailAddress, Role};
use crate::domain::{AccountId, Timestamp};
use crate::store::Identity;

/// The tolerated difference between the clocks of the provider and of this replica.
const LEEWAY: Duration = Duration::from_secs(60);
/// The maximum length of a subject, in bytes.
const MAX_SUBJECT: usize = 255;

/// A person whom the provider has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedIdentity {
    /// The provider's identifier of the person.
    pub identity: Identity,
    /// The person's address, if the provider confirms it and it is usable.
    pub email: Option<EmailAddress>,
    /// The account that a new user joins by the rule of the settings.
    pub joins: Option<(AccountId, Role)>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    /// Extensions that a recipient must understand. None is supported here.
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct IdTokenClaims {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: i64,
    iat: i64,
    nbf: Option<i64>,
    nonce: Option<String>,
    email: Option<String>,
    email_verified: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Checks an ID token, and returns the person whom it identifies.
pub(super) fn verify(
    token: &str,
    keys: &JsonWebKeys,
    (settings, nonce): (&OidcSettings, &str),
    now: Timestamp,
) -> Result<VerifiedIdentity, InvalidIdToken> {
    let (signed, signature) = token.rsplit_once('.').ok_or(InvalidIdToken::Malformed)?;
    let (header, body) = signed.split_once('.').ok_or(InvalidIdToken::Malformed)?;
    let header: TokenHeader = part(header)?;
    if header.crit.is_some() {
        return Err(InvalidIdToken::Malformed);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| InvalidIdToken::Malformed)?;
    let key = (&*header.alg, header.kid.as_deref());
    keys.verify(key, signed.as_bytes(), &signature)?;
    let all: Map<String, Value> = part(body)?;
    let claims: IdTokenClaims = part(body)?;
    claims.check(settings, nonce, now)?;
    let joins = settings.join.as_ref().filter(|join| has(&all, join));
    Ok(VerifiedIdentity {
        email: claims.confirmed_email(),
        identity: Identity { issuer: claims.iss, subject: claims.sub },
        joins: joins.map(|join| (join.account, join.role)),
    })
}

fn part<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, InvalidIdToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidIdToken::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| InvalidIdToken::Malformed)
}

/// Returns `true` if the claim of the rule is the value of the rule, or a list that contains it.
fn has(claims: &Map<String, Value>, join: &OidcJoinSettings) -> bool {
    let is_it = |value: &Value| value.as_str() == Some(&join.value);
    match claims.get(&join.claim) {
        Some(Value::Array(values)) => values.iter().any(is_it),
        Some(value) => is_it(value),
        None => false,
    }
}

impl IdTokenClaims {
    fn check(
        &self,
        settings: &OidcSettings,
        nonce: &str,
        now: Timestamp,
    ) -> Result<(), InvalidIdToken> {
        if self.iss != settings.issuer {
            return Err(InvalidIdToken::Issuer);
        }
        let client = &settings.client_id;
        let (is_for_client, is_for_others) = match &self.aud {
            Audience::One(one) => (one == client, false),
            Audience::Many(all) => (all.contains(client), all.len() > 1),
        };
        let is_authorized = match &self.azp {
            Some(azp) => azp == client,
            None => !is_for_others,
        };
        if !is_for_client || !is_authorized {
            return Err(InvalidIdToken::Audience);
        }
        let at = |seconds: i64| Timestamp::from_millis(seconds.saturating_mul(1_000));
        let (earliest, latest) = (now.minus(LEEWAY), now.plus(LEEWAY));
        let has_begun = at(self.iat) <= latest && self.nbf.is_none_or(|nbf| at(nbf) <= latest);
        if at(self.exp) <= earliest || !has_begun {
            return Err(InvalidIdToken::Time);
        }
        if self.nonce.as_deref() != Some(nonce) {
            return Err(InvalidIdToken::Nonce);
        }
        let is_subject = (1..=MAX_SUBJECT).contains(&self.sub.len());
        let is_printable = !self.sub.chars().any(char::is_control);
        if is_subject && is_printable { Ok(()) } else { Err(InvalidIdToken::Malformed) }
    }

    /// Returns the address if the provider confirms it. Some providers write `true` as a string.
    fn confirmed_email(&self) -> Option<EmailAddress> {
        let is_confirmed = match self.email_verified.as_ref()? {
            Value::Bool(is_confirmed) => *is_confirmed,
            Value::String(text) => text == "true",
            _ => false,
        };
        self.email.as_ref().filter(|_| is_confirmed)?.parse().ok()
    }
}
