//! Spawns all tasks. Every task is tracked and has a kind, and the kind defines the effect of a
//! stop and of a panic.

use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The stage of a stop at which tasks of a kind have to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopAt {
    /// The first stage: the task takes no new work once `Tasks::stopping` is set.
    Soft,
    /// The second stage: the task finishes its current work until the grace period is over.
    Hard,
}

/// The effect of a panic in a task of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPanic {
    /// Stops the process with a failure, so that it is restarted: it cannot work without this task.
    StopProcess,
    /// Loses only this piece of work; other tasks continue.
    Contain,
}

macro_rules! task_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $stop:ident, $panic:ident;)*) => {
        /// All kinds of tasks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TaskKind {
            $($(#[$doc])* $kind,)*
        }

        impl TaskKind {
            /// Returns the name in logs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns the stage of a stop at which a task of this kind ends.
            pub const fn stop_at(self) -> StopAt {
                match self { $(Self::$kind => StopAt::$stop,)* }
            }

            /// Returns the effect of a panic in a task of this kind.
            pub const fn on_panic(self) -> OnPanic {
                match self { $(Self::$kind => OnPanic::$panic,)* }
            }
        }
    };
}

task_kinds! {
    /// Accepts connections of a listener.
    Listener = "listener", Soft, StopProcess;
    /// Serves one connection; finishes its current requests on a stop.
    Connection = "connection", Hard, Contain;
    /// Runs a state-changing command, so that a client that disconnects cannot cancel it half-way.
    Command = "command", Hard, Contain;
    /// Reads a job for the pages that show it.
    Watch = "watch", Soft, Contain;
    /// Computes the forecast of an account's load.
    Forecast = "forecast", Hard, Contain;
    /// Writes to the embedded store, one transaction after the other.
    Writer = "writer", Hard, Contain;
    /// Fires the ticks of the shards that this replica leads.
    Leader = "leader", Soft, StopProcess;
    /// Finds jobs whose tickets the queue lost, and claims that are no longer renewed.
    JobRescuer = "sweeper", Soft, StopProcess;
    /// Takes tickets and claims jobs.
    Executor = "executor", Soft, StopProcess;
    /// Claims a batch of jobs, or fires it, and starts their attempts.
    Claim = "claim", Hard, Contain;
    /// Sends one request.
    Attempt = "attempt", Hard, Contain;
    /// Commits outcomes; ends when no more can arrive.
    Committer = "committer", Hard, StopProcess;
    /// Renews claims and watches for cancellations while attempts run.
    Renewer = "renewer", Hard, StopProcess;
    /// Relays events and claims deliveries.
    Notifier = "notifier", Soft, StopProcess;
    /// Sends one alert.
    Delivery = "delivery", Hard, Contain;
    /// Records the results of alert tries; ends when no more can arrive.
    Recorder = "recorder", Hard, StopProcess;
    /// Passes on hints from other replicas.
    Hints = "hints", Soft, StopProcess;
    /// Keeps this replica a member of the cluster.
    Member = "member", Hard, StopProcess;
    /// Exports traces; ends when those that are pending at a stop are exported.
    Traces = "traces", Hard, Contain;
    /// Does regular upkeep: metrics, pruning, caches.
    Upkeep = "upkeep", Soft, StopProcess;
}

/// Spawns tasks and stops them in two stages.
#[derive(Clone)]
pub struct Tasks(Arc<TasksInner>);

struct TasksInner {
    tracker: TaskTracker,
    soft: CancellationToken,
    hard: CancellationToken,
    failed: AtomicBool,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    /// Returns an empty set of tasks.
    pub fn new() -> Self {
        let (tracker, soft) = (TaskTracker::new(), CancellationToken::new());
        let hard = CancellationToken::new();
        Self(Arc::new(TasksInner { tracker, soft, hard, failed: AtomicBool::new(false) }))
    }

    /// Spawns `task`.
    ///
    /// The second stage of a stop drops the task, whatever it is doing. A task of a kind that stops
    /// at the first stage is expected to end by itself on `stopping`.
    pub fn spawn<F>(&self, kind: TaskKind, task: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.spawn_boxed(kind, Box::pin(task))
    }

    /// Spawns a boxed task. The compiler translates this function, and the code of the runtime, once
    /// for each type of output and not for each task.
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper that all other code uses")]
    fn spawn_boxed<T: Send + 'static>(
        &self,
        kind: TaskKind,
        task: BoxFuture<'static, T>,
    ) -> JoinHandle<Option<T>> {
        let inner = self.0.clone();
        let tracked = self.0.tracker.track_future(async move {
            let guarded = inner.hard.run_until_cancelled(AssertUnwindSafe(task).catch_unwind());
            match guarded.await? {
                Ok(output) => Some(output),
                Err(_) => {
                    inner.panicked(kind);
                    None
                }
            }
        });
        tokio::spawn(tracked)
    }

    /// Runs the future that `task` returns on its own thread and runtime, where no other task can
    /// delay it. A stop drops it in the same way as a task of `spawn`.
    ///
    /// # Errors
    /// If the system cannot create the runtime or the thread.
    pub fn spawn_apart<F>(
        &self,
        kind: TaskKind,
        task: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<()>
    where
        F: Future<Output = ()>,
    {
        let inner = self.0.clone();
        let tracked = self.0.tracker.token();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            let guarded = AssertUnwindSafe(task()).catch_unwind();
            let guarded = inner.hard.run_until_cancelled(guarded);
            if let Some(Err(_)) = runtime.block_on(guarded) {
                inner.panicked(kind);
            }
            drop(runtime);
            drop(tracked);
        };
        std::thread::Builder::new().name(kind.name().to_owned()).spawn(run).map(drop)
    }

    /// Set when the first stage of a stop has begun: take no new work.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.soft
    }

    /// Set when the grace period is over.
    pub fn aborting(&self) -> &CancellationToken {
        &self.0.hard
    }

    /// Begins the first stage.
    pub fn begin_stop(&self) {
        self.0.soft.cancel();
        self.0.tracker.close();
    }

    /// Begins the first stage because a part that the process needs has failed.
    pub fn fail(&self) {
        self.0.failed.store(true, Ordering::SeqCst);
        self.begin_stop();
    }

    /// Returns `true` if `fail` was called or a task that the process needs has panicked.
    pub fn has_failed(&self) -> bool {
        self.0.failed.load(Ordering::SeqCst)
    }

    /// Waits up to `grace` for all tasks to end; then drops the rest and waits until they are gone.
    /// Returns `true` if all tasks ended by themselves.
    pub async fn finish(&self, grace: Duration) -> bool {
        self.begin_stop();
        let clean = tokio::time::timeout(grace, self.0.tracker.wait()).await.is_ok();
        self.0.hard.cancel();
        self.0.tracker.wait().await;
        clean
    }
}

impl TasksInner {
    fn panicked(&self, kind: TaskKind) {
        tracing::error!(task = kind.name(), "task panicked");
        if kind.on_panic() == OnPanic::StopProcess {
            self.failed.store(true, Ordering::SeqCst);
            self.soft.cancel();
            self.tracker.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_contained_panic_ends_one_task_only() {
        let tasks = Tasks::new();
        let lost = tasks.spawn(TaskKind::Attempt, async { panic!("one attempt") });
        assert!(matches!(lost.await, Ok(None::<()>)));
        assert!(!tasks.stopping().is_cancelled());
        let fine = tasks.spawn(TaskKind::Attempt, async { 7 });
        assert!(matches!(fine.await, Ok(Some(7))));
    }

    #[tokio::test]
    async fn a_vital_panic_stops_the_process_with_a_failure() {
        let tasks = Tasks::new();
        tasks.spawn(TaskKind::Leader, async { panic!("the leader") });
        tasks.stopping().cancelled().await;
        assert!(tasks.has_failed());
    }

    #[tokio::test]
    async fn a_task_apart_runs_while_this_thread_is_busy() {
        let tasks = Tasks::new();
        let (done, wait) = std::sync::mpsc::channel();
        let task = || async move { done.send(()).expect("the receiver waits") };
        tasks.spawn_apart(TaskKind::Member, task).expect("a thread");
        wait.recv_timeout(Duration::from_secs(10)).expect("it ran");
        let (alive, gone) = tokio::sync::oneshot::channel::<()>();
        let task = || async move {
            std::future::pending::<()>().await;
            drop(alive);
        };
        tasks.spawn_apart(TaskKind::Member, task).expect("a thread");
        assert!(!tasks.finish(Duration::from_millis(5)).await);
        assert!(gone.await.is_err());
    }

    #[tokio::test]
    async fn tasks_that_outlive_the_grace_period_are_dropped() {
        let tasks = Tasks::new();
        let (alive, gone) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn(TaskKind::Attempt, async move {
            std::future::pending::<()>().await;
            drop(alive);
        });
        assert!(!tasks.finish(Duration::from_millis(5)).await);
        assert!(gone.await.is_err());
    }
}
