//! Plans: tables whose names the operator chooses, `[plans.NAME]`. Variables and options have fixed
//! names, so plans can be set only in the file.

use std::str::FromStr;
use std::time::Duration;

use figment::value::Value;

use super::document::PLANS;
use super::reader::{ParseResult, SettingsReader, SourceValue, list, number, text};
use crate::domain::plan::{ChannelType, NotifyOn, Plan, Plans, UNLIMITED};

/// The names of all limits that a plan can have.
const LIMITS: &[&str] = &[
    "schedules",
    "shortest_interval_seconds",
    "jobs_per_month",
    "unstarted_jobs",
    "concurrent_attempts",
    "channels",
    "channel_types",
    "notify_on",
    "body_bytes",
    "history_days",
    "requests_per_minute",
    "requests_per_hour",
];

/// The maximum length of a plan's name, in characters.
const MAX_NAME: usize = 40;

pub(super) fn read(reader: &mut SettingsReader) -> Plans {
    let tables = reader.tables(PLANS);
    let plans: Vec<Plan> =
        tables.into_iter().filter_map(|(name, table)| read_one(reader, name, &table)).collect();
    Plans::new(plans)
        .with_unstarted_jobs(reader.read("schedules.unstarted_jobs", number(1..=10_000)))
}

fn read_one(reader: &mut SettingsReader, name: String, table: &Value) -> Option<Plan> {
    let key = format!("{PLANS}.{name}");
    if name == UNLIMITED {
        reader.wrong(&key, "always exists and has no limits: choose another name");
        return None;
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        reader.wrong(&key, "must be a name of 1 to 40 letters, digits, - and _");
        return None;
    }
    let Value::Dict(_, table) = table else {
        reader.wrong(&key, "must be a table of limits, such as [plans.free]");
        return None;
    };
    for limit in table.keys().filter(|limit| !LIMITS.contains(&limit.as_str())) {
        let why = format!("is not a limit of a plan; there are {}", LIMITS.join(", "));
        reader.wrong(&format!("{key}.{limit}"), &why);
    }
    let mut limits = PlanReader { reader, key, table };
    Some(Plan {
        name,
        schedules: limits.read("schedules", number(0..=1_000_000_000)),
        shortest_interval: limits
            .read("shortest_interval_seconds", number(60..=31_536_000))
            .map(Duration::from_secs),
        jobs_per_month: limits.read("jobs_per_month", number(0..=1_000_000_000_000)),
        unstarted_jobs: limits.read("unstarted_jobs", number(1..=10_000)),
        concurrent_attempts: limits.read("concurrent_attempts", number(1..=1_000_000)),
        channels: limits.read("channels", number(0..=1_000_000)),
        channel_types: limits.read("channel_types", list(one_of(ChannelType::ALL))),
        notify_on: limits.read("notify_on", list(one_of(NotifyOn::ALL))),
        body_bytes: limits.read("body_bytes", number(0..=262_144)),
        history_days: limits.read("history_days", number(1..=3_650)),
        requests_per_minute: limits.read("requests_per_minute", number(0..=1_000_000_000)),
        requests_per_hour: limits.read("requests_per_hour", number(0..=1_000_000_000)),
    })
}

/// Reads the limits of one plan.
struct PlanReader<'a> {
    reader: &'a mut SettingsReader,
    key: String,
    table: &'a figment::value::Dict,
}

impl PlanReader<'_> {
    fn read<T>(&mut self, name: &str, parse: impl Fn(&SourceValue) -> ParseResult<T>) -> Option<T> {
        let raw = SourceValue::from(self.table.get(name)?);
        let parsed = parse(&raw);
        parsed.map_err(|why| self.reader.wrong(&format!("{}.{name} = {raw}", self.key), &why)).ok()
    }
}

fn one_of<T>(all: &'static [T]) -> impl Fn(&SourceValue) -> ParseResult<T>
where
    T: Copy + ToString + FromStr,
{
    move |raw| {
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        let allowed = || format!("must be some of {}", names.join(", "));
        text(raw).ok().and_then(|text| text.parse().ok()).ok_or_else(allowed)
    }
}

/// Formats the tables as in the configuration file.
pub(super) fn shown(reader: &SettingsReader) -> String {
    let mut text = String::new();
    for (name, table) in reader.tables(PLANS) {
        let Value::Dict(_, limits) = &table else { continue };
        text.push_str(&format!("\n[{PLANS}.{name}]\n"));
        for (limit, value) in limits {
            text.push_str(&format!("{limit} = {}\n", SourceValue::from(value)));
        }
    }
    text
}
