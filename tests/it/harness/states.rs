//! The states of rows as conditions of SQL, for the statements of tests. The codes are those of
//! `src/store/sql/encoding/mod.rs` and `src/store/sql/notifications/rows.rs`.

/// A job that waits for its next attempt.
macro_rules! waiting {
    () => {
        "status = 0"
    };
}
pub(crate) use waiting;

/// A job with an attempt under way.
macro_rules! running {
    () => {
        "status = 1"
    };
}
pub(crate) use running;

/// A job that has succeeded.
macro_rules! succeeded {
    () => {
        "status = 2"
    };
}
pub(crate) use succeeded;

/// A job of a tick, on time or caught up.
macro_rules! of_a_tick {
    () => {
        "trigger IN (0, 2)"
    };
}
pub(crate) use of_a_tick;

/// A delivery that has not ended.
macro_rules! undelivered {
    () => {
        "status < 3"
    };
}
pub(crate) use undelivered;
