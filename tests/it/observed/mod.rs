//! The service as operators observe it: its metrics, its canary, and `punctual verify`.

mod canary;
mod held;
mod late;
mod series;
mod verify;
