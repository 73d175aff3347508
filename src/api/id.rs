//! Ids in paths. A malformed id cannot match anything, so it is answered like an unknown one: 404.

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

        /// Returns the 404 for an object that the account does not have.
        pub(super) fn $none() -> ApiError {
            ApiError::not_found($message)
        }
    )*};
}

ids_in_paths! {
    /// The id of the schedule in the path.
    ScheduleInPath(ScheduleId), no_such_schedule = "Schedule not found";
    /// The id of the job in the path.
    JobInPath(JobId), no_such_job = "Job not found";
    /// The id of the notification channel in the path.
    ChannelInPath(ChannelId), no_such_channel = "Notification channel not found";
    /// The id of the delivery in the path.
    DeliveryInPath(DeliveryId), no_such_delivery = "Notification delivery not found";
}

/// The name of the file in the path. `None` if it is not valid UTF-8.
pub(super) struct FileInPath(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for FileInPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(segment(parts, state).await))
    }
}

/// The account, channel and token of an unsubscribe link in the path. `None` if they are not valid
/// UTF-8.
pub(super) struct UnsubscribeLink(pub(super) Option<(String, String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for UnsubscribeLink {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let link = Path::from_request_parts(parts, state).await;
        Ok(Self(link.ok().map(|Path(link)| link)))
    }
}

/// Returns the only parameter of the path. `None` if it is not valid UTF-8.
async fn segment<S: Send + Sync>(parts: &mut Parts, state: &S) -> Option<String> {
    Path::<String>::from_request_parts(parts, state).await.ok().map(|Path(text)| text)
}
