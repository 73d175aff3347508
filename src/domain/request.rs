//! Parts of a request that schedules and jobs share.

use super::names::names;

names! {
    /// The method of a schedule's requests.
    HttpMethod {
        /// Sent without a body.
        Get = "GET",
        /// Sent with the body, if there is one.
        Post = "POST",
        /// Sent with the body, if there is one.
        Put = "PUT",
        /// Sent with the body, if there is one.
        Delete = "DELETE",
        /// Sent with the body, if there is one.
        Patch = "PATCH",
    }
}

/// The secrets of a request that are stored but cannot be decrypted, and are therefore absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadableFields {
    /// The body.
    pub body: bool,
    /// The headers.
    pub headers: bool,
}
