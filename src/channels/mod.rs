//! Senders: how messages leave for people.
//!
//! Place in the flow: a leaf. Commands say what to tell whom, and a sender tries it once, in a
//! bounded time; whether to try again is for the caller to decide.
//!
//! Invariants:
//! - S39: what others chose, such as a name, can change the text of a message but not to whom it
//!   goes nor any of its headers.
//! - Passwords of servers appear in no error and no log.
//!
//! On failure: an error that says what the server has said, and nothing was sent, as far as can be
//! known.

pub mod email;
