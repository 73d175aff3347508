//! What operators see of the service: its metrics, its canary, and `punctual verify`.

mod canary;
mod held;
mod series;
mod verify;
