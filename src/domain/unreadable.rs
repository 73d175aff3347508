//! Stored fields that cannot be read.

/// The secrets of a request that are stored but cannot be decrypted, and are therefore absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadableFields {
    /// The body.
    pub body: bool,
    /// The headers.
    pub headers: bool,
}
