//! Counts the jobs of an account in a month.
//!
//! An account may have a million jobs in a month. Those that ended are therefore added up from the
//! account's hours, which are at most 744 and some rows. Jobs that ended before the store had hours
//! are counted one by one, until the month of that upgrade is over.

use std::time::Duration;

use crate::domain::hours::{AccountHour, HOUR_MS};
use crate::domain::{AccountId, Timestamp};
use crate::store::contract::accounts::{JOBS_BEFORE_HOURS_COUNTED, start_of_month};
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::values::key_from;
use crate::store::sql::error::SqlResult;
use crate::store::sql::hours::HOURS;

/// Counts the unfinished jobs of an account. Parameters: account, lowest id.
const UNFINISHED: &str =
    "SELECT count(*) FROM runs WHERE account_id = $1 AND id >= $2 AND status < 2";

/// Counts the jobs that ended before an hour, up to a maximum. Parameters: account, lowest id, the
/// smallest id of the hour, start of the hour, maximum.
pub(in crate::store) const ENDED_BEFORE: &str = "SELECT count(*) FROM
         (SELECT 1 AS one FROM jobs
          WHERE account_id = $1 AND id >= $2 AND id < $3 AND completed_at < $4 LIMIT $5) AS counted";

/// Counts the jobs of the month of `now` on one snapshot.
pub(super) async fn count(
    connection: &mut Connection<'_>,
    account: AccountId,
    now: Timestamp,
) -> SqlResult<u64> {
    let month = start_of_month(now);
    let hours = sql::query_as(HOURS).bind(account).bind(month);
    let hours: Vec<AccountHour> = hours.fetch_all(connection).await?;
    let complete_from = complete_from(month, &hours);
    let is_complete = |hour: &&AccountHour| complete_from.is_some_and(|from| hour.start >= from);
    let ended: u64 = hours.iter().filter(is_complete).map(AccountHour::jobs).sum();
    let before = match complete_from {
        Some(from) if from == month => 0,
        from => {
            let hour = from.unwrap_or(Timestamp::from_millis(i64::MAX));
            let before = sql::query_scalar::<i64>(ENDED_BEFORE).bind(account);
            let before = before.bind(key_from(month)).bind(key_from(hour)).bind(hour);
            before.bind(JOBS_BEFORE_HOURS_COUNTED).fetch_one(connection).await?
        }
    };
    let unfinished = sql::query_scalar::<i64>(UNFINISHED).bind(account).bind(key_from(month));
    let unfinished = unfinished.fetch_one(connection).await?;
    Ok(ended + before.unsigned_abs() + unfinished.unsigned_abs())
}

/// Returns the start of the first hour that counts all its jobs, if there is one. The store may have
/// begun to count within the first hour that has jobs, unless that is the first one of the month.
fn complete_from(month: Timestamp, hours: &[AccountHour]) -> Option<Timestamp> {
    let first = hours.first()?.start;
    let next = first.plus(Duration::from_millis(HOUR_MS.unsigned_abs()));
    Some(if first == month { first } else { next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hour_of_an_upgrade_is_not_complete() {
        let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
        let month = at("2026-11-01T00:00:00Z");
        let from = |hours: &[&str]| {
            let hours: Vec<_> = hours.iter().map(|hour| AccountHour::empty(at(hour))).collect();
            complete_from(month, &hours)
        };
        assert_eq!(from(&[]), None);
        assert_eq!(from(&["2026-11-01T00:00:00Z", "2026-11-09T04:00:00Z"]), Some(month));
        assert_eq!(from(&["2026-11-09T03:00:00Z"]), Some(at("2026-11-09T04:00:00Z")));
    }
}
