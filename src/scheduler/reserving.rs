//! What the store is asked for accounts whose plan limits their jobs: to reserve some, to count what
//! they have made, and to wait for a counter that others hold.

use std::collections::HashMap;
use std::time::Duration;

use super::Context;
use crate::domain::{AccountId, Timestamp};
use crate::store::{Granted, Grants, StoreError, Wanted};

/// The most jobs of an account that are reserved ahead.
const AHEAD: u32 = 1_000;
/// How long one is not asked for again whose jobs are being counted, or whose counter was waited for
/// in vain.
const WHILE: Duration = Duration::from_secs(1);
/// How long all counters are waited for in a batch that others hold, before the others fire.
const HELD: Duration = Duration::from_millis(250);

/// What the store has answered for accounts.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) granted: HashMap<AccountId, Granted>,
    /// When to ask again, for some of the others.
    pub(super) waits: HashMap<AccountId, Duration>,
    /// Whether the store has failed.
    pub(super) failed: bool,
}

impl Answers {
    /// Asks for all at once; returns those whose counter somebody else holds.
    pub(super) async fn ask(
        &mut self,
        context: &Context,
        now: Timestamp,
        wanted: &[Wanted],
    ) -> Vec<AccountId> {
        match context.store.reserve_jobs(now, AHEAD, wanted).await {
            Ok(Grants { granted, held }) => {
                self.granted.extend(granted.into_iter().map(|granted| (granted.account, granted)));
                held
            }
            Err(error) => {
                self.fail(&error);
                Vec::new()
            }
        }
    }

    /// Has the accounts' jobs counted, and asks for those again that are counted soon.
    pub(super) async fn count(
        &mut self,
        context: &Context,
        now: Timestamp,
        wanted: &[Wanted],
        patience: Duration,
    ) {
        let accounts: Vec<_> = wanted.iter().map(|wanted| wanted.account).collect();
        self.waits.extend(accounts.iter().map(|account| (*account, WHILE)));
        let counted = tokio::select! {
            biased;
            counted = context.store.begin_months(now, &accounts) => counted,
            () = context.clock.sleep(patience) => Ok(()),
        };
        match counted {
            // Those with few jobs are there before the others.
            Ok(()) => drop(self.ask(context, now, wanted).await),
            Err(error) => self.fail(&error),
        }
    }

    /// Waits for counters one after the other: users who keep one busy take turns with who waits.
    pub(super) async fn wait_for(
        &mut self,
        context: &Context,
        now: Timestamp,
        held: impl Iterator<Item = &Wanted>,
    ) {
        let end = context.clock.monotonic() + HELD;
        for wanted in held {
            if self.failed || context.clock.monotonic() >= end {
                return;
            }
            match context.store.await_jobs(now, AHEAD, wanted).await {
                Ok(Some(granted)) => drop(self.granted.insert(granted.account, granted)),
                Ok(None) => drop(self.waits.insert(wanted.account, WHILE)),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn fail(&mut self, error: &StoreError) {
        tracing::warn!(%error, "jobs of limited accounts not reserved");
        self.failed = true;
    }
}
