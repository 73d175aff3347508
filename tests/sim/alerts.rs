//! The receiver of all alerts, and the check of ALERT-1: every event is delivered, merged into a
//! delivery, or recorded as undeliverable. No alert reports an event that did not happen.
//!
//! Every schedule alerts one webhook on both outcomes. So each job that ends by itself raises one
//! event, and each event has one delivery.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use punctual::channels::Channels;
use punctual::domain::alert::AlertKind;
use punctual::domain::alert::delivery::{DeliveryStatus, TRIES};
use punctual::domain::alert::policy::AlertPolicy;
use punctual::domain::channel::Channel;
use punctual::domain::job::{Job, JobStatus};
use punctual::domain::outcome::ErrorCode;
use punctual::domain::plan::{ChannelType, NotifyOn};
use punctual::domain::{ChannelId, JobId, ScheduleId};
use punctual::store::{
    AlertStore, ChannelStore, Delivery, DeliveryQuery, NewChannel, NewPreference, PreferenceSet,
    PreferenceStore,
};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::process::run;
use crate::world::World;

/// The reaction of the receiver to an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reception {
    Taken,
    Refused,
    SlowDown(u64),
    Reset,
}

/// Returns the reaction to the `n`th arrival of an event.
fn reception(seed: u64, event: &str, n: usize) -> Reception {
    let hash = crc32fast::hash(format!("{seed} {event} {n}").as_bytes());
    match hash % 100 {
        0..70 => Reception::Taken,
        70..85 => Reception::Refused,
        85..92 => Reception::SlowDown(u64::from(hash / 100 % 120) + 1),
        _ => Reception::Reset,
    }
}

/// A received alert.
#[derive(Clone, Debug)]
pub struct ReceivedAlert {
    pub event: String,
    pub was_taken: bool,
}

/// A running receiver.
pub struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedAlert>>>,
    serving: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(received: &Mutex<Vec<ReceivedAlert>>) -> MutexGuard<'_, Vec<ReceivedAlert>> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    pub async fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let received: Arc<Mutex<Vec<ReceivedAlert>>> = Arc::default();
        let serving = tokio::spawn(serve(listener, seed, received.clone()));
        Self { address, received, serving }
    }

    /// Returns the received alerts in order.
    pub fn received(&self) -> Vec<ReceivedAlert> {
        lock(&self.received).clone()
    }
}

async fn serve(listener: TcpListener, seed: u64, received: Arc<Mutex<Vec<ReceivedAlert>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let received = received.clone();
        connections.spawn(async move {
            let service = service_fn(|request| take(seed, &received, request));
            let http = hyper::server::conn::http1::Builder::new();
            // It returns an error if the client disconnects or the script breaks the connection.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn take(
    seed: u64,
    received: &Mutex<Vec<ReceivedAlert>>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (head, body) = request.into_parts();
    body.collect().await.map_err(std::io::Error::other)?;
    let event = head.headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or("none");
    let reception = {
        let mut received = lock(received);
        let before = received.iter().filter(|one| one.event == event).count();
        let reception = reception(seed, event, before);
        let was_taken = reception == Reception::Taken;
        received.push(ReceivedAlert { event: event.to_owned(), was_taken });
        reception
    };
    let plain = |status| {
        let mut response = Response::new(Full::new(Bytes::from_static(b"received")));
        *response.status_mut() = status;
        response
    };
    match reception {
        Reception::Taken => Ok(plain(StatusCode::OK)),
        Reception::Refused => Ok(plain(StatusCode::BAD_GATEWAY)),
        Reception::SlowDown(seconds) => {
            let mut response = plain(StatusCode::TOO_MANY_REQUESTS);
            response.headers_mut().insert("retry-after", seconds.into());
            Ok(response)
        }
        Reception::Reset => Err(std::io::ErrorKind::ConnectionReset.into()),
    }
}

impl World {
    /// Creates the channel that all schedules alert.
    pub async fn make_channel(&mut self) {
        let url = format!("http://{}/alerts", self.receiver.address);
        let given = serde_json::json!({ "url": url });
        let given = given.as_object().expect("an object");
        let channels: Channels = self.process().channels.clone();
        let configured = channels.configure(ChannelType::Webhook, given, None);
        let config = configured.expect("a sound configuration").config;
        let (now, write) = (self.clock.now(), self.write());
        let id = ChannelId::new(now, 1);
        let channel = Channel {
            id,
            kind: ChannelType::Webhook,
            label: "sim".to_owned(),
            verified: false,
            created_at: now,
            updated_at: now,
        };
        let sqlite = self.process().sqlite.clone();
        sqlite.create_channel(&write, &NewChannel { channel, config }, None).await.expect("made");
        let write = self.write();
        sqlite.verify_channel(&write, id, 1, None).await.expect("verified");
        self.channel = Some(id);
    }

    /// Sets the preference of a schedule: it alerts the channel on both outcomes.
    pub async fn prefer(&mut self, schedule: ScheduleId) {
        let policy = AlertPolicy { notify_on: NotifyOn::Both, ..AlertPolicy::default() };
        let new = NewPreference { policy, channels: self.channel.into_iter().collect() };
        let write = self.write();
        let set = self.process().sqlite.set_preference(&write, schedule, &new).await;
        assert_eq!(set.expect("set"), PreferenceSet::Done);
        self.alerting_schedules.insert(schedule);
    }

    /// Runs the notifier until it has nothing to do. An armed fault may stop it.
    pub async fn notify(&mut self) {
        let (clock, gate) = (self.clock.clone(), self.process().gate.clone());
        let ended = tokio::select! {
            ended = run(&mut self.process().notifier, &clock) => Some(ended),
            () = gate.died() => None,
        };
        match ended {
            Some(Err(error)) => self.note(format_args!("notifier failed: {error}")),
            Some(Ok(())) => {}
            None => self.restart().await,
        }
    }

    /// Returns `true` if no event and no delivery is pending.
    pub async fn all_told(&mut self) -> bool {
        let now = self.clock.now();
        let work = self.process().sqlite.alert_work(now).await.expect("read");
        work.waiting == 0 && !work.relay
    }

    async fn deliveries(&mut self) -> Vec<Delivery> {
        let (account, sqlite) = (self.account, self.process().sqlite.clone());
        let mut query = DeliveryQuery { limit: 1_000, ..DeliveryQuery::default() };
        let mut all = Vec::new();
        loop {
            let page = sqlite.deliveries(account, &query).await.expect("read");
            query.after = page.deliveries.last().map(|last| last.id).filter(|_| page.has_more);
            all.extend(page.deliveries);
            if query.after.is_none() {
                return all;
            }
        }
    }
}

/// Checks the deliveries after a finished run. Returns all violations.
pub async fn judge(world: &mut World, jobs: &[Job]) -> Vec<String> {
    let deliveries = world.deliveries().await;
    let mut broken = Vec::new();
    let by_id: HashMap<_, &Delivery> = deliveries.iter().map(|one| (one.id, one)).collect();
    let mut of_job: BTreeMap<JobId, Vec<&Delivery>> = BTreeMap::new();
    for delivery in &deliveries {
        let is_of_job = matches!(delivery.kind, AlertKind::JobFailed | AlertKind::JobSucceeded);
        if let Some(job) = delivery.job.filter(|_| is_of_job) {
            of_job.entry(job).or_default().push(delivery);
        }
        let is_known = |into| by_id.contains_key(&into);
        match delivery.status {
            DeliveryStatus::Pending => broken.push(format!("ALERT-1: never ends: {delivery:?}")),
            DeliveryStatus::Merged if !delivery.merged_into.is_some_and(is_known) => {
                broken.push(format!("ALERT-1: merged into nothing: {delivery:?}"));
            }
            DeliveryStatus::Failed if delivery.error_code.is_none() => {
                broken.push(format!("ALERT-1: undeliverable without a reason: {delivery:?}"));
            }
            DeliveryStatus::Failed if delivery.channel.is_some() => {
                broken.extend(
                    (delivery.tries.len() != usize::from(TRIES))
                        .then(|| format!("ALERT-1: given up too early or too late: {delivery:?}")),
                );
            }
            _ => {}
        }
    }
    for job in jobs {
        broken.extend(delivery_violation(world, job, &of_job.remove(&job.id).unwrap_or_default()));
    }
    broken.extend(of_job.keys().map(|job| format!("ALERT-1: an alert about the unknown {job}")));
    broken.extend(received(&world.receiver.received(), &deliveries));
    broken
}

/// Requires one delivery for each job that ended by itself while its schedule existed, and none for
/// other jobs.
fn delivery_violation(world: &World, job: &Job, received: &[&Delivery]) -> Option<String> {
    let ended = match (job.status, job.error_code) {
        (JobStatus::Failed, Some(ErrorCode::Cancelled)) => None,
        (JobStatus::Failed, _) => Some(AlertKind::JobFailed),
        (JobStatus::Success, _) => Some(AlertKind::JobSucceeded),
        _ => None,
    };
    let known = world.history.schedules.get(&job.schedule_id);
    let alive = known.is_some_and(|known| known.deleted.is_none());
    let tells = world.alerting_schedules.contains(&job.schedule_id);
    let fits = match (ended, received) {
        (None, []) => true,
        (Some(kind), [one]) => tells && one.kind == kind,
        // The job may have ended after its schedule was deleted.
        (Some(_), []) => !tells || !alive,
        _ => false,
    };
    (!fits).then(|| format!("ALERT-1: {job:?} has the alerts {received:?}"))
}

/// Requires that each received alert has a delivery, and that each delivered alert was received.
fn received(received: &[ReceivedAlert], deliveries: &[Delivery]) -> Vec<String> {
    let mut broken = Vec::new();
    let events: HashMap<String, &Delivery> =
        deliveries.iter().map(|one| (one.event.to_string(), one)).collect();
    let taken: HashSet<&str> =
        received.iter().filter(|one| one.was_taken).map(|one| one.event.as_str()).collect();
    for one in received {
        match events.get(&one.event) {
            None => broken.push(format!("ALERT-1: {} was received and not planned", one.event)),
            Some(delivery) if delivery.status == DeliveryStatus::Merged => {
                broken.push(format!("ALERT-1: received although it was merged: {delivery:?}"));
            }
            Some(_) => {}
        }
    }
    for delivery in deliveries.iter().filter(|one| one.status == DeliveryStatus::Delivered) {
        if !taken.contains(delivery.event.to_string().as_str()) {
            broken.push(format!("ALERT-1: delivered and never received: {delivery:?}"));
        }
    }
    broken
}
