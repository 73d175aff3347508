//! Connections and their use.
//!
//! A caller hands its work over to a task and waits for the answer. So a caller that goes away cuts
//! no transaction in two, and no connection is put back in the middle of one. A connection whose
//! state is in doubt is dropped instead of put back: putting back asks the server first, and one
//! that has fallen silent would not answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Settings;
use super::options::renew_password;
use super::places::Places;
use crate::runtime::{Clock, TaskKind, Tasks};
use crate::store::sql::fault::{Fault, Outcome, Remedy};
use crate::store::{Result, StoreErrorKind};
use crate::telemetry::metrics::{CallState, Pool, STORE_CALLS};

/// How long work may take that is handed over. Statements end earlier by the server's own clock,
/// so this is for a server that has fallen silent.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a caller waits for a connection.
pub(super) const ACQUIRE: Duration = Duration::from_secs(3);
/// How long a connection is given to be put back.
const RETURN: Duration = Duration::from_secs(2);
/// How often work is done that meets other transactions.
const TRIES: u32 = 4;

/// What work is done in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// No more than the statement itself.
    Statement,
    /// A transaction; what it locked is read as it is now.
    Transaction,
    /// The same; for a lock it waits as long as commits of others take, and no longer.
    Impatience,
    /// One view of the store.
    Snapshot,
}

/// Some connections to the server, made when they are needed.
pub(in crate::store) struct Connections {
    pool: PgPool,
    places: Arc<Places>,
    settings: Arc<Settings>,
    tasks: Tasks,
    whose: Pool,
}

impl Connections {
    pub(super) fn new(pool: PgPool, settings: Arc<Settings>, tasks: Tasks, whose: Pool) -> Self {
        let places = Arc::new(Places::new(pool.options().get_max_connections(), Clock::system()));
        Self { pool, places, settings, tasks, whose }
    }

    /// Does work, to its end even if the caller goes away.
    pub(super) async fn run<T, W>(
        &self,
        operation: &'static str,
        within: Within,
        work: W,
    ) -> Result<T>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Outcome<T>> + Send + Sync + 'static,
    {
        self.try_run(within, work).await.map_err(|fault| fault.of(operation))
    }

    /// Does work as [`run`](Self::run) does, for those who look at what went wrong.
    pub(super) async fn try_run<T, W>(&self, within: Within, work: W) -> Outcome<T>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Outcome<T>> + Send + Sync + 'static,
    {
        self.patiently(PATIENCE, within, work).await
    }

    /// Does work that may take as long as `patience`.
    pub(super) async fn patiently<T, W>(
        &self,
        patience: Duration,
        within: Within,
        work: W,
    ) -> Outcome<T>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Outcome<T>> + Send + Sync + 'static,
    {
        if self.tasks.stopping().is_cancelled() {
            return Err(Fault::new(StoreErrorKind::Unavailable, "the store is closed").void());
        }
        let (sender, receiver) = oneshot::channel();
        let (pool, places, whose) = (self.pool.clone(), self.places.clone(), self.whose);
        self.tasks.spawn(TaskKind::Command, async move {
            let waiting = STORE_CALLS.with((whose, CallState::Waiting)).hold();
            let connect = places.connect(pool.size() as usize, pool.acquire());
            let connected = timeout(ACQUIRE, connect).await;
            drop(waiting);
            // The caller may have gone away.
            match connected.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
                Ok((place, connection)) => {
                    let _connected = STORE_CALLS.with((whose, CallState::Connected)).hold();
                    let (outcome, connection) = work_on(connection, patience, within, &work).await;
                    let back = async {
                        if let Some(connection) = connection {
                            put_back(connection).await;
                        }
                        drop(place);
                    };
                    if outcome.is_err() && within == Within::Statement {
                        // The server tells of an error before it lets go of what was locked. Other
                        // work has been rolled back by now.
                        back.await;
                        let _ = sender.send(outcome);
                    } else {
                        let _ = sender.send(outcome);
                        back.await;
                    }
                }
                Err(error) => {
                    let _ = sender.send(Err(Fault::from(error).void()));
                }
            }
        });
        let lost = |_| Fault::new(StoreErrorKind::Unavailable, "the work was abandoned");
        let outcome = receiver.await.map_err(lost).flatten();
        if let Err(fault) = &outcome
            && fault.remedy == Remedy::ReadPassword
        {
            self.renew_password()?;
        }
        outcome
    }

    /// Reads the password file again, for the connections that are made from now on.
    pub(super) fn renew_password(&self) -> Outcome<()> {
        renew_password(&self.pool, &self.settings)
    }

    /// Lets nobody take a connection any more, and closes them.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

/// Does work, again if it met other transactions. Returns the connection if it is fine.
async fn work_on<T, W>(
    mut connection: PoolConnection<Postgres>,
    patience: Duration,
    within: Within,
    work: &W,
) -> (Outcome<T>, Option<PoolConnection<Postgres>>)
where
    W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Outcome<T>>,
{
    let mut tries = 1;
    loop {
        let outcome = timeout(patience, once(&mut connection, within, work))
            .await
            .unwrap_or_else(|_| Err(Fault::no_answer()));
        match outcome {
            Err(fault) if fault.remedy == Remedy::Repeat && tries < TRIES => tries += 1,
            Err(fault) if fault.remedy == Remedy::Reconnect => {
                drop(connection.detach());
                return (Err(fault.midway()), None);
            }
            outcome => return (outcome, Some(connection)),
        }
    }
}

async fn once<T, W>(connection: &mut PgConnection, within: Within, work: &W) -> Outcome<T>
where
    W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Outcome<T>>,
{
    let mut transaction = match within {
        Within::Statement => return work(connection).await,
        Within::Transaction => connection.begin().await?,
        Within::Impatience => {
            connection.begin_with("BEGIN; SET LOCAL lock_timeout = '250ms'").await?
        }
        Within::Snapshot => {
            connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?
        }
    };
    match work(&mut transaction).await {
        Ok(value) => {
            transaction.commit().await?;
            Ok(value)
        }
        Err(fault) if fault.remedy == Remedy::Reconnect => Err(fault),
        Err(fault) => match transaction.rollback().await {
            Ok(()) => Err(fault),
            Err(_) => Err(fault.with(Remedy::Reconnect)),
        },
    }
}

/// Puts a connection back, or drops it if the server does not answer.
async fn put_back(mut connection: PoolConnection<Postgres>) {
    // Its own drop would do the same without a bound.
    let returned = timeout(RETURN, connection.return_to_pool()).await;
    if returned.is_err() {
        tracing::warn!("dropped a connection to the store: the server does not answer");
    }
}
