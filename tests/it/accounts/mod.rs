//! Actions of users who sign in, with a real store, and a real mail server for mails.

mod changes;
mod entry;
mod guesses;
mod key_uses;
mod mails;
mod members;
mod oidc;
mod oidc_pages;
mod passwords;
mod tokens;
mod world;
