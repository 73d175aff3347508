//! The encryption of secret columns.

pub(super) mod cipher;
pub(super) mod encrypted_fields;
