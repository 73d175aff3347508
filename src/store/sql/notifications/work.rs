//! The work that waits for a notifier.

use crate::domain::Timestamp;
use crate::store::AlertWork;
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;

/// Reads the oldest due times, and counts the deliveries up to
/// [`WAITING_COUNTED`](crate::store::WAITING_COUNTED). The work of deleted accounts is left out;
/// their deliveries are still counted.
///
/// Every notifier asks this four times a second. It has no parameter, so PostgreSQL plans it once
/// per connection: planning it takes ten times as long as running it.
pub(in crate::store) const WORK: &str = "
    WITH gone AS (SELECT id FROM deleted_accounts WHERE gone_at IS NULL)
    SELECT (SELECT at FROM notification_events
            WHERE account_id NOT IN (SELECT id FROM gone) ORDER BY id LIMIT 1),
           (SELECT due_at FROM notification_incidents
            WHERE account_id NOT IN (SELECT id FROM gone) ORDER BY due_at LIMIT 1),
           (SELECT wake_at FROM notification_deliveries
            WHERE status < 3 AND status = 1 AND account_id NOT IN (SELECT id FROM gone)
            ORDER BY wake_at LIMIT 1),
           (SELECT wake_at FROM notification_deliveries
            WHERE status < 3 AND status = 2 AND account_id NOT IN (SELECT id FROM gone)
            ORDER BY wake_at LIMIT 1),
           (SELECT count(*) FROM
                (SELECT 1 AS one FROM notification_deliveries WHERE status < 3 LIMIT 10000) AS w)";

/// The oldest event, the next incident, the next try, the end of the next claim, and the number of
/// waiting deliveries.
type WorkRow = (Option<Timestamp>, Option<Timestamp>, Option<Timestamp>, Option<Timestamp>, i64);

/// Returns the work that waits at `now`.
pub(in crate::store) async fn alert_work(
    connection: &mut Connection<'_>,
    now: Timestamp,
) -> SqlResult<AlertWork> {
    let (event, incident, waiting, claimed, count): WorkRow =
        sql::query_as(WORK).fetch_one(connection).await?;
    let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    let oldest = [event, waiting.filter(|at| *at <= now)].into_iter().flatten().min();
    Ok(AlertWork {
        relay: event.is_some() || due(incident),
        deliver: due(waiting) || due(claimed),
        next: [incident, waiting, claimed].into_iter().flatten().min(),
        waiting: count.unsigned_abs(),
        oldest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::WAITING_COUNTED;

    #[test]
    fn deliveries_are_counted_up_to_the_maximum() {
        assert!(WORK.contains(&format!("LIMIT {WAITING_COUNTED})")), "{WORK}");
    }

    #[test]
    fn the_statement_has_no_parameter() {
        assert!(!WORK.contains('$'), "it would be planned each time: {WORK}");
    }
}
