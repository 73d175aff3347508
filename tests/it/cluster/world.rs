//! Three replicas, their servers, a target and users.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::runtime::Random;
use punctual::runtime::faults::Defect;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::audit;
use super::history::Trouble;
use super::lapse::{Lapse, machine};
use super::load::{Users, kinds};
use super::replica::{Doors, Replica};
use super::settle::Usage;
use super::stores::{LEASE, Stores};
use crate::harness::client::ApiClient;
use crate::harness::process::Installation;
use crate::harness::provider::Provider;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{live_for, within};

/// How long a fault may be felt after it is over.
const AFTERMATH: Duration = Duration::from_secs(10);

/// How long a server is away, or silent, where that is to be longer than whatever waits for it: no
/// replica waits for an answer for more than 8 s; the lease (3 s) and the claims (5 s) are shorter
/// than usual (5 s and 30 s), and the calendar goes on by more than two minutes. So it shows what a
/// minute would with the usual ones.
pub const AWAY: Duration = Duration::from_secs(12);

/// How long a server is away where it is as the catalogue of faults says.
pub const A_MINUTE: Duration = Duration::from_secs(60);

/// How late ticks may be fired after a leader has gone without a word.
pub const REPLACED: Duration = LEASE.saturating_add(Duration::from_secs(2));

/// What a world is like.
#[derive(Clone, Copy)]
pub struct Plan {
    /// How much faster the calendar is.
    pub factor: i64,
    /// Whether PostgreSQL is the test's own.
    pub own_store: bool,
    /// Members of an etcd of the test's own; 0: the shared one.
    pub etcd_members: usize,
    /// How many schedules tick each minute.
    pub schedules: usize,
    /// How many users there are.
    pub users: usize,
    /// How many accounts: two at least, as users pry.
    pub accounts: usize,
    /// What all replicas have wrong.
    pub defect: Option<Defect>,
    /// Variables of the replicas over the usual ones.
    pub settings: &'static [(&'static str, &'static str)],
}

/// A minute takes five seconds.
pub const USUAL: Plan = Plan {
    factor: 12,
    own_store: false,
    etcd_members: 0,
    schedules: 60,
    users: 3,
    accounts: 2,
    defect: None,
    settings: &[],
};

const SETTINGS: &[(&str, &str)] = &[
    ("PUNCTUAL_CLUSTER_LEASE_SECONDS", "3"),
    ("PUNCTUAL_CLUSTER_SHARDS", "8"),
    ("PUNCTUAL_STORE_API_CONNECTIONS", "8"),
    ("PUNCTUAL_STORE_SCHEDULER_CONNECTIONS", "5"),
    ("PUNCTUAL_STORE_EXECUTOR_CONNECTIONS", "5"),
];

/// Everything.
pub struct World {
    pub plan: Plan,
    pub lapse: Lapse,
    pub replicas: Vec<Replica>,
    pub stores: Stores,
    pub target: Recorder,
    /// What is told how jobs ended.
    pub told: Provider,
    /// The schedules that tell, and since when.
    pub telling: Vec<String>,
    pub telling_since: i64,
    pub users: Users,
    /// Those that tick, of the first account.
    pub schedules: Arc<Vec<String>>,
    pub(super) installation: Installation,
    pub(super) living: JoinSet<()>,
    pub(super) troubles: Vec<Trouble>,
    pub(super) usage: Vec<Usage>,
    /// How late a tick may be fired, in real milliseconds.
    pub latest_ms: Option<i64>,
    /// Schedules that may be later.
    pub held_up: Vec<String>,
    /// Whether no attempt may be lost.
    pub calm: bool,
    /// Whether jobs must start at once.
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
    /// One whose servers run and whose replicas do not.
    pub async fn prepare(plan: Plan) -> Self {
        let dice = Random::seeded(seed());
        let stores = Stores::start(plan.own_store, plan.etcd_members).await;
        let url = stores.store.url();
        let given = [("PUNCTUAL_STORE_URL", url.as_str())];
        let settings: Vec<_> =
            SETTINGS.iter().chain(plan.settings).chain(&given).copied().collect();
        let installation = Installation::new(&settings);
        let mut keys = vec![installation.key.clone()];
        for number in 1..plan.accounts {
            let name = format!("account {number}");
            installation.run(&["account", "create", &name]);
            keys.push(installation.run(&["key", "create", "--account", &name]));
        }
        audit::begin(stores.store.beside().await).await;
        let lapse = Lapse::begin(plan.factor);
        let doors = Doors::default();
        let mut replicas = Vec::new();
        for place in 0..3 {
            let mut replica = Replica::new(place, stores.links().await, doors.clone());
            replica.settings = vec![("PUNCTUAL_TEST_CLOCK", lapse.variable(None))];
            plan.defect.into_iter().for_each(|defect| replica.break_it(defect));
            replicas.push(replica);
        }
        let users = Users::new(doors, keys, dice);
        Self {
            plan,
            lapse,
            replicas,
            stores,
            target: Recorder::start().await,
            told: Provider::start().await,
            telling: Vec::new(),
            telling_since: 0,
            users,
            schedules: Arc::default(),
            installation,
            living: JoinSet::new(),
            troubles: Vec::new(),
            usage: Vec::new(),
            latest_ms: None,
            held_up: Vec::new(),
            calm: false,
            prompt: false,
        }
    }

    /// One that runs under load, and has for more than a minute of its calendar.
    pub async fn start(plan: Plan) -> Self {
        let mut world = Self::prepare(plan).await;
        for place in 0..world.replicas.len() {
            world.launch(place);
        }
        for place in 0..world.replicas.len() {
            world.replicas[place].ready().await;
        }
        world.load().await;
        world
    }

    /// Starts a replica, and waits for nothing.
    pub fn launch(&mut self, place: usize) {
        let replica = &mut self.replicas[place];
        let stores = self.stores.settings(&replica.links, &replica.next_life());
        replica.launch(&mut self.installation, stores);
    }

    /// Starts a replica and waits until it serves.
    pub async fn restart(&mut self, place: usize) {
        self.launch(place);
        self.replicas[place].ready().await;
    }

    /// Makes the schedules and lets the users live, until the first tick has run.
    pub async fn load(&mut self) {
        let url = self.target.url("");
        let users = &self.users;
        let batch = kinds(users, &url, self.plan.schedules * 5 / 6, 1);
        self.schedules = users.create(0, 1, batch).await.into();
        self.tell().await;
        let users = &self.users;
        users.create(1, 1, kinds(users, &url, self.plan.schedules / 6, 1)).await;
        users.create(0, 2, kinds(users, &url, 5, 2)).await;
        for _ in 0..self.plan.users {
            self.living.spawn(users.clone().live(self.schedules.clone()));
        }
        let first = Duration::from_millis(90_000 / self.plan.factor.unsigned_abs());
        within(first + AFTERMATH, "the first tick runs", async || {
            (self.target.count() >= self.plan.schedules).then_some(())
        })
        .await;
        self.usage = Usage::of(&self.replicas);
    }

    /// Lets every third schedule of the first account tell how its jobs end, by a webhook.
    async fn tell(&mut self) {
        let door = self.users.door().expect("a replica");
        let api = ApiClient::new(door, &self.users.keys[0]);
        let config = json!({ "url": self.told.url("/alerts") });
        let channel = json!({ "type": "webhook", "label": "told", "config": config });
        let made = api.post("/v1/notification-channels", &channel).await;
        let channel = made.data()["id"].as_str().expect("an id").to_owned();
        let path = format!("/v1/notification-channels/{channel}/verify");
        api.post(&path, &Value::Null).await.data();
        self.telling = self.schedules.iter().step_by(3).cloned().collect();
        for schedule in &self.telling {
            let path = format!("/v1/schedules/{schedule}/notifications");
            let wanted = json!({ "notifyOn": "both", "channelIds": [channel] });
            api.call("PUT", &path, Some(&wanted)).await.expect("an answer").data();
        }
        self.telling_since = self.lapse.now();
    }

    /// Lets so many minutes of the calendar pass.
    pub async fn minutes(&self, count: f64) {
        let minute = Duration::from_secs(60).div_f64(self.lapse.factor as f64);
        live_for(minute.mul_f64(count)).await;
    }

    /// Waits for this part of a minute of the calendar: 0 is the tick.
    pub async fn part_of_minute(&self, part: f64) {
        let minute = super::lapse::MINUTE;
        let now = self.lapse.now().rem_euclid(minute);
        #[expect(clippy::cast_possible_truncation, reason = "a part of a minute")]
        let wanted = (part * minute as f64) as i64;
        let left = (wanted - now).rem_euclid(minute);
        live_for(Duration::from_millis(self.lapse.real(left).unsigned_abs())).await;
    }

    /// From now on a fault is at work.
    pub fn trouble(&mut self) {
        self.troubles.push(Trouble { begun_at: machine(), over_at: i64::MAX });
    }

    /// It is over; what it has done may be felt for a while.
    pub fn healed(&mut self) {
        let aftermath = i64::try_from(AFTERMATH.as_millis()).expect("small");
        if let Some(trouble) = self.troubles.last_mut() {
            trouble.over_at = machine() + aftermath;
        }
    }

    /// Ticks are fired within this time, whatever happens.
    pub fn fires_on(&mut self, within: Duration) {
        self.latest_ms = i64::try_from(within.as_millis()).ok();
    }

    /// Which replica leads each shard, by the newest epochs.
    pub async fn leaders(&self) -> Vec<(i32, usize)> {
        let rows: Vec<(i32, String)> = sqlx::query_as(
            "SELECT DISTINCT ON (shard) shard, life FROM audit WHERE kind = 'epoch'
             ORDER BY shard, place DESC",
        )
        .fetch_all(&mut self.stores.store.beside().await)
        .await
        .expect("read");
        let place = |life: &str| life.split('.').next().and_then(|place| place.parse().ok());
        rows.iter().map(|(shard, life)| (*shard, place(life).expect("a life"))).collect()
    }

    /// The replica that leads a shard.
    pub async fn leader_of(&self, shard: i32) -> usize {
        let leaders = self.leaders().await;
        leaders.iter().find(|(led, _)| *led == shard).expect("it is led").1
    }

    /// Kills a replica; others lead its shards, and it comes back.
    pub async fn outlives(&mut self, place: usize) {
        self.trouble();
        self.replicas[place].kill();
        self.comes_back(place).await;
    }

    /// Others lead the shards of a replica that has died, and it comes back: all is well then.
    pub async fn comes_back(&mut self, place: usize) {
        self.led_without(place).await;
        self.restart(place).await;
        self.healed();
    }

    /// Waits until others than this one lead all shards.
    pub async fn led_without(&self, place: usize) {
        within(LEASE * 4, "others lead all shards", async || {
            self.leaders().await.iter().all(|(_, leader)| *leader != place).then_some(())
        })
        .await;
    }
}
