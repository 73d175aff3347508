//! Checks that a file, its folder and its disk can be used. Changes nothing that exists.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::{ConnectOptions, Connection};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::open::reading;
use super::version::incompatibility;
use crate::domain::finding::Finding;
use crate::runtime::Clock;
use crate::store::StoreErrorKind;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sqlite::SqliteSettings;

/// The time limit of each access to the disk.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The name of the file that tests the disk. It is removed again.
const TRIAL: &str = ".punctual-doctor";
/// The number of test writes. The fastest one tells most about the disk.
const WRITES: u32 = 5;
/// Slower writes give a warning, because each commit of a batch of jobs waits for the disk.
const SLOW: Duration = Duration::from_millis(50);
/// Less free space than this gives a warning: 1 GiB is enough for a day of some hundred thousand
/// jobs.
const LITTLE_SPACE: u64 = 1 << 30;
const TOO_LITTLE_SPACE: u64 = 100 << 20;

/// Checks the file of `settings`, which a server may be using, and its folder. `migrate` is `true`
/// if the server applies missing migrations.
pub async fn check_up(settings: &SqliteSettings, migrate: bool, clock: &Clock) -> Vec<Finding> {
    let (of_disk, clock) = (settings.clone(), clock.clone());
    let disk = spawn_blocking(move || of_folder(&of_disk, &clock));
    // A thread that waits for a hanging disk cannot be stopped, so it is left behind.
    let mut findings = match timeout(TIMEOUT, disk).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(_)) | Err(_) => {
            return vec![Finding::failure(silent().message)];
        }
    };
    if settings.path.is_file() {
        let read = timeout(TIMEOUT, of_tables(settings, migrate)).await;
        let read = read.unwrap_or_else(|_| Err(silent()));
        findings.push(read.unwrap_or_else(|error| Finding::failure(error.message)));
        findings.extend(of_permissions(&settings.path));
    }
    findings
}

fn silent() -> SqlError {
    let what = "the disk does not answer: check the log of its machine";
    SqlError::new(StoreErrorKind::Unavailable, what)
}

async fn of_tables(settings: &SqliteSettings, migrate: bool) -> SqlResult<Finding> {
    let mut connection = reading(settings).connect().await?;
    let incompatibility = incompatibility(&mut connection).await?;
    connection.close().await?;
    let path = settings.path.display();
    Ok(match incompatibility {
        None => Finding::good(format!("{path} is up to date")),
        Some(why) if migrate => Finding::good(format!("{path}: {why}; the next start does it")),
        Some(why) => Finding::failure(format!("{path}: {why}")),
    })
}

/// Warns if other users can read the file. Parts of it are not encrypted: accounts, addresses,
/// responses.
fn of_permissions(path: &Path) -> Option<Finding> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    let what = format!("{} can be read by others: run chmod 600 on it", path.display());
    (mode & 0o077 != 0).then(|| Finding::warning(what))
}

/// Returns the number of bytes that a process without special rights can still write to the file's
/// disk.
///
/// # Errors
/// If the operating system does not report it.
pub fn free_bytes(settings: &SqliteSettings) -> io::Result<u64> {
    let folder = nearest_folder(&settings.path).ok_or(io::ErrorKind::NotFound)?;
    let disk = rustix::fs::statvfs(&folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns the nearest existing folder of a file. The first start creates the folders that are
/// missing.
fn nearest_folder(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().skip(1).find(|folder| folder.is_dir()).map(PathBuf::from)
}

fn of_folder(settings: &SqliteSettings, clock: &Clock) -> Vec<Finding> {
    let path = &settings.path;
    let Some(folder) = nearest_folder(path) else {
        return vec![Finding::failure(format!("there is no folder for {}", path.display()))];
    };
    let shown = folder.display();
    let mut findings = vec![match fastest_write(&folder, clock) {
        Ok(took) if took > SLOW => Finding::warning(format!(
            "a write to {shown} takes {} ms, and each batch of jobs waits for one: use a local disk",
            took.as_millis()
        )),
        Ok(took) => Finding::good(format!(
            "{shown} can be written to, in {:.1} ms",
            took.as_secs_f64() * 1e3
        )),
        Err(error) => Finding::failure(format!(
            "cannot write to {shown}: {error}; make it writable for the user that runs punctual"
        )),
    }];
    findings.push(match free_bytes(settings) {
        Ok(free) => of_free_space(free),
        Err(error) => Finding::warning(format!("cannot read the free space of the disk: {error}")),
    });
    findings
}

fn of_free_space(free: u64) -> Finding {
    let said = format!("the disk has {} MB left", free / 1_000_000);
    if free < TOO_LITTLE_SPACE {
        Finding::failure(format!("{said}: free some space, or no job can be recorded"))
    } else if free < LITTLE_SPACE {
        Finding::warning(format!("{said}: free some space, or keep less history (history.days)"))
    } else {
        Finding::good(said)
    }
}

/// Returns the shortest time, of several writes, until written data is on the disk.
fn fastest_write(folder: &Path, clock: &Clock) -> io::Result<Duration> {
    let path = folder.join(format!("{TRIAL}-{}", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let mut best = Duration::MAX;
        for _ in 0..WRITES {
            let begun = clock.monotonic();
            file.write_all(&[0; 4_096])?;
            file.sync_data()?;
            best = best.min(clock.monotonic().saturating_sub(begun));
        }
        Ok(best)
    })();
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => written.and(Err(error)),
        _ => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::finding::Grade;

    #[test]
    fn space_runs_out_by_degrees() {
        assert_eq!(of_free_space(TOO_LITTLE_SPACE - 1).grade, Grade::Failure);
        assert_eq!(of_free_space(TOO_LITTLE_SPACE).grade, Grade::Warning);
        assert_eq!(of_free_space(LITTLE_SPACE).grade, Grade::Good);
    }

    #[test]
    fn the_disk_of_a_file_tells_what_is_free() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [folder.path().join("a.db"), folder.path().join("not/yet/there.db")] {
            assert!(free_bytes(&SqliteSettings::new(path)).expect("there is one") > 1_000_000);
        }
        assert!(free_bytes(&SqliteSettings::new("a.db")).is_ok(), "in this folder");
    }

    #[test]
    fn nothing_is_left_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = SqliteSettings::new(folder.path().join("not/yet/there.db"));
        let findings = of_folder(&settings, &Clock::system());
        assert!(findings[0].text.contains("can be written to"), "{findings:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 0);
    }
}
