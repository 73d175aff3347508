//! What people do who sign in, over a real store, and a real mail server where mails are sent.

mod changes;
mod entry;
mod guesses;
mod key_uses;
mod mails;
mod members;
mod passwords;
mod tokens;
mod world;
