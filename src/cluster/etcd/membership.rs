//! This replica's view of the cluster: the members, and the holders of the shards' keys.

use std::collections::{BTreeMap, BTreeSet};

use etcd_client::{Event, EventType, KeyValue};
use serde::{Deserialize, Serialize};

use crate::cluster::LiveReplica;
use crate::domain::shard::ShardId;
use crate::domain::shard_assignment::assign_shards;

/// The names of the keys.
#[derive(Clone)]
pub(super) struct EtcdKeys {
    prefix: String,
}

impl EtcdKeys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Returns the prefix of all keys, with a trailing slash.
    pub(super) fn all(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// Returns the key with the id of the store that the replicas share.
    pub(super) fn installation(&self) -> String {
        format!("{}/installation", self.prefix)
    }

    pub(super) fn member(&self, name: &str) -> String {
        format!("{}/members/{name}", self.prefix)
    }

    pub(super) fn shard(&self, shard: ShardId) -> String {
        format!("{}/shards/{shard}", self.prefix)
    }

    /// Returns the key that the check of permissions writes.
    pub(super) fn trial(&self) -> String {
        format!("{}/checkup", self.prefix)
    }

    fn read(&self, key: &[u8]) -> Option<EtcdKey> {
        let key = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        if let Some(name) = key.strip_prefix("/members/") {
            return Some(EtcdKey::Member(name.to_owned()));
        }
        key.strip_prefix("/shards/")?.parse().ok().map(ShardId).map(EtcdKey::Shard)
    }
}

enum EtcdKey {
    Member(String),
    Shard(ShardId),
}

/// The value of a member's key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Presence {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) leads: bool,
    /// Old versions do not write this field; their replicas execute jobs.
    #[serde(default = "yes")]
    pub(super) executes: bool,
}

fn yes() -> bool {
    true
}

/// The replica that holds the key of a shard.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) name: String,
    pub(super) lease: i64,
    pub(super) created: i64,
}

/// This replica's view of the cluster.
#[derive(Clone, Default)]
pub(super) struct ClusterView {
    pub(super) members: BTreeMap<String, Presence>,
    pub(super) shards: BTreeMap<ShardId, Holder>,
    /// The revision at which this replica last changed a shard's key. Events up to this revision
    /// are outdated.
    changed: BTreeMap<ShardId, i64>,
}

impl ClusterView {
    pub(super) fn of(keys: &EtcdKeys, listed: &[KeyValue]) -> Self {
        let mut view = Self::default();
        for entry in listed {
            view.put(keys, entry);
        }
        view
    }

    fn put(&mut self, keys: &EtcdKeys, entry: &KeyValue) {
        match keys.read(entry.key()) {
            Some(EtcdKey::Member(name)) => {
                // A value that cannot be parsed was not written by a replica.
                if let Ok(presence) = serde_json::from_slice(entry.value()) {
                    self.members.insert(name, presence);
                }
            }
            Some(EtcdKey::Shard(shard)) => {
                let name = String::from_utf8_lossy(entry.value()).into_owned();
                let (lease, created) = (entry.lease(), entry.create_revision());
                self.shards.insert(shard, Holder { name, lease, created });
            }
            None => {}
        }
    }

    pub(super) fn apply(&mut self, keys: &EtcdKeys, event: &Event) {
        let Some(entry) = event.kv() else { return };
        let key = keys.read(entry.key());
        if let Some(EtcdKey::Shard(shard)) = &key
            && self.changed.get(shard).is_some_and(|own| entry.mod_revision() <= *own)
        {
            return;
        }
        match (event.event_type(), key) {
            (EventType::Put, _) => self.put(keys, entry),
            (EventType::Delete, Some(EtcdKey::Member(name))) => drop(self.members.remove(&name)),
            (EventType::Delete, Some(EtcdKey::Shard(shard))) => drop(self.shards.remove(&shard)),
            (EventType::Delete, None) => {}
        }
    }

    /// Records that this replica took or released a shard's key at a revision.
    pub(super) fn change(&mut self, shard: ShardId, holder: Option<Holder>, revision: i64) {
        self.changed.insert(shard, revision);
        match holder {
            Some(holder) => self.shards.insert(shard, holder),
            None => self.shards.remove(&shard),
        };
    }

    /// Returns all members with the shards whose keys they hold.
    pub(super) fn all_members(&self) -> Vec<LiveReplica> {
        let shards = |name: &str| {
            let held = self.shards.iter().filter(|(_, holder)| holder.name == name);
            held.map(|(shard, _)| *shard).collect()
        };
        let member = |(name, presence): (&String, &Presence)| LiveReplica {
            name: name.clone(),
            version: presence.version.clone(),
            leads: presence.leads,
            executes: presence.executes,
            shards: shards(name),
        };
        self.members.iter().map(member).collect()
    }

    /// Returns the shards whose keys are attached to a lease.
    pub(super) fn held_by(&self, lease: i64) -> BTreeSet<ShardId> {
        let held = self.shards.iter().filter(|(_, holder)| holder.lease == lease);
        held.map(|(shard, _)| *shard).collect()
    }

    /// Returns the shards that a member is to lead, if there are `shards` shards in total.
    pub(super) fn shall_lead(&self, name: &str, shards: u16) -> BTreeSet<ShardId> {
        let members = self.members.iter().filter(|(_, presence)| presence.leads);
        let members: Vec<&str> = members.map(|(name, _)| name.as_str()).collect();
        let owners = assign_shards(&members, shards).into_iter();
        let own = (0..shards).zip(owners).filter(|(_, owner)| members[*owner] == name);
        own.map(|(shard, _)| ShardId(shard)).collect()
    }
}
