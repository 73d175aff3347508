//! The conditions under which a copied store is complete.

use punctual::domain::{ScheduleId, Timestamp};
use punctual::store::{NextTicks, StoreErrorKind, Table};

use crate::harness::database::Database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_whole_once_its_rows_and_its_ticks_are_those_of_the_source() {
    let database = Database::migrated().await;
    let store = database.open();
    store.begin_copy(7, 64).await.expect("begun");
    let none = NextTicks::default();
    let mut one = none;
    one.add(ScheduleId::from_bytes([1; 16]), Timestamp::from_millis(60_000));
    for (rows, ticks, is_whole) in [(1, none, false), (0, one, false), (0, none, true)] {
        let counted = store.end_copy(&[(Table::Accounts, rows)], ticks).await.expect("counted");
        assert_eq!(counted, (vec![0], none));
        let used = store.take_into_use().await.map_err(|error| error.kind());
        let wanted = if is_whole { Ok(()) } else { Err(StoreErrorKind::Unavailable) };
        assert_eq!(used, wanted, "{rows} rows, {ticks:?}");
    }
}
