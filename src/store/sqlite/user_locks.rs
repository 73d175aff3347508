//! Writes take turns, so whoever changes users has nobody to wait for.

use std::future::{Future, ready};

use super::Connection;
use super::error::Outcome;
use crate::domain::{AccountId, UserId};

pub(super) fn lock_account(_: &mut Connection, _: AccountId) -> impl Future<Output = Outcome<()>> {
    ready(Ok(()))
}

pub(super) fn lock_user(_: &mut Connection, _: UserId) -> impl Future<Output = Outcome<()>> {
    ready(Ok(()))
}
