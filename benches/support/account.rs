//! An account with schedules, channels, a key and a user, and the ids of its objects.

use std::fmt::Write as _;
use std::iter;

use super::dashboard::Visitor;
use super::history::History;
use super::http;
use super::service::{BULK, Service};

/// The cron expressions. `{m}` is a minute that differs between schedules.
const CRONS: [&str; 6] = [
    "{m} * * * *",
    "{m} */6 * * *",
    "{m} 9 * * MON-FRI",
    "{m} 2 * * *",
    "{m} 0 1 * *",
    "*/15 8-18 * * *",
];
const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Sydney",
    "America/Sao_Paulo",
    "Africa/Lagos",
];
const NAMES: [&str; 4] = ["Nightly report", "Sync of orders", "Health check", "Clean-up"];
const METHODS: [&str; 3] = ["GET", "GET", "POST"];
const CHANNELS: usize = 5;

/// An account.
pub struct Account {
    name: String,
    /// The ids of the schedules, sorted.
    schedules: Vec<String>,
    /// The schedule whose jobs get no answer.
    unanswered: String,
    key: String,
    pub visitor: Visitor,
}

impl Account {
    /// Creates an account with this number of schedules. The endpoint `silent` of one of them never
    /// answers.
    pub fn create(
        service: &Service,
        (name, schedules): (&str, usize),
        (endpoint, silent): (&str, &str),
    ) -> Self {
        service.run(&["account", "create", name]);
        let key = service.run(&["key", "create", "--account", name]).trim().to_owned();
        let call = |path: &str, body: &str| {
            let answer = http::call(service.public, "POST", path, &key, body);
            let (status, text) = answer.expect("an answer");
            assert_eq!(status, 201, "{path}: {text}");
            text
        };
        let others = (1..schedules).map(|number| schedule(number, endpoint));
        let all: Vec<String> = iter::once(schedule(0, silent)).chain(others).collect();
        let mut ids = Vec::new();
        for some in all.chunks(BULK) {
            let text = call("/v1/schedules/bulk", &format!("[{}]", some.join(",")));
            ids.extend(ids_in(&text));
        }
        let unanswered = ids[0].clone();
        ids.sort_unstable();
        for number in 0..CHANNELS {
            let body = format!(
                r#"{{"type": "webhook", "label": "Channel {number}",
                    "config": {{"url": "{endpoint}"}}}}"#
            );
            call("/v1/notification-channels", &body);
        }
        let visitor = Visitor::sign_in(service, name, &key);
        Self { name: name.to_owned(), schedules: ids, unanswered, key, visitor }
    }

    /// Starts this number of jobs, which run until their timeout.
    pub fn start_jobs(&self, service: &Service, count: usize) {
        let path = format!("/v1/schedules/{}/trigger", self.unanswered);
        for _ in 0..count {
            let answer = http::call(service.public, "POST", &path, &self.key, "");
            let (status, text) = answer.expect("an answer");
            assert!(status < 300, "{path}: {text}");
        }
    }

    /// Returns an empty history of this account.
    pub fn history(&self) -> History<'_> {
        History {
            account: &self.name,
            schedules: self.schedules.len(),
            jobs: 0,
            events: 0,
            versions: 0,
            first: &self.schedules[0],
        }
    }

    /// Finds the objects that pages show.
    pub fn objects(&self) -> Objects {
        let ids = &self.schedules;
        let big = &ids[0];
        let one = |path: &str| {
            let answer = self.visitor.get(path);
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
            ids_in(&answer.text).next().unwrap_or_else(|| panic!("{path}: {}", answer.text))
        };
        let after = |page: &str, from: &str, to: char| {
            let answer = self.visitor.get(page);
            let found = answer.text.split(from).nth(1).and_then(|rest| rest.split(to).next());
            found.unwrap_or_else(|| panic!("no {from} in {page}: {}", answer.text)).to_owned()
        };
        let (last, middle) = ((ids.len() - 1) / 50 * 50, ids.len() / 100 * 50);
        let old = format!("/v1/jobs?scheduleId={big}&to={}&limit=1", days_ago(15));
        let versions = format!("/dashboard/schedules/{big}/versions");
        Objects(vec![
            ("{big}", big.clone()),
            ("{medium}", ids[1].clone()),
            ("{other}", ids[ids.len() / 2].clone()),
            ("{empty}", ids[ids.len() - 1].clone()),
            ("{middle}", middle.to_string()),
            ("{last}", last.to_string()),
            ("{job}", one("/v1/jobs?status=SUCCESS&limit=1")),
            ("{failed}", one("/v1/jobs?status=FAILED&limit=1")),
            ("{running}", one("/v1/jobs?status=RUNNING&limit=1")),
            ("{old}", one(&old)),
            ("{from}", days_ago(20)),
            ("{to}", days_ago(10)),
            ("{version}", after(&versions, "/versions/", '/')),
            ("{channel}", self.oldest_channel()),
            ("{delivery}", one("/v1/notification-deliveries?limit=1")),
            ("{entry}", one("/v1/audit-log?action=job.retried&limit=1")),
            ("{key}", after("/dashboard/keys", "/dashboard/keys/", '/')),
        ])
    }

    /// Returns the channel that the history uses.
    fn oldest_channel(&self) -> String {
        let channels = self.visitor.get("/v1/notification-channels");
        ids_in(&channels.text).min().expect("a channel")
    }
}

/// The words for objects in the addresses of pages, and their ids.
pub struct Objects(Vec<(&'static str, String)>);

impl Objects {
    /// Replaces the words in an address.
    pub fn fill(&self, address: &str) -> String {
        let replace = |text: String, (word, id): &(&str, String)| text.replace(word, id);
        self.0.iter().fold(address.to_owned(), replace)
    }
}

/// Returns the ids of the objects in an answer of the API.
fn ids_in(text: &str) -> impl Iterator<Item = String> {
    text.split(r#""id":""#).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned)
}

fn schedule(number: usize, endpoint: &str) -> String {
    let cron = CRONS[number % CRONS.len()].replace("{m}", &(number / 7 % 30 * 2).to_string());
    let (zone, method) = (ZONES[number / 6 % ZONES.len()], METHODS[number % METHODS.len()]);
    let name = NAMES[number % NAMES.len()];
    let mut body = format!(
        r#"{{"name": "{name} {number}", "description": "Number {number} of the account",
            "cronExpression": "{cron}", "timezone": "{zone}", "endpoint": "{endpoint}{number}",
            "httpMethod": "{method}", "timeoutSeconds": 300, "headers": "{{\"authorization\":\"Bearer {number}\"}}""#
    );
    if method == "POST" {
        let _ = write!(body, r#", "body": "{{\"number\":{number}}}""#);
    }
    body.push('}');
    body
}

/// Returns an instant as parameters of the API name it.
fn days_ago(days: u64) -> String {
    let ago = std::time::Duration::from_hours(24 * days);
    punctual::runtime::Clock::system().now().minus(ago).to_string()
}
