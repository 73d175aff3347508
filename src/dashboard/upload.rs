//! The fields of a form that can carry a file.

use axum::extract::multipart::{MultipartError, MultipartRejection};
use axum::extract::{FromRequest, Multipart, Request};
use http::StatusCode;

use super::PageError;
use super::form::FormFields;
use super::text::sentence;

/// The fields of a form with a file. The value of a file's field is its content.
pub(super) struct UploadFields {
    pub(super) fields: FormFields,
    /// The names of the fields whose value is not UTF-8. `fields` does not have them.
    pub(super) unreadable: Vec<String>,
}

impl<S: Send + Sync> FromRequest<S> for UploadFields {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Self, PageError> {
        let mut parts = Multipart::from_request(request, state).await?;
        let (mut fields, mut unreadable) = (FormFields::default(), Vec::new());
        while let Some(part) = parts.next_field().await? {
            let name = part.name().unwrap_or_default().to_owned();
            match String::from_utf8(part.bytes().await?.into()) {
                Ok(value) => fields.0.push((name, value)),
                Err(_) => unreadable.push(name),
            }
        }
        Ok(Self { fields, unreadable })
    }
}

impl From<MultipartRejection> for PageError {
    fn from(rejection: MultipartRejection) -> Self {
        Self::Refused(sentence(&rejection.body_text()))
    }
}

impl From<MultipartError> for PageError {
    fn from(error: MultipartError) -> Self {
        Self::Refused(match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => "The form is too large.".to_owned(),
            _ => sentence(&error.body_text()),
        })
    }
}
