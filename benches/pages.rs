//! Benchmarks every page of the dashboard, and the lists of the API, for an account with 5,000
//! schedules and 1,000,000 finished jobs: the first view after a start of the service, the median
//! and the maximum of 20 more, and the ratio of the median to that of an account with 5 schedules
//! and 50 jobs in the same store.
//!
//! `cargo bench --bench pages` measures SQLite and takes two minutes. For PostgreSQL, run
//! `tests/servers cargo bench --bench pages`. A page with a wrong status ends it unsuccessfully; a
//! slow one does not.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures real time and prints it"
)]

mod support;

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use punctual::runtime::Clock;
use support::account::{Account, Objects};
use support::cluster;
use support::dashboard::{PROXY, Visitor};
use support::database::Database;
use support::history::History;
use support::numbers::quantile;
use support::profile::print_profile;
use support::service::Service;
use support::target::Target;

/// The number of measured views of a page, after the first one.
const VIEWS: usize = 20;
/// A page that is slower than this is marked.
const AIM: Duration = Duration::from_millis(100);

fn main() {
    print_profile();
    let target = Target::start();
    // Connections wait in its backlog, so requests get no answer.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let silent = format!("http://{}/", listener.local_addr().expect("bound"));
    let mut service = Service::start(&[PROXY]);
    let began = Instant::now();
    let create =
        |name, schedules| Account::create(&service, (name, schedules), (&target.url(), &silent));
    let (large, small) = (create("large", 5_000), create("small", 5));
    service.stop();
    let mut database = Database::open(&service.store_url());
    let now = Clock::system().now();
    for history in [
        History { jobs: 1_000_000, events: 20_000, versions: 200, ..large.history() },
        History { jobs: 50, events: 20, versions: 2, ..small.history() },
    ] {
        history.write(&mut database, now);
    }
    database.analyze();
    database.close();
    let start = service.launch();
    large.start_jobs(&service, 40);
    small.start_jobs(&service, 1);
    let store = if cluster::is_there() { "PostgreSQL" } else { "SQLite" };
    println!("{store}: filled in {:.0?}; ready after {start:.0?}", began.elapsed());
    println!("{:<58} {:>8} {:>8} {:>8} {:>8}", "milliseconds", "first", "p50", "max", "ratio");
    let mut slow = 0;
    for (name, of_large, of_small) in pages(&large, &small) {
        slow +=
            usize::from(measure(&name, (&large.visitor, &of_large), (&small.visitor, &of_small)));
    }
    println!("{slow} above {} ms", AIM.as_millis());
}

/// Measures a page of both accounts, in turns. Returns `true` if the large one is slow.
fn measure(
    name: &str,
    (large, page): (&Visitor, &Page),
    (small, small_page): (&Visitor, &Page),
) -> bool {
    let first = view(name, large, page);
    view(name, small, small_page);
    let (mut times, mut small_times) = (Vec::new(), Vec::new());
    for _ in 0..VIEWS {
        times.push(view(name, large, page));
        small_times.push(view(name, small, small_page));
    }
    let (p50, max) = (quantile(&mut times, 0.5), quantile(&mut times, 1.0));
    let ratio = p50.as_secs_f64() / quantile(&mut small_times, 0.5).as_secs_f64();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let is_slow = first.max(p50) > AIM;
    println!(
        "{name:<58} {:>8.1} {:>8.1} {:>8.1} {ratio:>8.1}{}",
        ms(first),
        ms(p50),
        ms(max),
        if is_slow { " slow" } else { "" }
    );
    is_slow
}

fn view(name: &str, visitor: &Visitor, page: &Page) -> Duration {
    let answer = visitor.get(&page.path);
    let status = answer.status;
    assert_eq!(status, page.status, "{name}: {}\n{}", page.path, answer.text);
    answer.time
}

/// The address of a page, and the expected status of its answer.
struct Page {
    path: String,
    status: u16,
}

/// Returns all pages by name, with their addresses in both accounts.
fn pages(large: &Account, small: &Account) -> Vec<(String, Page, Page)> {
    let (large, small) = (large.objects(), small.objects());
    let page = |(name, status, path): &(&str, u16, &str), objects: &Objects| Page {
        path: objects.fill(if path.is_empty() { name } else { path }),
        status: *status,
    };
    let row = |pattern: &(&'static str, u16, &str)| {
        (pattern.0.to_owned(), page(pattern, &large), page(pattern, &small))
    };
    PAGES.iter().map(row).collect()
}

/// The pages: a name, the status, and the address if it is not the name. Words in braces stand for
/// objects of the account.
const PAGES: &[(&str, u16, &str)] = &[
    ("/dashboard", 200, ""),
    ("/dashboard?range=7d", 200, ""),
    ("/dashboard?range=30d", 200, ""),
    ("/dashboard/load", 200, ""),
    ("/dashboard/schedules", 200, ""),
    ("/dashboard/schedules?offset={middle}", 200, ""),
    ("/dashboard/schedules?offset={last}", 200, ""),
    ("/dashboard/schedules?state=enabled", 200, ""),
    ("/dashboard/schedules?state=paused", 200, ""),
    ("/dashboard/schedules?outcome=failing", 200, ""),
    ("/dashboard/schedules?outcome=fine", 200, ""),
    ("/dashboard/schedules?method=POST", 200, ""),
    ("/dashboard/schedules?q=report", 200, ""),
    ("/dashboard/schedules?q=nowhere", 200, ""),
    (
        "/dashboard/schedules, all filters",
        200,
        "/dashboard/schedules?q=report&state=enabled&outcome=fine&method=GET&sort=last",
    ),
    ("/dashboard/schedules?sort=oldest", 200, ""),
    ("/dashboard/schedules?sort=name", 200, ""),
    ("/dashboard/schedules?sort=name&offset={last}", 200, ""),
    ("/dashboard/schedules?sort=next", 200, ""),
    ("/dashboard/schedules?sort=next&offset={last}", 200, ""),
    ("/dashboard/schedules?sort=last", 200, ""),
    ("/dashboard/schedules?sort=last&offset={last}", 200, ""),
    ("/dashboard/schedules/new", 200, ""),
    ("/dashboard/schedules/import", 200, ""),
    (
        "/dashboard/schedules/cron",
        200,
        "/dashboard/schedules/cron?cronExpression=30+9+*+*+MON-FRI&timezone=Europe%2FBerlin",
    ),
    (
        "/dashboard/schedules/cron, rare",
        200,
        "/dashboard/schedules/cron?cronExpression=0+0+29+2+MON&timezone=America%2FNew_York",
    ),
    (
        "/dashboard/schedules/cron, wrong",
        200,
        "/dashboard/schedules/cron?cronExpression=99+9&timezone=Europe%2FBerlin",
    ),
    (
        "/dashboard/schedules/worst-case",
        200,
        "/dashboard/schedules/worst-case?maxRetries=10&timeoutSeconds=300",
    ),
    ("/dashboard/schedules/{big}", 200, ""),
    ("/dashboard/schedules/{medium}", 200, ""),
    ("/dashboard/schedules/{other}", 200, ""),
    ("/dashboard/schedules/{empty}", 200, ""),
    ("/dashboard/schedules/{big}/edit", 200, ""),
    ("/dashboard/schedules/{big}/alerts", 200, ""),
    ("/dashboard/schedules/{big}/pause", 200, ""),
    ("/dashboard/schedules/{big}/delete", 200, ""),
    ("/dashboard/schedules/{big}/versions", 200, ""),
    ("/dashboard/schedules/{big}/versions?from={version}", 200, ""),
    ("/dashboard/schedules/{big}/versions/{version}/use", 200, ""),
    ("/dashboard/schedules/{empty}/versions", 200, ""),
    ("/dashboard/jobs", 200, ""),
    ("/dashboard/jobs?page=2", 200, ""),
    ("/dashboard/jobs?page=200", 200, ""),
    ("/dashboard/jobs?after={old}&page=99", 200, ""),
    ("/dashboard/jobs?status=PENDING", 200, ""),
    ("/dashboard/jobs?status=RUNNING", 200, ""),
    ("/dashboard/jobs?status=SUCCESS", 200, ""),
    ("/dashboard/jobs?status=FAILED", 200, ""),
    ("/dashboard/jobs?status=FAILED&page=200", 200, ""),
    ("/dashboard/jobs?status=SUCCESS&after={old}&page=99", 200, ""),
    ("/dashboard/jobs?trigger=schedule", 200, ""),
    ("/dashboard/jobs?trigger=manual", 200, ""),
    ("/dashboard/jobs?trigger=catch_up", 200, ""),
    ("/dashboard/jobs?trigger=retry", 200, ""),
    ("/dashboard/jobs?status=FAILED&trigger=schedule", 200, ""),
    ("/dashboard/jobs?status=FAILED&trigger=manual", 200, ""),
    ("/dashboard/jobs?schedule={big}", 200, ""),
    ("/dashboard/jobs?schedule={big}&page=200", 200, ""),
    ("/dashboard/jobs?schedule={big}&after={old}&page=99", 200, ""),
    ("/dashboard/jobs?schedule={big}&status=SUCCESS", 200, ""),
    ("/dashboard/jobs?schedule={big}&status=FAILED", 200, ""),
    ("/dashboard/jobs?schedule={big}&status=RUNNING", 200, ""),
    ("/dashboard/jobs?schedule={big}&trigger=manual", 200, ""),
    ("/dashboard/jobs?schedule={big}&trigger=retry", 200, ""),
    ("/dashboard/jobs?schedule={medium}", 200, ""),
    ("/dashboard/jobs?schedule={medium}&status=FAILED", 200, ""),
    ("/dashboard/jobs?schedule={medium}&trigger=manual", 200, ""),
    ("/dashboard/jobs?schedule={empty}", 200, ""),
    ("/dashboard/jobs?schedule=nonsense", 200, ""),
    ("/dashboard/jobs/{job}", 200, ""),
    ("/dashboard/jobs/{failed}", 200, ""),
    ("/dashboard/jobs/{old}", 200, ""),
    ("/dashboard/jobs/{running}", 200, ""),
    ("/dashboard/jobs/{running}?renewal=true", 200, ""),
    ("/dashboard/jobs/{running}/events", 200, ""),
    ("/dashboard/jobs/{job}/events", 200, ""),
    ("/dashboard/channels", 200, ""),
    ("/dashboard/channels/new", 200, ""),
    ("/dashboard/channels/{channel}", 200, ""),
    ("/dashboard/channels/{channel}?after={delivery}", 200, ""),
    ("/dashboard/channels/{channel}/edit", 200, ""),
    ("/dashboard/channels/{channel}/delete", 200, ""),
    ("/dashboard/keys", 200, ""),
    ("/dashboard/keys/{key}/revoke", 200, ""),
    ("/dashboard/account", 200, ""),
    ("/dashboard/account/audit", 200, ""),
    ("/dashboard/account/audit?after={entry}", 200, ""),
    ("/dashboard/account/audit?action=job.retried", 200, ""),
    ("/dashboard/account/audit?action=key.revoked", 200, ""),
    ("/dashboard/account/audit?actor=operator:rare", 200, ""),
    ("/dashboard/account/audit?actor=nobody", 200, ""),
    (
        "/dashboard/account/audit, both filters",
        200,
        "/dashboard/account/audit?actor=operator:rare&action=job.retried",
    ),
    ("/dashboard/installation", 200, ""),
    ("/dashboard/sign-in", 200, ""),
    ("/dashboard/sign-up", 200, ""),
    ("/dashboard/forgotten", 200, ""),
    ("/dashboard/first/code", 200, ""),
    ("/reset?code=code", 200, ""),
    ("/invitation?code=code", 200, ""),
    ("/", 303, ""),
    ("/dashboard/nowhere", 404, ""),
    ("/v1/account", 200, ""),
    ("/v1/schedules", 200, ""),
    ("/v1/schedules?page=50&pageSize=100", 200, ""),
    ("/v1/schedules?sort=-lastRunAtUtc", 200, ""),
    ("/v1/schedules?sort=nextRunAtUtc&isEnabled=true", 200, ""),
    ("/v1/schedules?q=report&httpMethod=GET", 200, ""),
    ("/v1/schedules/{big}", 200, ""),
    ("/v1/schedules/{big}/skips", 200, ""),
    ("/v1/schedules/{big}/notifications", 200, ""),
    ("/v1/jobs", 200, ""),
    ("/v1/jobs?page=100&pageSize=100", 200, ""),
    ("/v1/jobs?status=SUCCESS", 200, ""),
    ("/v1/jobs?status=FAILED", 200, ""),
    ("/v1/jobs?trigger=manual", 200, ""),
    ("/v1/jobs?from={from}&to={to}", 200, ""),
    ("/v1/jobs?from={from}&to={to}&status=FAILED", 200, ""),
    ("/v1/jobs?scheduleId={big}", 200, ""),
    ("/v1/jobs?scheduleId={big}&status=FAILED", 200, ""),
    ("/v1/jobs?scheduleId={medium}&status=FAILED", 200, ""),
    ("/v1/jobs?scheduleId={medium}&trigger=manual", 200, ""),
    ("/v1/jobs/{failed}", 200, ""),
    ("/v1/notification-channels", 200, ""),
    ("/v1/notification-deliveries", 200, ""),
    ("/v1/notification-deliveries?status=FAILED", 200, ""),
    ("/v1/notification-deliveries?scheduleId={big}", 200, ""),
    ("/v1/notification-deliveries?channelId={channel}&status=FAILED", 200, ""),
    ("/v1/audit-log", 200, ""),
    ("/v1/audit-log?action=job.retried", 200, ""),
];
