//! The run queue: each shard has the tickets that wait for their start, in the order of their
//! starts, and the ready tickets by account and host.
//!
//! A take surveys all shards, then runs a script for each shard that has tickets. The shards that
//! are asked at once share the capacity. What remains then goes to one shard after the other.
//! Each take begins with another shard. The shards of a cluster are on several servers: where one
//! is down, its shards back off, and the tickets of the others are taken all the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redis::Script;

use super::back_off::BackOff;
use super::capacity::{binding, part};
use super::due::millis;
use super::server::{LentConnection, RedisServer};
use super::tickets;
use crate::domain::Timestamp;
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::queue::{Capacity, FULL_SHARE, MAX_TICKETS, Result, TakenTickets};
use crate::runtime::faults;
use crate::telemetry::metrics::TICKETS_DROPPED;

/// The maximum number of tickets in a script, because the server does nothing else meanwhile.
const BATCH: usize = 500;
/// The maximum number of batches of a shard that a take makes ready.
const MAX_BATCHES: usize = 20;
/// The time after which a take asks no further shard that has more tickets. The next take gets the
/// remaining ones.
const MAX_ROUND: Duration = Duration::from_millis(500);
/// The time for which an answer is kept for a taker that asks again.
const ANSWER_LIFE: Duration = Duration::from_secs(5);
/// The time after which an account may again add its share of tickets that start later to a full
/// shard.
const ADMITTED_LIFE: Duration = Duration::from_secs(60);

/// The run queue on a server: its scripts, and the taker that runs them.
pub(super) struct RedisRunQueue {
    server: Arc<RedisServer>,
    push: Script,
    survey: Script,
    make_ready: Script,
    take: Script,
    shards: u16,
    taker: u64,
    requests: AtomicU64,
    begin: AtomicUsize,
    back_off: BackOff,
}

/// The result of a look at a shard.
struct ShardSurvey {
    shard: ShardId,
    ready: usize,
    due: usize,
    next: Option<Timestamp>,
}

impl RedisRunQueue {
    /// Creates the run queue of `shards` shards. No other replica has the same `taker`.
    pub(super) fn new(server: Arc<RedisServer>, shards: u16, taker: u64) -> Self {
        Self {
            push: Script::new(faults::statement("push", include_str!("scripts/push.lua"))),
            survey: Script::new(include_str!("scripts/survey.lua")),
            make_ready: Script::new(include_str!("scripts/make_ready.lua")),
            take: Script::new(include_str!("scripts/take.lua")),
            shards,
            taker,
            requests: AtomicU64::new(0),
            begin: AtomicUsize::new(0),
            back_off: BackOff::new(server.clock.clone()),
            server,
        }
    }

    /// Queues tickets. Returns how many were not queued yet. If a shard fails, the tickets of the
    /// others are queued all the same.
    pub(super) async fn push(&self, lent: &LentConnection<'_>, pushed: &[Ticket]) -> Result<usize> {
        let RedisServer { keys, clock, .. } = &*self.server;
        let now = clock.now();
        let mut shards: HashMap<ShardId, Vec<&Ticket>> = HashMap::new();
        for ticket in pushed {
            shards.entry(ticket.shard).or_default().push(ticket);
        }
        let batches = shards.iter().flat_map(|(shard, tickets)| {
            tickets.chunks(BATCH).map(|batch| {
                let mut script = self.push.key(keys.tickets(*shard));
                script.key(keys.ready(*shard)).key(keys.admitted(*shard));
                script.arg(now.as_millis()).arg(MAX_TICKETS).arg(FULL_SHARE);
                script.arg(millis(ADMITTED_LIFE));
                for ticket in batch {
                    script.arg(ticket.start.as_millis()).arg(tickets::encode(ticket));
                }
                async move {
                    let (new, dropped) = lent.run::<(usize, u64)>(&script).await?;
                    TICKETS_DROPPED.add(dropped);
                    Ok(new)
                }
            })
        });
        join_all(batches).await.into_iter().sum()
    }

    pub(super) async fn take(&self, now: Timestamp, capacity: &Capacity) -> Result<TakenTickets> {
        let lent = &self.server.connect("take").await?;
        let mut seen = self.survey(lent, now).await?;
        let mut next = seen.iter().filter_map(|seen| seen.next).min();
        seen.retain(|seen| seen.ready + seen.due > 0);
        if seen.is_empty() || capacity.total == 0 {
            return Ok((Vec::new(), next));
        }
        let mut failed = self.make_ready(lent, now, &seen).await.err();
        let begin = self.begin.fetch_add(1, Ordering::Relaxed) % seen.len();
        seen.rotate_left(begin);
        let (mut left, seen_shards) = (capacity.clone(), seen.len());
        left.total = left.total.min(BATCH);
        let mut taken = Vec::new();
        // A shard that fails must not lose the tickets that others have handed out.
        let together = seen.iter().enumerate().map(|(position, seen)| {
            let (part, most) = (part(&left, position, seen_shards), seen.ready + seen.due);
            let shard = seen.shard;
            async move { (shard, self.take_from(lent, shard, (&part, most)).await) }
        });
        let mut more = Vec::new();
        for (shard, answer) in join_all(together).await {
            match answer {
                Ok((tickets, has_more)) => {
                    taken.extend(tickets);
                    more.extend(has_more.then_some(shard));
                }
                Err(error) => failed = Some(error),
            }
        }
        taken.iter().for_each(|ticket| left.use_up(ticket));
        let until = self.server.clock.monotonic() + MAX_ROUND;
        for shard in more.into_iter().filter(|_| seen_shards > 1) {
            if left.total == 0 {
                break;
            }
            // Asking a slow or failing server for one shard after the other would take too long.
            if failed.is_some() || self.server.clock.monotonic() >= until {
                next = Some(now);
                break;
            }
            match self.take_from(lent, shard, (&left, left.total)).await {
                Ok((tickets, _)) => {
                    tickets.iter().for_each(|ticket| left.use_up(ticket));
                    taken.extend(tickets);
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if taken.is_empty() => Err(error),
            _ => Ok((taken, next)),
        }
    }

    /// Looks at the shards that do not back off, and returns those that have tickets.
    async fn survey(&self, lent: &LentConnection<'_>, now: Timestamp) -> Result<Vec<ShardSurvey>> {
        let (shards, keys) = (self.back_off.ready(self.shards), &self.server.keys);
        let surveys = shards.chunks(lent.shards_at_once()).map(|shards| {
            let mut script = self.survey.prepare_invoke();
            for shard in shards {
                script.key(keys.tickets(*shard)).key(keys.ready(*shard));
            }
            script.arg(now.as_millis());
            async move {
                let rows: Result<Vec<(usize, usize, usize, String)>> = lent.run(&script).await;
                let seen = |(position, ready, due, next): (usize, _, _, String)| {
                    let next = next.parse().ok().map(Timestamp::from_millis);
                    shards.get(position).map(|shard| ShardSurvey {
                        shard: *shard,
                        ready,
                        due,
                        next,
                    })
                };
                let seen = rows.map(|rows| rows.into_iter().filter_map(seen).collect::<Vec<_>>());
                (shards, seen)
            }
        });
        let answers = join_all(surveys).await;
        let seen = match lent.is_cluster() {
            true => self.back_off.unless_all_fail(answers)?,
            false => answers.into_iter().map(|(_, seen)| seen).collect::<Result<Vec<_>>>()?,
        };
        Ok(seen.into_iter().flatten().collect())
    }

    /// Makes tickets that may start by now ready, so that takes can go round the accounts. If that
    /// fails, tickets that are ready already can still be taken.
    async fn make_ready(
        &self,
        lent: &LentConnection<'_>,
        now: Timestamp,
        seen: &[ShardSurvey],
    ) -> Result<()> {
        let keys = &self.server.keys;
        let batches = seen.iter().flat_map(|seen| {
            let count = seen.due.div_ceil(BATCH).min(MAX_BATCHES);
            (0..count).map(|_| {
                let mut script = self.make_ready.key(keys.tickets(seen.shard));
                script.key(keys.ready(seen.shard)).arg(now.as_millis()).arg(BATCH);
                async move { lent.run::<usize>(&script).await }
            })
        });
        join_all(batches).await.into_iter().try_for_each(|ripe| ripe.map(drop))
    }

    /// Takes from one shard, which has at most `most` tickets. Also returns `true` if the shard has
    /// more. If an answer is lost, it is asked for once again.
    async fn take_from(
        &self,
        lent: &LentConnection<'_>,
        shard: ShardId,
        (capacity, most): (&Capacity, usize),
    ) -> Result<(Vec<Ticket>, bool)> {
        if capacity.total == 0 {
            return Ok((Vec::new(), true));
        }
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let keys = &self.server.keys;
        let mut script = self.take.key(keys.ready(shard));
        script.key(keys.turn(shard)).key(keys.taken(shard, self.taker));
        script.arg(format!("{request:016x}")).arg(millis(ANSWER_LIFE));
        script.arg(&first_host(self.taker, request)[..]);
        script.arg(capacity.total).arg(capacity.per_account).arg(capacity.per_host);
        let most = most.min(capacity.total);
        let accounts: Vec<_> = binding(&capacity.accounts, capacity.per_account, most).collect();
        script.arg(accounts.len());
        for (account, capacity) in accounts {
            script.arg(&account.to_bytes()[..]).arg(capacity);
        }
        for (host, capacity) in binding(&capacity.hosts, capacity.per_host, most) {
            script.arg(&host.0.to_be_bytes()[..]).arg(capacity);
        }
        let (bytes, more): (Vec<u8>, bool) = match lent.run(&script).await {
            Ok(answer) => answer,
            Err(_) => self.server.connect("take").await?.run(&script).await?,
        };
        Ok((tickets::decode_all(shard, &bytes), more))
    }
}

/// Returns the host at which the search for an account's tickets begins. It differs from request to
/// request, so that no host is always the last.
fn first_host(taker: u64, request: u64) -> [u8; 8] {
    (taker ^ request).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}
