//! A steady load: schedules that tick each minute, and users who trigger, create, read and access
//! objects of other accounts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::runtime::Random;
use serde_json::{Value, json};

use super::history::{Answer, ApiOperation, Call, Job, Probe};
use super::lapse::machine;
use super::read;
use super::replica::Addresses;
use crate::harness::client::{ApiClient, Reply, schedule};
use crate::harness::wait::live_for;

/// The timeout of a user's call.
const TIMEOUT: Duration = Duration::from_secs(6);

const JOB: &str = "/v1/jobs/{}";
/// The calls on objects of another account, with their bodies.
const FOREIGN_CALLS: [(&str, &str, Option<&str>); 8] = [
    ("GET", "/v1/schedules/{}", None),
    ("POST", "/v1/schedules/{}/trigger", None),
    ("PATCH", "/v1/schedules/{}", Some(r#"{"name":"mine"}"#)),
    ("PATCH", "/v1/schedules/{}/toggle", Some(r#"{"enabled":false}"#)),
    ("DELETE", "/v1/schedules/{}", None),
    ("GET", "/v1/schedules/{}/skips", None),
    ("GET", "/v1/jobs?scheduleId={}", None),
    ("GET", JOB, None),
];

/// The record of the users.
#[derive(Default)]
pub struct Recording {
    pub calls: Vec<Call>,
    pub seen: Vec<Job>,
    pub probes: Vec<Probe>,
}

/// The users of all accounts. They know every replica. Clones share their state.
#[derive(Clone)]
pub struct Users {
    pub addresses: Addresses,
    /// An API key of each account.
    pub keys: Vec<String>,
    pub recording: Arc<Mutex<Recording>>,
    pub random: Random,
    names: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
}

impl Users {
    pub fn new(addresses: Addresses, keys: Vec<String>, random: Random) -> Self {
        Self {
            addresses,
            keys,
            recording: Arc::default(),
            random,
            names: Arc::default(),
            stopped: Arc::default(),
        }
    }

    fn recording(&self) -> std::sync::MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the record and clears it.
    pub fn take_recording(&self) -> Recording {
        std::mem::take(&mut *self.recording())
    }

    /// Returns a new name for a schedule.
    pub fn name(&self) -> String {
        format!("schedule {}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a random number below `bound`.
    pub fn below(&self, bound: usize) -> usize {
        usize::try_from(self.random.bits() % bound as u128).expect("small")
    }

    /// Returns a random replica among those that are known to run.
    pub fn address(&self) -> Option<SocketAddr> {
        let addresses = self.addresses.open();
        (!addresses.is_empty()).then(|| addresses[self.below(addresses.len())])
    }

    /// Makes a call of an account to a replica. Returns `None` without a response in time.
    pub async fn call(
        &self,
        address: SocketAddr,
        account: usize,
        (method, path): (&str, &str),
        body: Option<&Value>,
    ) -> Option<Reply> {
        let api = ApiClient::new(address, &self.keys[account]);
        let call = api.call(method, path, body);
        tokio::time::timeout(TIMEOUT, call).await.ok()?.ok()
    }

    /// Makes and records a call of an account to a replica.
    pub async fn ask_at(
        &self,
        address: SocketAddr,
        account: usize,
        operation: ApiOperation,
        body: Option<&Value>,
    ) -> Answer {
        let begun_at = machine();
        let (method, path) = request(&operation);
        let reply = self.call(address, account, (method, &path), body).await;
        let answer = reply.map_or(Answer::Lost, |reply| answer(&reply));
        let call =
            Call { operation, begun_at, ended_at: machine(), answer: answer.clone(), account };
        self.recording().calls.push(call);
        answer
    }

    /// Makes and records a call of the first account to any replica.
    pub async fn ask(&self, operation: ApiOperation, body: Option<&Value>) -> Answer {
        match self.address() {
            Some(address) => self.ask_at(address, 0, operation, body).await,
            None => Answer::Lost,
        }
    }

    /// Creates schedules in one call and returns their ids.
    pub async fn create(&self, account: usize, minutes: i64, batch: Vec<Value>) -> Vec<String> {
        let name = |one: &Value| one["name"].as_str().expect("a name").to_owned();
        let names = batch.iter().map(name).collect();
        let address = self.address().expect("a replica");
        let operation = ApiOperation::Create { names, minutes };
        match self.ask_at(address, account, operation, Some(&batch.into())).await {
            Answer::Done(ids) => ids,
            other => panic!("not created: {other:?}"),
        }
    }

    /// Triggers a schedule at one replica and reads the job at another.
    async fn trigger(&self, schedule: &str) {
        let operation = ApiOperation::Trigger { schedule: schedule.to_owned() };
        if let Answer::Done(ids) = self.ask(operation, None).await {
            for job in ids {
                self.ask(ApiOperation::Read { job }, None).await;
            }
        }
    }

    /// Creates a schedule that does not tick during the test.
    async fn create_one(&self) {
        let name = self.name();
        let body = json!([schedule("http://example.com/", json!({ "name": name }))]);
        self.ask(ApiOperation::Create { names: vec![name], minutes: 0 }, Some(&body)).await;
    }

    /// Reads or changes an object of the first account as the second account, and does the same
    /// with an unknown object.
    async fn probe_foreign_objects(&self, schedule: &str) {
        let Some(address) = self.address() else { return };
        let (method, path, body) = FOREIGN_CALLS[self.below(FOREIGN_CALLS.len())];
        let job = self.recording().seen.last().map(|job| job.id.clone());
        let id = job.as_deref().filter(|_| path == JOB).unwrap_or(schedule);
        let body = body.map(|body| serde_json::from_str(body).expect("JSON"));
        let ask = async |id: &str| {
            let reply =
                self.call(address, 1, (method, &path.replace("{}", id)), body.as_ref()).await;
            reply.map_or((0, String::new()), |reply| (reply.status, reply.body.to_string()))
        };
        let unknown = format!("{}ZZZZZZ", &id[..id.len() - 6]);
        let what = format!("{method} {path}");
        let probe = Probe { what, of_other: ask(id).await, of_unknown: ask(&unknown).await };
        self.recording().probes.push(probe);
    }

    /// Records the newest finished jobs.
    pub async fn record_newest_jobs(&self) {
        let Some(address) = self.address() else { return };
        let reply = self.call(address, 0, ("GET", "/v1/jobs?pageSize=100"), None).await;
        let Some(reply) = reply.filter(|reply| reply.status == 200) else { return };
        let jobs = reply.body["data"]["jobs"].as_array().expect("jobs").iter();
        let jobs = jobs.map(|job| read::job(job, 0));
        self.recording().seen.extend(jobs.filter(Job::is_final));
    }

    /// Records all finished jobs.
    pub async fn record_all_jobs(&self) {
        let address = self.address().expect("a replica");
        let jobs = ApiClient::new(address, &self.keys[0]).jobs("").await;
        let seen = jobs.iter().map(|job| read::job(job, 0)).filter(Job::is_final);
        self.recording().seen.extend(seen);
    }

    /// Lets all users finish their current calls and start no more.
    pub fn stop_users(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Runs one user until `stop_users` is called.
    pub async fn run_user(self, schedules: Arc<Vec<String>>) {
        while !self.stopped.load(Ordering::Relaxed) {
            let pause = 0.1 + 0.3 * self.random.unit();
            live_for(Duration::from_secs_f64(pause)).await;
            let any = &schedules[self.below(schedules.len())];
            match self.below(10) {
                0 => self.create_one().await,
                1 => self.probe_foreign_objects(any).await,
                2 => self.record_newest_jobs().await,
                _ => self.trigger(any).await,
            }
        }
    }
}

fn request(operation: &ApiOperation) -> (&'static str, String) {
    match operation {
        ApiOperation::Create { .. } | ApiOperation::Other => {
            ("POST", "/v1/schedules/bulk".to_owned())
        }
        ApiOperation::Trigger { schedule } => ("POST", format!("/v1/schedules/{schedule}/trigger")),
        ApiOperation::Switch { schedule, .. } => {
            ("PATCH", format!("/v1/schedules/{schedule}/toggle"))
        }
        ApiOperation::Change { schedule, .. } => ("PATCH", format!("/v1/schedules/{schedule}")),
        ApiOperation::Delete { schedule } => ("DELETE", format!("/v1/schedules/{schedule}")),
        ApiOperation::Read { job } => ("GET", format!("/v1/jobs/{job}")),
    }
}

fn answer(reply: &Reply) -> Answer {
    if !(200..300).contains(&reply.status) {
        let code = reply.body["error"]["code"].as_str().unwrap_or_default().to_owned();
        return Answer::Refused { status: reply.status, code };
    }
    let data = &reply.body["data"];
    let id = |value: &Value| value.as_str().map(str::to_owned);
    let batch = data["schedules"].as_array().into_iter().flatten();
    let ids = batch.filter_map(|one| id(&one["id"]));
    Answer::Done(ids.chain(id(data)).collect())
}

/// Returns schedules of many kinds that tick every `minutes` minutes.
pub fn kinds(users: &Users, url: &str, count: usize, minutes: i64) -> Vec<Value> {
    const PATHS: [&str; 5] = ["/ok", "/slow/60", "/seq/500,200", "/ok", "/seq/0,200"];
    const OVERLAP: [&str; 5] = ["allow", "allow", "skip", "allow", "queue_one"];
    const CATCH_UP: [&str; 3] = ["last", "all", "skip"];
    let one = |index: usize| {
        let fields = json!({
            "name": users.name(),
            "cronExpression": format!("*/{minutes} * * * *"),
            "maxRetries": 3,
            "overlapPolicy": OVERLAP[index / 5 % 5],
            "catchUpPolicy": CATCH_UP[index % 3],
            "body": format!("{index}"),
        });
        schedule(&format!("{url}{}/{index}", PATHS[index % 5]), fields)
    };
    (0..count).map(one).collect()
}
