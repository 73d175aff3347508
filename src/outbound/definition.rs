//! The request that the definition of a schedule describes.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};

use super::Request;
use super::failure::invalid_definition;
use super::request::OUR_USER_AGENT;
use crate::domain::Timestamp;
use crate::domain::headers::parse_headers;
use crate::domain::outcome::Failure;
use crate::domain::schedule::{Definition, HttpMethod};
use crate::domain::signing::{
    ID_HEADER, SIGNATURE_HEADER, Signature, SigningSecret, TIMESTAMP_HEADER,
};

impl Request {
    /// Returns the request of a definition, without a signature. The user's values of `User-Agent`
    /// and `Content-Type` win. A GET request has no body.
    ///
    /// # Errors
    /// If the headers are not valid. Definitions are checked before they are stored, so this
    /// happens only in a release with stricter rules than the one that stored the definition.
    pub fn of(definition: &Definition) -> Result<Self, Failure> {
        let given = definition.headers.as_deref().map(parse_headers).transpose();
        let mut headers = given.map_err(|_| invalid_definition("headers"))?.unwrap_or_default();
        let body = definition.body.clone().filter(|_| definition.http_method != HttpMethod::Get);
        if let Some(body) = &body {
            let added = || HeaderValue::from_static(content_type(body));
            headers.entry(CONTENT_TYPE).or_insert_with(added);
        }
        headers.entry(USER_AGENT).or_insert(OUR_USER_AGENT);
        Ok(Self {
            method: method(definition.http_method),
            url: definition.endpoint.clone(),
            headers,
            body: body.map(Into::into),
        })
    }

    /// Signs exactly the bytes that are sent, as the message `id`. The signature replaces signature
    /// headers that users set.
    pub fn sign(&mut self, secrets: &[SigningSecret], id: &str, now: Timestamp) {
        let body = self.body.as_deref().unwrap_or_default();
        let Signature { timestamp, signatures } = Signature::new(secrets, id, now, body);
        for (name, value) in
            [(ID_HEADER, id), (TIMESTAMP_HEADER, &timestamp), (SIGNATURE_HEADER, &signatures)]
        {
            let value = HeaderValue::try_from(value).expect("ids, digits and base64 are ASCII");
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Returns the content type of a body for which the user gives none.
pub fn content_type(body: &str) -> &'static str {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok();
    if is_json { "application/json" } else { "text/plain; charset=utf-8" }
}

fn method(method: HttpMethod) -> http::Method {
    match method {
        HttpMethod::Get => http::Method::GET,
        HttpMethod::Post => http::Method::POST,
        HttpMethod::Put => http::Method::PUT,
        HttpMethod::Delete => http::Method::DELETE,
        HttpMethod::Patch => http::Method::PATCH,
    }
}
