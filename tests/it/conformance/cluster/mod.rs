//! The contract of the cluster as a suite.
//!
//! A case is a function of all replicas of a new cluster. It is listed once, below, and runs on
//! every adapter, without and with faults. One line at the end adds an adapter. Tests with several
//! replicas or failing servers are in separate files of the adapter.

mod etcd;
mod etcd_faults;
mod flaky;
mod single;
mod terms;
mod world;

/// Runs `$module::$case` on the adapter whose replicas `$open` starts.
macro_rules! suite {
    ($adapter:ident: $open:path; $($module:ident { $($case:ident,)* })*) => {
        mod $adapter {$(
            mod $module {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let replicas = $open().await;
                    super::super::super::$module::$case(&replicas).await;
                }
            )*}
        )*
        mod with_faults {$(
            mod $module {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    use super::super::super::super as suite;
                    let faults = crate::conformance::faults::Faults::of(stringify!($case));
                    let around = |replica| suite::flaky::FlakyCluster::around(replica, &faults);
                    let replicas: Vec<_> = $open().await.into_iter().map(around).collect();
                    suite::$module::$case(&replicas).await;
                    faults.assert_injected();
                }
            )*}
        )*}}
    };
}

macro_rules! every_case {
    ($adapter:ident: $open:path) => {
        suite! { $adapter: $open;
            terms {
                every_shard_is_led_by_one,
                members_show_the_leaders_of_shards,
                leaving_ends_all_terms,
            }
        }
    };
}

/// The suite, once for each adapter.
mod on {
    every_case!(single: crate::conformance::cluster::single::open);
    every_case!(etcd: crate::conformance::cluster::etcd::open);
}
