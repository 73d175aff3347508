//! The world of a test: three replicas, their servers, a target and users.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::runtime::Random;
use serde_json::{Value, json};
use sqlx::query_scalar;
use tokio::task::JoinSet;

use super::audit;
use super::history::FaultPeriod;
use super::lapse::{Lapse, machine};
use super::load::{Users, kinds};
use super::mutations::Mutations;
use super::replica::{Addresses, Replica};
use super::settle::ProcessUsage;
use super::stores::{LEASE, Stores};
use crate::harness::client::ApiClient;
use crate::harness::process::Installation;
use crate::harness::provider::Provider;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{live_for, within};

/// The maximum duration of the effects of a fault after its end.
const FAULT_EFFECT_BOUND: Duration = Duration::from_secs(10);

/// The duration of an outage that exceeds all timeouts: a replica waits at most 8 s for a response,
/// the lease (3 s) and the claims (5 s) are shorter than by default (5 s and 30 s), and the
/// calendar advances by more than two minutes. So it has the same effect as a minute with the
/// default settings.
pub const LONG_OUTAGE: Duration = Duration::from_secs(12);

/// The duration of an outage in the catalogue of faults.
pub const MINUTE_OUTAGE: Duration = Duration::from_secs(60);

/// The maximum lag of ticks after a leader is lost without notice.
pub const TAKEOVER_BOUND: Duration = LEASE.saturating_add(Duration::from_secs(2));

/// The parameters of a world.
#[derive(Clone, Copy)]
pub struct WorldConfig {
    /// The speed of the calendar.
    pub factor: i64,
    /// `true` for a PostgreSQL server of the test itself.
    pub own_store: bool,
    /// The number of members of an etcd cluster of the test itself, or 0 for the shared one.
    pub etcd_members: usize,
    /// The number of schedules that tick each minute.
    pub schedules: usize,
    /// The number of users.
    pub users: usize,
    /// The number of accounts, at least two, because users try to access another one.
    pub accounts: usize,
    /// The overlap policy of all schedules, or `None` for each policy in turn.
    pub overlap_policy: Option<&'static str>,
    /// The wrong statements of all replicas.
    pub mutations: Mutations,
    /// Variables of the replicas in addition to the default ones.
    pub settings: &'static [(&'static str, &'static str)],
}

/// The default configuration. A minute takes five seconds.
pub const USUAL: WorldConfig = WorldConfig {
    factor: 12,
    own_store: false,
    etcd_members: 0,
    schedules: 60,
    users: 3,
    accounts: 2,
    overlap_policy: None,
    mutations: &[],
    settings: &[],
};

/// Each replica leads one shard. So a batch of a leader covers all its shards, however small it is.
pub const ONE_SHARD_EACH: WorldConfig =
    WorldConfig { settings: &[("PUNCTUAL_CLUSTER_SHARDS", "3")], ..USUAL };

const SETTINGS: &[(&str, &str)] = &[
    ("PUNCTUAL_CLUSTER_LEASE_SECONDS", "3"),
    ("PUNCTUAL_CLUSTER_SHARDS", "8"),
    ("PUNCTUAL_STORE_API_CONNECTIONS", "8"),
    ("PUNCTUAL_STORE_SCHEDULER_CONNECTIONS", "5"),
    ("PUNCTUAL_STORE_EXECUTOR_CONNECTIONS", "5"),
];

/// The replicas, their servers, a target and users.
pub struct World {
    pub config: WorldConfig,
    pub lapse: Lapse,
    pub replicas: Vec<Replica>,
    pub stores: Stores,
    pub target: Recorder,
    /// The receiver of the alerts about finished jobs.
    pub alert_target: Provider,
    /// The schedules that alert it, and the time since when they do.
    pub alerting: Vec<String>,
    pub alerting_since: i64,
    pub users: Users,
    /// The schedules of the first account that tick.
    pub schedules: Arc<Vec<String>>,
    pub(super) installation: Installation,
    pub(super) living: JoinSet<()>,
    pub(super) faults: Vec<FaultPeriod>,
    pub(super) usage: Vec<ProcessUsage>,
    /// The maximum lag of a tick, in real milliseconds.
    pub latest_ms: Option<i64>,
    /// Schedules that may exceed it.
    pub held_up: Vec<String>,
    /// `true` if no attempt may be lost.
    pub calm: bool,
    /// `true` if jobs must start at once.
    pub prompt: bool,
}

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let given = std::env::var("CLUSTER_SEED").ok();
    let seed = given.map_or(u64::from(now.subsec_micros()), |seed| seed.parse().expect("a number"));
    println!("CLUSTER_SEED={seed}");
    seed
}

impl World {
    /// Creates a world with running servers and without running replicas.
    pub async fn prepare(config: WorldConfig) -> Self {
        let random = Random::seeded(seed());
        let stores = Stores::start(config.own_store, config.etcd_members).await;
        let url = stores.store.url();
        let given = [("PUNCTUAL_STORE_URL", url.as_str())];
        let settings: Vec<_> =
            SETTINGS.iter().chain(config.settings).chain(&given).copied().collect();
        let installation = Installation::new(&settings);
        let mut keys = vec![installation.key.clone()];
        for number in 1..config.accounts {
            let name = format!("account {number}");
            installation.run(&["account", "create", &name]);
            keys.push(installation.run(&["key", "create", "--account", &name]));
        }
        audit::begin(stores.store.second_connection().await).await;
        let lapse = Lapse::begin(config.factor);
        let addresses = Addresses::default();
        let mut replicas = Vec::new();
        for index in 0..3 {
            let mut replica = Replica::new(index, stores.links().await, addresses.clone());
            replica.settings = vec![("PUNCTUAL_TEST_CLOCK", lapse.variable(None))];
            replica.mutate(config.mutations);
            replicas.push(replica);
        }
        let users = Users::new(addresses, keys, random);
        Self {
            config,
            lapse,
            replicas,
            stores,
            target: Recorder::start().await,
            alert_target: Provider::start().await,
            alerting: Vec::new(),
            alerting_since: 0,
            users,
            schedules: Arc::default(),
            installation,
            living: JoinSet::new(),
            faults: Vec::new(),
            usage: Vec::new(),
            latest_ms: None,
            held_up: Vec::new(),
            calm: false,
            prompt: false,
        }
    }

    /// Creates a world under load that has run for more than a minute of its calendar.
    pub async fn start(config: WorldConfig) -> Self {
        let mut world = Self::prepare(config).await;
        world.begin().await;
        world
    }

    /// Starts the replicas and puts them under load. Returns after the first tick has run.
    pub async fn begin(&mut self) {
        for index in 0..self.replicas.len() {
            self.launch(index);
        }
        for replica in &mut self.replicas {
            replica.ready().await;
        }
        self.load().await;
    }

    /// Starts a replica without waiting for it.
    pub fn launch(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let stores = self.stores.settings(&replica.links, &replica.next_process_name());
        replica.launch(&mut self.installation, stores);
    }

    /// Starts a replica and waits until it is ready.
    pub async fn restart(&mut self, index: usize) {
        self.launch(index);
        self.replicas[index].ready().await;
    }

    /// Creates the schedules and starts the users. Returns after the first tick has run.
    pub async fn load(&mut self) {
        let created = self.users.create(0, 1, self.batch(self.config.schedules * 5 / 6, 1)).await;
        self.schedules = created.into();
        self.enable_alerts().await;
        self.users.create(1, 1, self.batch(self.config.schedules / 6, 1)).await;
        self.users.create(0, 2, self.batch(5, 2)).await;
        for _ in 0..self.config.users {
            self.living.spawn(self.users.clone().run_user(self.schedules.clone()));
        }
        let first = Duration::from_millis(90_000 / self.config.factor.unsigned_abs());
        within(first + FAULT_EFFECT_BOUND, "the first tick runs", async || {
            (self.target.count() >= self.config.schedules).then_some(())
        })
        .await;
        self.usage = ProcessUsage::of(&self.replicas);
    }

    /// Returns `count` new schedules that tick every `minutes` minutes.
    fn batch(&self, count: usize, minutes: i64) -> Vec<Value> {
        let mut batch = kinds(&self.users, &self.target.url(""), count, minutes);
        if let Some(policy) = self.config.overlap_policy {
            batch.iter_mut().for_each(|schedule| schedule["overlapPolicy"] = json!(policy));
        }
        batch
    }

    /// Makes every third schedule of the first account alert a webhook about the ends of its jobs.
    async fn enable_alerts(&mut self) {
        let address = self.users.address().expect("a replica");
        let api = ApiClient::new(address, &self.users.keys[0]);
        let config = json!({ "url": self.alert_target.url("/alerts") });
        let channel = json!({ "type": "webhook", "label": "told", "config": config });
        let made = api.post("/v1/notification-channels", &channel).await;
        let channel = made.data()["id"].as_str().expect("an id").to_owned();
        let path = format!("/v1/notification-channels/{channel}/verify");
        api.post(&path, &Value::Null).await.data();
        self.alerting = self.schedules.iter().step_by(3).cloned().collect();
        for schedule in &self.alerting {
            let path = format!("/v1/schedules/{schedule}/notifications");
            let wanted = json!({ "notifyOn": "both", "channelIds": [channel] });
            api.call("PUT", &path, Some(&wanted)).await.expect("an answer").data();
        }
        self.alerting_since = self.lapse.now();
    }

    /// Waits for `count` minutes of the calendar.
    pub async fn minutes(&self, count: f64) {
        let minute = Duration::from_secs(60).div_f64(self.lapse.factor as f64);
        live_for(minute.mul_f64(count)).await;
    }

    /// Waits for this part of a minute of the calendar. The tick is at 0.
    pub async fn part_of_minute(&self, part: f64) {
        let minute = super::lapse::MINUTE;
        let now = self.lapse.now().rem_euclid(minute);
        #[expect(clippy::cast_possible_truncation, reason = "a part of a minute")]
        let wanted = (part * minute as f64) as i64;
        let left = (wanted - now).rem_euclid(minute);
        live_for(Duration::from_millis(self.lapse.real(left).unsigned_abs())).await;
    }

    /// Records the start of a fault.
    pub fn begin_fault(&mut self) {
        self.faults.push(FaultPeriod { begun_at: machine(), over_at: i64::MAX });
    }

    /// Records the end of a fault. Its effects may last for a while.
    pub fn end_fault(&mut self) {
        let effect_ms = i64::try_from(FAULT_EFFECT_BOUND.as_millis()).expect("small");
        if let Some(fault) = self.faults.last_mut() {
            fault.over_at = machine() + effect_ms;
        }
    }

    /// Requires that all ticks fire within this time.
    pub fn fires_on(&mut self, within: Duration) {
        self.latest_ms = i64::try_from(within.as_millis()).ok();
    }

    /// Returns the leader of each shard, by the newest epochs.
    pub async fn leaders(&self) -> Vec<(i32, usize)> {
        let rows: Vec<(i32, String)> = sqlx::query_as(
            "SELECT DISTINCT ON (shard) shard, life FROM audit WHERE kind = 'epoch'
             ORDER BY shard, number DESC",
        )
        .fetch_all(&mut self.stores.store.second_connection().await)
        .await
        .expect("read");
        let index = |life: &str| life.split('.').next().and_then(|index| index.parse().ok());
        rows.iter().map(|(shard, life)| (*shard, index(life).expect("a process name"))).collect()
    }

    /// Returns the leader of a shard.
    pub async fn leader_of(&self, shard: i32) -> usize {
        let leaders = self.leaders().await;
        leaders.iter().find(|(led, _)| *led == shard).expect("it is led").1
    }

    /// Kills a replica, waits until others lead its shards, and restarts it.
    pub async fn kill_and_replace(&mut self, index: usize) {
        self.begin_fault();
        self.replicas[index].kill();
        self.restart_once_replaced(index).await;
    }

    /// Waits until others lead the shards of a dead replica, and restarts it. This ends the fault.
    pub async fn restart_once_replaced(&mut self, index: usize) {
        self.led_without(index).await;
        self.restart(index).await;
        self.end_fault();
    }

    /// Waits until other replicas lead all shards.
    pub async fn led_without(&self, index: usize) {
        within(LEASE * 4, "other replicas lead all shards", async || {
            self.leaders().await.iter().all(|(_, leader)| *leader != index).then_some(())
        })
        .await;
    }

    /// Waits until all ticks up to `time`, on the service's clock, are fired: for at most `bound`.
    pub async fn fires_up_to(&self, time: i64, bound: Duration) {
        let mut connection = self.stores.store.second_connection().await;
        within(bound, "all ticks up to a time are fired", async || {
            let due: i64 =
                query_scalar("SELECT count(*) FROM schedule_state WHERE next_tick <= $1")
                    .bind(time)
                    .fetch_one(&mut connection)
                    .await
                    .expect("counted");
            (due == 0).then_some(())
        })
        .await;
    }
}
