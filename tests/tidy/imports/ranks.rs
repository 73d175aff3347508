//! The ranks of the modules.

use std::fmt;

/// A module with a rank: a top-level module of the crate, or the adapter of a contract.
#[derive(PartialEq, Eq)]
pub struct Unit {
    name: String,
    adapter: Option<String>,
}

/// The rank of each top-level module. Adapters have the rank [`ADAPTER`].
const RANKS: [(&str, u8); 24] = [
    ("domain", 0),
    ("telemetry", 1),
    ("runtime", 2),
    ("store", CONTRACT),
    ("queue", CONTRACT),
    ("cluster", CONTRACT),
    ("local_executor", CONTRACT),
    ("outbound", CONTRACT),
    ("channels", CONTRACT),
    ("schedules", COMMANDS),
    ("accounts", COMMANDS),
    ("notifications", COMMANDS),
    ("inspection", COMMANDS),
    ("scheduler", ADAPTER),
    ("executor", ADAPTER),
    ("notify", ADAPTER),
    ("api", DOOR),
    ("dashboard", DOOR),
    ("operations", DOOR),
    ("config", CONFIG),
    ("app", 7),
    ("cli", 8),
    ("main", 8),
    ("lib", 8),
];

const CONTRACT: u8 = 3;
/// Adapters, stages and commands.
const ADAPTER: u8 = 4;
const COMMANDS: u8 = ADAPTER;
/// The entry points of the service.
const DOOR: u8 = 5;
const CONFIG: u8 = 6;

/// The commands and queries that all entry points share.
const COMMAND_MODULES: [&str; 4] = ["schedules", "accounts", "notifications", "inspection"];

/// The contracts and their adapters.
const ADAPTERS: [(&str, &[&str]); 3] = [
    ("store", &["sqlite", "postgres"]),
    ("queue", &["memory", "redis"]),
    ("cluster", &["single", "etcd"]),
];

/// The contracts that another contract is made of.
const CONTRACTS_ON_CONTRACTS: [(&str, &str); 2] =
    [("channels", "outbound"), ("local_executor", "store")];

fn is_settings(item: &str) -> bool {
    item.ends_with("Settings")
}

impl Unit {
    /// Returns the unit that a module belongs to.
    pub fn of(module: &[String]) -> Self {
        let name = module.first().cloned().unwrap_or_else(|| "lib".to_owned());
        let own = ADAPTERS.iter().find(|(contract, _)| *contract == name);
        let adapter = module
            .get(1)
            .filter(|second| own.is_some_and(|(_, adapters)| adapters.contains(&second.as_str())));
        Self { name, adapter: adapter.cloned() }
    }

    fn rank(&self) -> Option<u8> {
        let own = RANKS.iter().find(|(name, _)| *name == self.name)?;
        Some(if self.adapter.is_some() { ADAPTER } else { own.1 })
    }

    /// Returns a complaint if the unit is not in the table.
    pub fn unranked(&self) -> Option<String> {
        let what = || format!("`{self}` has no rank: give it one in tests/tidy/imports/ranks.rs");
        self.rank().is_none().then(what)
    }

    /// Returns `true` if this unit may use `item` of another unit, or that unit itself.
    pub fn may_import(&self, other: &Self, item: Option<&str>) -> bool {
        let (Some(own), Some(theirs)) = (self.rank(), other.rank()) else { return true };
        if self == other {
            return true;
        }
        match own {
            0..CONTRACT => theirs < own,
            CONTRACT => {
                let uses = (self.name.as_str(), other.name.as_str());
                theirs < CONTRACT || CONTRACTS_ON_CONTRACTS.contains(&uses)
            }
            ADAPTER if self.adapter.is_some() => {
                theirs < CONTRACT || self.name == other.name && other.adapter.is_none()
            }
            ADAPTER => theirs <= CONTRACT,
            DOOR => theirs <= CONTRACT || COMMAND_MODULES.contains(&other.name.as_str()),
            CONFIG => theirs < CONTRACT || (theirs <= DOOR && item.is_none_or(is_settings)),
            _ => theirs <= own,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.adapter {
            Some(adapter) => write!(out, "{}::{adapter}", self.name),
            None => out.write_str(&self.name),
        }
    }
}
