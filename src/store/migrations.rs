//! The migrations of both databases, which the binary contains. They have the same names.

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// The name of a migration, and its text.
type Script = (&'static str, &'static str);

macro_rules! migrations {
    ($($name:literal)*) => {
        const POSTGRES: &[Script] = &[$((
            $name,
            include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
        )),*];
        const SQLITE: &[Script] = &[$((
            $name,
            include_str!(concat!("../../migrations/sqlite/", $name, ".sql")),
        )),*];
    };
}

migrations! {
    "0001_tables"
    "0002_users"
    "0003_secrets"
    "0004_plans"
    "0005_audit"
    "0006_signing"
    "0007_life"
    "0008_quota"
    "0009_retention"
    "0010_notifications"
    "0011_replicas"
    "0012_runs"
    "0013_fences"
    "0014_executors"
    "0015_modes"
    "0016_runs_account"
    "0017_operators"
    "0018_identities"
    "0019_pause_notes"
    "0020_versions"
    "0021_account_hours"
    "0022_user_display"
}

/// Returns the migrations of a PostgreSQL database.
pub fn postgres() -> Migrator {
    migrator(POSTGRES)
}

/// Returns the migrations of an SQLite file.
pub fn sqlite() -> Migrator {
    migrator(SQLITE)
}

/// Names and checks the migrations as sqlx does for files of these names.
fn migrator(scripts: &[Script]) -> Migrator {
    let migration = |(name, text): &Script| {
        let (version, description) = name.split_once('_').expect("a number and a description");
        let version = version.parse().expect("a number");
        let (description, text) = (description.replace('_', " "), SqlStr::from_static(text));
        Migration::new(version, description.into(), MigrationType::Simple, text, false)
    };
    Migrator::with_migrations(scripts.iter().map(migration).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_in_the_binary() {
        for (folder, scripts) in [("postgres", POSTGRES), ("sqlite", SQLITE)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(folder);
            let files = std::fs::read_dir(folder).expect("a folder");
            let files: BTreeSet<_> = files.map(|file| file.expect("a file").file_name()).collect();
            let known = scripts.iter().map(|(name, _)| format!("{name}.sql").into());
            assert_eq!(files, known.collect());
        }
    }
}
