//! The lock that lets only one server use the file.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sqlite::{SqliteStore, failed_in};
use crate::store::{Result, StoreErrorKind};

/// The lock of the one process that serves a file. The operating system releases it when it is
/// dropped, or when the process dies in any way.
#[derive(Debug)]
pub struct ServerLock {
    _file: File,
}

impl SqliteStore {
    /// Takes the lock, which is a file beside the store's file. Operator commands work without it.
    ///
    /// # Errors
    /// `Incompatible` if another server holds the lock, or if the lock file cannot be created.
    pub fn lock(&self) -> Result<ServerLock> {
        let lock = self.keep_others_away().map_err(failed_in("lock"))?;
        self.locked.store(true, Ordering::Relaxed);
        Ok(lock)
    }

    /// Takes the lock for a short time, without marking this process as the server.
    pub(in crate::store::sqlite) fn keep_others_away(&self) -> SqlResult<ServerLock> {
        let refused = |why: String| SqlError::new(StoreErrorKind::Incompatible, why);
        // Two paths to the same file must find the same lock.
        let file = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let mut path = file.clone().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| refused(format!("cannot open {}: {error}", path.display())))?;
        match lock.try_lock() {
            Ok(()) => Ok(ServerLock { _file: lock }),
            Err(TryLockError::WouldBlock) => Err(refused(format!(
                "another server uses {}: stop it, or give this one a file of its own",
                file.display()
            ))),
            Err(TryLockError::Error(error)) => {
                Err(refused(format!("cannot lock {}: {error}", path.display())))
            }
        }
    }
}
