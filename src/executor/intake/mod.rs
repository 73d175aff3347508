//! Where jobs come in: as tickets of the queue, from the leader beside this executor, or from users
//! of this replica. All of them are claimed and begun in the same way.

pub(super) mod dispatcher;
pub(super) mod handover;
mod start;
pub(super) mod starter;
