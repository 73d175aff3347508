//! The exchange of a code for an ID token (RFC 6749, section 4.1.3).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde::Deserialize;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::attempt::OidcSignIn;
use super::discovery::ProviderMetadata;
use super::error::OidcError;
use super::settings::OidcSettings;
use crate::domain::outcome::Response;
use crate::outbound::Request;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// The maximum length of an error code in the log, in characters.
const MAX_CODE: usize = 64;

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

#[derive(Deserialize)]
struct ExchangeError {
    error: String,
}

/// Returns the request for a document of the provider.
pub(super) fn get(url: &str) -> Request {
    let headers = HeaderMap::from_iter([(ACCEPT, JSON)]);
    Request { method: Method::GET, url: url.to_owned(), headers, body: None }
}

/// Returns the request that exchanges a code.
pub(super) fn request(
    metadata: &ProviderMetadata,
    settings: &OidcSettings,
    secret: &str,
    (attempt, code): (&OidcSignIn, &str),
) -> Request {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", &settings.redirect_url)
        .append_pair("code_verifier", &attempt.verifier());
    let mut headers = HeaderMap::from_iter([(ACCEPT, JSON), (CONTENT_TYPE, FORM)]);
    if metadata.takes_basic() {
        headers.insert(AUTHORIZATION, basic(&settings.client_id, secret));
    } else {
        form.append_pair("client_id", &settings.client_id).append_pair("client_secret", secret);
    }
    let body = Some(Bytes::from(form.finish()));
    Request { method: Method::POST, url: metadata.token_endpoint.clone(), headers, body }
}

/// Returns the header with the id and the secret, both form-encoded (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> HeaderValue {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let credentials = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
    let header = HeaderValue::try_from(format!("Basic {credentials}"));
    let mut header = header.expect("base64 is printable");
    header.set_sensitive(true);
    header
}

/// Returns the ID token of a response.
pub(super) fn id_token(response: &Response) -> Result<String, OidcError> {
    match response.status {
        200 => {
            let tokens: Result<Tokens, _> = serde_json::from_slice(&response.body);
            let lacking = |_| OidcError::Unusable("its answer to the code has no id_token".into());
            tokens.map(|tokens| tokens.id_token).map_err(lacking)
        }
        400..=499 => {
            let error: Option<ExchangeError> = serde_json::from_slice(&response.body).ok();
            let code = error.map(|error| shown_code(&error.error));
            let code = code.unwrap_or_else(|| format!("status {}", response.status));
            Err(match &*code {
                // The client, and not the person, is refused.
                "invalid_client" | "unauthorized_client" => OidcError::Unusable(format!(
                    "it refuses this installation ({code}): check oidc.client_id and \
                     oidc.client_secret"
                )),
                _ => OidcError::Refused(code),
            })
        }
        status => Err(OidcError::Unreachable(format!("its token endpoint answers {status}"))),
    }
}

/// Returns an error code for the log and for pages, without characters that no such code has.
pub(super) fn shown_code(code: &str) -> String {
    let is_part = |letter: &char| letter.is_ascii_alphanumeric() || "_-.".contains(*letter);
    code.chars().filter(is_part).take(MAX_CODE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Result<String, String> {
        let body = body.as_bytes().to_vec();
        let response = Response { status, body, ..Response::default() };
        id_token(&response).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_has_a_token_or_a_reason() {
        assert_eq!(answer(200, r#"{"id_token":"a.b.c","x":1}"#), Ok("a.b.c".to_owned()));
        for (status, body, why) in [
            (200, "{}", "has no id_token"),
            (400, r#"{"error":"invalid_grant"}"#, "refuses the sign-in: invalid_grant"),
            (400, r#"{"error":"a\nb<c>"}"#, "refuses the sign-in: abc"),
            (401, r#"{"error":"invalid_client"}"#, "check oidc.client_id"),
            (403, "no", "refuses the sign-in: status 403"),
            (302, "", "answers 302"),
            (503, "", "answers 503"),
        ] {
            let error = answer(status, body).expect_err(body);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn credentials_are_encoded_twice() {
        let header = basic("a b", "c:d%");
        let text = header.to_str().expect("a text").strip_prefix("Basic ").expect("basic");
        let text = String::from_utf8(STANDARD.decode(text).expect("base64")).expect("a text");
        assert_eq!(text, "a+b:c%3Ad%25");
        assert!(header.is_sensitive());
    }
}
