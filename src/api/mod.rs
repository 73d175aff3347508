//! The REST API: turns HTTP into commands and queries, and what they say into answers.
//!
//! Place in the flow: a front door. Every request passes the layer in `front` (its name, its key,
//! its rate, its time), then the router picks one endpoint. There is one file for each endpoint,
//! in reading order: request, response, documentation, handler. A route is registered together
//! with its OpenAPI entry, so none is undocumented; `openapi.json` beside this file is a snapshot
//! of the document, and a test says how to refresh it.
//!
//! Invariants:
//! - Every answer is JSON in the envelope, errors and panics included; only the documentation
//!   pages are not.
//! - Every answer under `/v1` carries the rate-limit headers, if limits are switched on.
//! - What does not exist and what is another account's are answered with the same bytes.
//! - What a call has begun to change is finished even if the client goes away.
//!
//! On failure: a store that is away is answered with 503 and `Retry-After`, any other fault with
//! 500 and the request's id, which is in the log beside the cause. A queue that is away fails
//! nothing.

mod address;
mod base_path;
mod body;
mod error;
mod front;
mod guard;
mod limits;
mod reply;
mod request_id;

use std::sync::Arc;

pub use base_path::{BasePath, InvalidBasePath};
pub use error::ApiError;

use crate::accounts::{Accounts, Authenticator};
use crate::runtime::{Clock, Random, Tasks};
