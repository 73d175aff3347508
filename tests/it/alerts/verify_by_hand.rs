//! Verifies the signature of a webhook without a library, as in `docs/notifications.md`.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;

const TOLERANCE_SECONDS: u64 = 300;

/// Returns `true` if `body` was signed with `secret`, or `None` if a header or `secret` is invalid.
pub fn verify(secret: &str, headers: &HeaderMap, body: &[u8]) -> Option<bool> {
    let header = |name| headers.get(name)?.to_str().ok();
    let (event_id, sent_at) = (header("webhook-id")?, header("webhook-timestamp")?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    if now.abs_diff(sent_at.parse().ok()?) > TOLERANCE_SECONDS {
        return Some(false);
    }
    let key = STANDARD.decode(secret.strip_prefix("whsec_")?).ok()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(format!("{event_id}.{sent_at}.").as_bytes());
    mac.update(body);
    let matches = |signature: &str| {
        let given = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
        // Compares in constant time.
        given.is_some_and(|given| mac.clone().verify_slice(&given).is_ok())
    };
    Some(header("webhook-signature")?.split(' ').any(matches))
}
