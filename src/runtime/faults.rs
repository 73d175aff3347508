//! Fault injection for tests: points at which a test can kill, stop or panic this process, and
//! statements that a test replaces by wrong ones to prove that its checks detect them. Without the
//! feature `faults`, which only tests turn on, and in every optimized build, all of it compiles to
//! nothing.
//!
//! A test gives a process its own folder:
//! - A file named like a [`FaultPoint`] contains the fault for the next time that the process reaches
//!   that point: `die`, `panic`, or `stop` (until the test lets it continue).
//! - `statements.json` contains the changes of statements of the store and scripts of the queue: an
//!   object with a list of `[from, to]` for each name that is given to [`statement`]. A process
//!   reads its scripts at the start, and its statements at each use until one is changed.
//! - `later.sql` is a migration that this process has in addition to those of its release, as if it
//!   were a later release.

/// A point at which a test can inject a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPoint {
    /// The replica has acquired a shard; the shard's epoch is not raised yet.
    BeforeRaise,
    /// A shard's epoch has been raised; nothing has been done with it.
    AfterRaise,
    /// The leader trusts its term and is about to fire.
    BeforeFire,
    /// Ticks have been fired; their tickets are not pushed yet.
    AfterFire,
    /// Ticks have been fired and their jobs claimed in one call; no request has been sent.
    AfterStart,
    /// The tickets are pushed; the due index is not updated yet.
    AfterPush,
    /// Tickets have been taken; their jobs are not claimed yet.
    AfterTake,
    /// The jobs of tickets have been claimed; no request has been sent.
    AfterClaim,
    /// A request has been answered; its outcome is not committed yet.
    AfterSend,
    /// Outcomes have been committed; the tickets of the next attempts are not pushed yet.
    AfterCommit,
    /// Deliveries have been claimed; no alert has been sent.
    AfterDeliveryClaim,
    /// An alert has been sent; its result is not recorded yet.
    AfterAlert,
}

#[cfg(not(all(feature = "faults", debug_assertions)))]
impl FaultPoint {
    /// Marks that the process has reached this point.
    pub const fn reach(self) {}
}

/// Returns the text of a statement: `text`.
#[cfg(not(all(feature = "faults", debug_assertions)))]
pub const fn statement(_name: &'static str, text: &'static str) -> &'static str {
    text
}

/// Returns the migration of a later release.
#[cfg(not(all(feature = "faults", debug_assertions)))]
pub const fn later_migration() -> Option<String> {
    None
}

#[cfg(all(feature = "faults", debug_assertions))]
pub use folder::{later_migration, statement};

#[cfg(all(feature = "faults", debug_assertions))]
mod folder {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};
    use std::process::{Command, abort, id};
    use std::sync::OnceLock;

    use super::FaultPoint;
    use crate::runtime::Mutex;

    /// The changes of each statement: the parts to replace, and their replacements.
    type StatementChanges = BTreeMap<String, Vec<(String, String)>>;

    /// Returns the folder of this process, if a test has set one.
    #[expect(clippy::disallowed_methods, reason = "no setting: it is not there in a release")]
    fn folder() -> Option<&'static Path> {
        static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
        let given = || std::env::var_os("PUNCTUAL_TEST_FAULTS").map(PathBuf::from);
        FOLDER.get_or_init(given).as_deref()
    }

    /// Returns the migration of a later release.
    pub fn later_migration() -> Option<String> {
        std::fs::read_to_string(folder()?.join("later.sql")).ok()
    }

    impl FaultPoint {
        /// Marks that the process has reached this point, and triggers the fault that a test has
        /// set.
        pub fn reach(self) {
            let Some(file) = folder().map(|folder| folder.join(format!("{self:?}"))) else {
                return;
            };
            let Ok(what) = std::fs::read_to_string(&file) else { return };
            // If several threads reach the point, only the one that removes the file is hit.
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

    /// Returns the text of a statement: `text`, or what a test has made of it. A changed text stays
    /// the same until the process ends.
    pub fn statement(name: &'static str, text: &'static str) -> &'static str {
        static CHANGED: Mutex<BTreeMap<&str, &str>> = Mutex::new(BTreeMap::new());
        let Some(file) = folder().map(|folder| folder.join("statements.json")) else { return text };
        let mut changed = CHANGED.lock();
        if let Some(text) = changed.get(name) {
            return text;
        }
        let Ok(json) = std::fs::read_to_string(&file) else { return text };
        let changes: StatementChanges = serde_json::from_str(&json).expect("changes of statements");
        let Some(changes) = changes.get(name) else { return text };
        let text = change(name, text, changes).leak();
        changed.insert(name, text);
        text
    }

    /// Replaces the parts of a statement.
    ///
    /// # Panics
    /// If a part is not in the text exactly once. The test would pass or fail for another reason
    /// than the one that it names.
    fn change(name: &str, text: &str, changes: &[(String, String)]) -> String {
        changes.iter().fold(text.to_owned(), |text, (from, to)| {
            let found = text.matches(from.as_str()).count();
            assert_eq!(found, 1, "the statement {name:?} must contain {from:?} once:\n{text}");
            text.replace(from.as_str(), to)
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn changed(changes: &[(&str, &str)]) -> String {
            let owned = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
            let changes: Vec<_> = changes.iter().map(owned).collect();
            change("read", "SELECT id FROM runs WHERE id = $1", &changes)
        }

        #[test]
        fn parts_of_a_statement_are_replaced_one_after_the_other() {
            assert_eq!(changed(&[]), "SELECT id FROM runs WHERE id = $1");
            let text = changed(&[("runs", "jobs"), ("FROM jobs WHERE id = $1", "FROM jobs")]);
            assert_eq!(text, "SELECT id FROM jobs");
        }

        #[test]
        #[should_panic(expected = "the statement \"read\" must contain \"claimed_by\" once")]
        fn a_part_that_is_missing_is_reported() {
            changed(&[("claimed_by", "")]);
        }

        #[test]
        #[should_panic(expected = "the statement \"read\" must contain \"id\" once")]
        fn a_part_that_is_there_twice_is_reported() {
            changed(&[("id", "")]);
        }
    }
}
