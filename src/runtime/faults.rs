//! Where tests hit this process, and what they break in it on purpose, so that they can see
//! themselves fail. Nothing of it is there without the feature `faults`, which only tests turn on,
//! nor in an optimized build with it.
//!
//! A test gives a process a folder of its own. A file in it that is named like a [`Point`] says what
//! shall happen when the process next gets there: `die`, `panic`, or `stop` until it is let go on. A
//! file that is named like a [`Defect`] lets the process have it. `later.sql` is a migration that
//! this process has over those of its release, as if it were of a release to come.

/// A place at which a process can be hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The replica has got a shard; its epoch is not raised.
    BeforeRaise,
    /// A shard's epoch has been raised; nothing has been done with it.
    AfterRaise,
    /// The leader trusts its term and is about to fire.
    BeforeFire,
    /// Ticks have been fired; their tickets are not pushed.
    AfterFire,
    /// Ticks have been fired and their jobs claimed in one; nothing has been sent.
    AfterStart,
    /// The tickets are pushed; the index has not been moved on.
    AfterPush,
    /// Tickets have been taken; their jobs are not claimed.
    AfterTake,
    /// The jobs of tickets have been claimed; nothing has been sent.
    AfterClaim,
    /// A request has been answered; its outcome is not committed.
    AfterSend,
    /// Outcomes have been committed; the tickets of what follows are not pushed.
    AfterCommit,
    /// Deliveries have been claimed; no alert has been sent.
    AfterDeliveryClaim,
    /// An alert has been sent; how that ended is not recorded.
    AfterAlert,
}

/// Something that is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Firing does not look at the epoch.
    NoEpochCheck,
    /// Nor at the tick that a schedule is at, and a tick's job gets any id: the key is the second
    /// line behind the fence, so that one is missing too.
    NoTickKey,
    /// Triggers are answered before they are written.
    EarlyAnswer,
    /// Tickets of ticks are pushed before their jobs are there, and not after.
    EarlyTicket,
    /// An outcome is committed whoever has the job by then.
    NoClaimCheck,
    /// Nothing is swept up.
    NoSweep,
}

#[cfg(not(all(feature = "faults", debug_assertions)))]
impl Point {
    /// The process is here.
    pub const fn reach(self) {}
}

#[cfg(not(all(feature = "faults", debug_assertions)))]
impl Defect {
    /// Whether this process has it.
    pub const fn is_there(self) -> bool {
        false
    }
}

/// The migration of a release to come.
#[cfg(not(all(feature = "faults", debug_assertions)))]
pub const fn later_migration() -> Option<String> {
    None
}

#[cfg(all(feature = "faults", debug_assertions))]
pub use folder::later_migration;

#[cfg(all(feature = "faults", debug_assertions))]
mod folder {
    use std::path::{Path, PathBuf};
    use std::process::{Command, abort, id};
    use std::sync::OnceLock;

    use super::{Defect, Point};

    /// The folder of this process, if a test has given it one.
    #[expect(clippy::disallowed_methods, reason = "no setting: it is not there in a release")]
    fn folder() -> Option<&'static Path> {
        static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
        let given = || std::env::var_os("PUNCTUAL_TEST_FAULTS").map(PathBuf::from);
        FOLDER.get_or_init(given).as_deref()
    }

    /// The migration of a release to come.
    pub fn later_migration() -> Option<String> {
        std::fs::read_to_string(folder()?.join("later.sql")).ok()
    }

    impl Point {
        /// The process is here.
        pub fn reach(self) {
            let Some(file) = folder().map(|folder| folder.join(format!("{self:?}"))) else {
                return;
            };
            let Ok(what) = std::fs::read_to_string(&file) else { return };
            // Of several threads that get here, one is hit.
            if std::fs::remove_file(&file).is_err() {
                return;
            }
            match what.as_str() {
                "die" => abort(),
                "panic" => panic!("a test wants it"),
                _ => drop(Command::new("kill").args(["-STOP", &id().to_string()]).status()),
            }
        }
    }

    impl Defect {
        /// Whether this process has it.
        pub fn is_there(self) -> bool {
            folder().is_some_and(|folder| folder.join(format!("{self:?}")).exists())
        }
    }
}
