//! The transfer of a whole store into another one.

pub(super) mod copy;
