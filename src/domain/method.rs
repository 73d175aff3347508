//! The methods of requests.

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
