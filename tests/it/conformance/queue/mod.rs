//! The contract of the queue as a suite.
//!
//! A case is a function of a new queue. It is listed once, below, and runs on every adapter,
//! without and with faults. One line at the end adds an adapter. Tests of only one adapter are in a
//! separate file of its name.

mod counting;
mod fallback;
mod flaky;
mod index;
mod memory;
mod redis;
mod redis_cluster;
mod tickets;
mod world;

/// Runs `$module::$case` on the adapter whose queues `$open` opens.
macro_rules! suite {
    ($adapter:ident: $open:path; $($module:ident { $($case:ident,)* })*) => {
        mod $adapter {$(
            mod $module {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let (queue, _home) = $open().await;
                    super::super::super::$module::$case(&queue).await;
                }
            )*}
        )*
        mod with_faults {$(
            mod $module {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    use super::super::super::super as suite;
                    let faults = crate::conformance::faults::Faults::of(stringify!($case));
                    let (inner, _home) = $open().await;
                    let flaky = suite::flaky::FlakyQueue { inner, faults: faults.clone() };
                    suite::$module::$case(&(std::sync::Arc::new(flaky) as _)).await;
                    faults.assert_injected();
                }
            )*}
        )*}}
    };
}

macro_rules! every_case {
    ($adapter:ident: $open:path) => {
        suite! { $adapter: $open;
            index {
                an_index_gives_what_is_due_earliest_first,
                an_entry_moves_and_goes,
                an_index_belongs_to_one_epoch_and_shard,
                a_rebuild_replaces_everything,
                a_rebuild_of_a_lower_epoch_changes_nothing,
                an_index_is_adopted_as_it_is,
                many_entries_of_one_instant_come_in_order,
                thousands_of_entries_come_in_order,
                hints_are_taken_once_and_wake_the_leader,
                a_hint_of_all_stands_beside_the_others,
            }
            tickets {
                a_ticket_is_handed_out_once_and_not_before_its_start,
                a_push_wakes_the_executor,
                tickets_that_are_put_back_wake_no_task_and_are_handed_out_again,
                no_more_is_handed_out_than_there_is_room,
                an_account_with_many_tickets_does_not_keep_others_waiting,
                a_host_without_room_does_not_keep_others_waiting,
                no_account_host_or_shard_is_always_the_last,
                every_shard_is_served_within_the_room,
                many_takers_get_each_ticket_once,
            }
            counting {
                it_takes_writes,
                requests_are_counted_in_all_windows_or_none,
                a_window_without_room_counts_nothing,
                a_request_is_given_back_while_its_window_lasts,
                no_more_are_let_through_at_once_than_the_limit,
            }
        }
    };
}

/// The suite, once for each adapter.
mod on {
    every_case!(memory: crate::conformance::queue::memory::open);
    every_case!(redis: crate::conformance::queue::redis::open);
    every_case!(fallback: crate::conformance::queue::fallback::open);
    every_case!(redis_cluster: crate::conformance::queue::redis::open_cluster);
}
