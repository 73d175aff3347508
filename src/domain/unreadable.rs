//! What is stored and cannot be read back.

/// Which secrets of a request are stored in a way that cannot be read back, and are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadableFields {
    /// The body.
    pub body: bool,
    /// The headers.
    pub headers: bool,
}
