//! Whether a file, its folder and its disk can be used. Nothing is changed that is there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::{ConnectOptions, Connection};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Settings;
use super::open::reading;
use super::version::standing;
use crate::domain::finding::Finding;
use crate::runtime::Clock;
use crate::store::StoreErrorKind;
use crate::store::sql::fault::{Fault, Outcome};

/// How long a disk may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The file that is written to try the disk; it is removed again.
const TRIAL: &str = ".punctual-doctor";
/// How often it is written: the fastest write says most.
const WRITES: u32 = 5;
/// Each commit of a batch of jobs waits for the disk.
const SLOW: Duration = Duration::from_millis(50);
/// Room for a day of some hundred thousand jobs.
const LITTLE_ROOM: u64 = 1 << 30;
const NO_ROOM: u64 = 100 << 20;

/// Looks at the file of `settings`, which a server may be using, and at where it is; `migrate` says
/// whether the server brings the tables up to date.
pub async fn check_up(settings: &Settings, migrate: bool, clock: &Clock) -> Vec<Finding> {
    let (of_disk, clock) = (settings.clone(), clock.clone());
    let disk = spawn_blocking(move || of_folder(&of_disk, &clock));
    // A disk that hangs cannot be told to stop: its thread is left behind.
    let mut findings = match timeout(PATIENCE, disk).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(_)) | Err(_) => {
            return vec![Finding::failure(silent().message)];
        }
    };
    if settings.path.is_file() {
        let read = timeout(PATIENCE, of_tables(settings, migrate)).await;
        let read = read.unwrap_or_else(|_| Err(silent()));
        findings.push(read.unwrap_or_else(|fault| Finding::failure(fault.message)));
        findings.extend(of_permissions(&settings.path));
    }
    findings
}

fn silent() -> Fault {
    let what = "the disk does not answer: look at its machine's log";
    Fault::new(StoreErrorKind::Unavailable, what)
}

async fn of_tables(settings: &Settings, migrate: bool) -> Outcome<Finding> {
    let mut connection = reading(settings).connect().await?;
    let standing = standing(&mut connection).await?;
    connection.close().await?;
    let path = settings.path.display();
    Ok(match standing {
        None => Finding::good(format!("{path} is up to date")),
        Some(why) if migrate => Finding::good(format!("{path}: {why}; the next start does it")),
        Some(why) => Finding::failure(format!("{path}: {why}")),
    })
}

/// Others could read what is not encrypted: accounts, addresses, answers.
fn of_permissions(path: &Path) -> Option<Finding> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    let what = format!("{} can be read by others: run chmod 600 on it", path.display());
    (mode & 0o077 != 0).then(|| Finding::warning(what))
}

/// How many bytes a process without special rights may still write to the disk of the file.
///
/// # Errors
/// If the disk does not tell.
pub fn free_bytes(settings: &Settings) -> io::Result<u64> {
    let folder = nearest_folder(&settings.path).ok_or(io::ErrorKind::NotFound)?;
    let disk = rustix::fs::statvfs(&folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// The nearest folder of a file that exists: the rest is made by the first start.
fn nearest_folder(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().skip(1).find(|folder| folder.is_dir()).map(PathBuf::from)
}

fn of_folder(settings: &Settings, clock: &Clock) -> Vec<Finding> {
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
            "cannot write to {shown}: {error}; give it to the user that runs punctual"
        )),
    }];
    findings.push(match free_bytes(settings) {
        Ok(free) => of_room(free),
        Err(error) => Finding::warning(format!("cannot tell how full the disk is: {error}")),
    });
    findings
}

fn of_room(free: u64) -> Finding {
    let said = format!("the disk has {} MB left", free / 1_000_000);
    if free < NO_ROOM {
        Finding::failure(format!("{said}: make room, or no job can be recorded"))
    } else if free < LITTLE_ROOM {
        Finding::warning(format!("{said}: make room, or keep less history (history.days)"))
    } else {
        Finding::good(said)
    }
}

/// How long it takes until something that was written is on the disk.
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
    fn room_runs_out_by_degrees() {
        assert_eq!(of_room(NO_ROOM - 1).grade, Grade::Failure);
        assert_eq!(of_room(NO_ROOM).grade, Grade::Warning);
        assert_eq!(of_room(LITTLE_ROOM).grade, Grade::Good);
    }

    #[test]
    fn the_disk_of_a_file_tells_what_is_free() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [folder.path().join("a.db"), folder.path().join("not/yet/there.db")] {
            assert!(free_bytes(&Settings::new(path)).expect("there is one") > 1_000_000);
        }
        assert!(free_bytes(&Settings::new("a.db")).is_ok(), "in this folder");
    }

    #[test]
    fn nothing_is_left_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings::new(folder.path().join("not/yet/there.db"));
        let findings = of_folder(&settings, &Clock::system());
        assert!(findings[0].text.contains("can be written to"), "{findings:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 0);
    }
}
