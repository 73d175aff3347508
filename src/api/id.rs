//! Ids in paths. What has not the form of an id names nothing, so it is answered as such.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use super::ApiError;
use crate::domain::{ChannelId, DeliveryId, JobId, ScheduleId};

macro_rules! ids_in_paths {
    ($($(#[$doc:meta])* $type:ident($id:ident), $none:ident = $message:literal;)*) => {$(
        $(#[$doc])*
        pub(super) struct $type(pub(super) $id);

        impl<S: Send + Sync> FromRequestParts<S> for $type {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
                let id = segment(parts, state).await.and_then(|text| text.parse().ok());
                id.map(Self).ok_or_else($none)
            }
        }

        /// The answer for one that the account does not have.
        pub(super) fn $none() -> ApiError {
            ApiError::not_found($message)
        }
    )*};
}

ids_in_paths! {
    /// The schedule that the path names.
    ScheduleInPath(ScheduleId), no_such_schedule = "Schedule not found";
    /// The job that the path names.
    JobInPath(JobId), no_such_job = "Job not found";
    /// The notification channel that the path names.
    ChannelInPath(ChannelId), no_such_channel = "Notification channel not found";
    /// The delivery that the path names.
    DeliveryInPath(DeliveryId), no_such_delivery = "Notification delivery not found";
}

/// The file that the path names; `None` if the name is no text.
pub(super) struct FileInPath(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for FileInPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(segment(parts, state).await))
    }
}

/// The link in a mail that the path names: an account, a channel and a token. `None` if it is no text.
pub(super) struct UnsubscribeLink(pub(super) Option<(String, String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for UnsubscribeLink {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let link = Path::from_request_parts(parts, state).await;
        Ok(Self(link.ok().map(|Path(link)| link)))
    }
}

/// The one parameter of the path; `None` if its bytes are no text.
async fn segment<S: Send + Sync>(parts: &mut Parts, state: &S) -> Option<String> {
    Path::<String>::from_request_parts(parts, state).await.ok().map(|Path(text)| text)
}
