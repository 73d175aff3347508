//! Intake: jobs reach the executor as tickets of the queue, from a leader of the same replica, or
//! from users' commands on this replica. All of them are claimed and started in the same way.

mod attempt_starter;
pub(super) mod direct_starter;
pub(super) mod dispatcher;
pub(super) mod handover;
