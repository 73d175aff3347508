//! The page of the installation, for operators: its servers, replicas and shards, and its waiting
//! work. It shows no data of accounts. For all other users the page does not exist.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use super::table::Column::{Number, Text};
use super::visitor::{RENEWAL, Visitor};
use super::{Dashboard, PageError, shell, table, time};
use crate::inspection::{
    InstallationReport, JOBS_COUNTED, ReplicaStatus, ServerStatus, ShardStatus, WaitingWork,
};

/// The interval at which the page refreshes itself. A report is made at most every 5 seconds.
const AGAIN: &str = "every 10s";
/// The lag from which a shard counts as late, in milliseconds.
const LATE_MS: u64 = 1_000;

pub(super) fn routes() -> Router<Dashboard> {
    Router::new().route("/dashboard/installation", get(show))
}

async fn show(State(dashboard): State<Dashboard>, visitor: Visitor) -> Result<Response, PageError> {
    if !visitor.is_operator() {
        return Err(PageError::NotFound);
    }
    let report = dashboard.inspector.report().await;
    let content = html! {
        div #installation hx-get={ (dashboard.path("/installation")) "?" (RENEWAL) } hx-trigger=(AGAIN)
            hx-select="#installation" hx-swap="outerHTML" {
            h1 { "Installation" }
            (figures(&report))
            h2 { "Servers" }
            (servers(&report.servers))
            @if !report.members.is_empty() {
                h2 { "Replicas" }
                (replicas(&report.members))
            }
            h2 { "Shards" }
            (shards(&visitor, &report.shards))
        }
    };
    Ok(shell::page(&dashboard, &visitor, ("Installation", "Installation"), &content))
}

/// Renders the totals: the largest lags, and the waiting work.
fn figures(report: &InstallationReport) -> Markup {
    let largest = |lag: fn(&ShardStatus) -> u64| report.shards.iter().map(lag).max().unwrap_or(0);
    let figures = [
        ("Largest tick lag", millis(largest(|shard| shard.tick_lag_ms))),
        ("Largest job lag", millis(largest(|shard| shard.job_lag_ms))),
    ];
    html! {
        dl.figures {
            @for (name, value) in figures { div { dt { (name) } dd { (value) } } }
            @if let Some(WaitingWork { jobs, alerts, oldest_alert_ms, .. }) = &report.waiting {
                div { dt { "Waiting jobs" } dd { (count(*jobs)) } }
                div { dt { "Waiting alerts" } dd { (alerts) } }
                @if *alerts > 0 {
                    div { dt { "Oldest alert" } dd { (millis(*oldest_alert_ms)) } }
                }
            }
        }
    }
}

fn count(jobs: u64) -> String {
    let is_all = jobs < u64::from(JOBS_COUNTED);
    if is_all { jobs.to_string() } else { format!("{jobs} or more") }
}

fn millis(ms: u64) -> String {
    time::millis(u32::try_from(ms).unwrap_or(u32::MAX))
}

/// Renders a state in words, with the colour of a good or a bad outcome.
fn state(is_good: bool, words: &str) -> Markup {
    html! { span.state.success[is_good].failed[!is_good] { (words) } }
}

fn servers(servers: &[ServerStatus]) -> Markup {
    let name = |setting| match setting {
        "store.url" => "Store",
        "queue.url" => "Redis",
        _ => "etcd",
    };
    let rows = html! {
        @for server in servers {
            tr {
                th scope="row" { (name(server.setting)) span.sub { code { (server.setting) } } }
                td {
                    @match &server.error {
                        None => (state(true, "reachable")),
                        Some(error) => { (state(false, "unreachable")) span.sub { (error) } }
                    }
                }
            }
        }
    };
    table::render("", &[Text("Server"), Text("State")], &rows)
}

fn replicas(replicas: &[ReplicaStatus]) -> Markup {
    let said = |does: Option<bool>| does.map_or("–", |does| if does { "yes" } else { "no" });
    let is_complete = |one: &ReplicaStatus| one.without_servers.as_ref().is_none_or(Vec::is_empty);
    let columns = [
        Text("Replica"),
        Text("Version"),
        Text("Leads"),
        Text("Executes"),
        Number("Shards"),
        Text("Mode"),
    ];
    let rows = html! {
        @for one in replicas {
            tr {
                th scope="row" { (one.name) }
                td { (one.version.as_deref().unwrap_or("–")) }
                td { (said(one.leads)) }
                td { (said(one.executes)) }
                td.number { (one.shards.len()) }
                td { (state(is_complete(one), one.mode())) }
            }
        }
    };
    table::render("", &columns, &rows)
}

fn shards(visitor: &Visitor, shards: &[ShardStatus]) -> Markup {
    let columns = [
        Number("Shard"),
        Text("Leader"),
        Number("Epoch"),
        Text("Led since"),
        Number("Tick lag"),
        Number("Job lag"),
    ];
    let lag = |ms: u64| {
        if ms < LATE_MS {
            html! { (millis(ms)) }
        } else {
            state(false, &millis(ms))
        }
    };
    let rows = html! {
        @for shard in shards {
            tr {
                th.number scope="row" { (shard.shard) }
                td { (shard.leader.as_deref().unwrap_or("none")) }
                td.number { @if let Some(epoch) = shard.epoch { (epoch) } @else { "–" } }
                td { @if let Some(at) = shard.led_since { (time::instant(at, visitor.zone)) } @else { "–" } }
                td.number { (lag(shard.tick_lag_ms)) }
                td.number { (lag(shard.job_lag_ms)) }
            }
        }
    };
    table::render("", &columns, &rows)
}
