//! `punctual verify`: checks from outside that a running service runs every tick exactly once.
//!
//! The command creates a few schedules through the API, waits for their ticks, and looks up the
//! result of each. It removes the schedules at the end, also if it is stopped early. With
//! `--listen` the command is also their target and counts the requests that arrive.

mod listening;
mod service;
mod tally;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::FutureExt;

use super::{CliError, output};
use crate::app::Signals;
use crate::domain::Timestamp;
use crate::runtime::{Clock, Tasks};
use listening::RequestListener;
use service::{CheckedService, MadeSchedule};
use tally::{TickState, TickTally};

/// The number of schedules to create.
const SCHEDULES: usize = 3;
/// The interval at which the results of due ticks are looked up.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The time after its instant at which an unfinished tick counts as missed.
const TIMEOUT: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);
/// The time to wait at the end for requests that were sent a second time.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// The service to verify.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// The URL of the API, such as `https://punctual.example.com`, including its base path
    #[arg(long, value_name = "URL")]
    url: String,
    /// A file with a key of scope write [default: the variable PUNCTUAL_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The key itself
    #[arg(long, env = "PUNCTUAL_KEY", hide = true, hide_env_values = true)]
    key: Option<String>,
    /// The target of the schedules: a URL that the service may call, and that answers with a status
    /// below 400
    #[arg(long, value_name = "URL")]
    target: String,
    /// Listen on this address and count the requests; --target must lead to it
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The number of ticks of each schedule to wait for; there is one per minute
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_440))]
    minutes: u32,
}

pub(super) async fn run(args: &VerifyArgs) -> Result<(), CliError> {
    let (clock, tasks) = (Clock::system(), Tasks::new());
    let service = CheckedService::new(&args.url, &read_key(args)?, &clock, &tasks)?;
    let listening = match args.listen {
        Some(address) => Some(RequestListener::start(address, &tasks, &clock).await?),
        None => None,
    };
    let mut signals = Signals::receive().map_err(CliError::failed)?;
    let mut made = Vec::new();
    let verified = verify(args, &service, &clock, &mut made, &mut signals).await;
    if verified.is_ok() && listening.is_some() {
        clock.sleep(LAST_REQUESTS).await;
    }
    tokio::select! {
        () = remove(&service, &made) => {}
        () = signals.wait_for_one() => {
            output::complain("stopped again: some of the schedules may still exist");
        }
    }
    let mut tally = verified?;
    if let Some(listening) = &listening {
        tally.compare(listening);
    }
    tasks.finish(Duration::ZERO).await;
    output::print(&tally.to_string())?;
    if tally.is_kept() { Ok(()) } else { Err(CliError::failed("not every tick ran once")) }
}

/// Creates the schedules and follows their ticks until they are finished or a signal arrives.
async fn verify(
    args: &VerifyArgs,
    service: &CheckedService,
    clock: &Clock,
    made: &mut Vec<MadeSchedule>,
    signals: &mut Signals,
) -> Result<TickTally, CliError> {
    let stopped = || CliError::failed("stopped before the end");
    let mut stop = pin!(signals.wait_for_one());
    for number in 1..=SCHEDULES {
        // A signal does not cancel this call. Otherwise the schedule could be created without its
        // id being known, and could not be removed.
        made.push(service.make(number, &args.target).await?);
        if stop.as_mut().now_or_never().is_some() {
            return Err(stopped());
        }
    }
    tokio::select! {
        tally = follow(args.minutes, service, clock, made) => tally,
        () = stop => Err(stopped()),
    }
}

async fn remove(service: &CheckedService, made: &[MadeSchedule]) {
    for schedule in made {
        if let Err(error) = service.remove(schedule).await {
            output::complain(&format!("the schedule {} was not removed: {error}", schedule.id));
        }
    }
}

/// Follows this many ticks of each schedule until they are finished.
async fn follow(
    minutes: u32,
    service: &CheckedService,
    clock: &Clock,
    made: &[MadeSchedule],
) -> Result<TickTally, CliError> {
    let began = clock.monotonic();
    let mut tally = TickTally::default();
    // The time of the service: the creation time of the schedule, plus the time that has passed
    // since.
    let now = |made: &MadeSchedule| made.made_at.plus(clock.monotonic().saturating_sub(began));
    let mut open: Vec<(&MadeSchedule, Timestamp)> = Vec::new();
    for schedule in made {
        let ticks = (0..minutes).map(|tick| schedule.first_tick.plus(MINUTE * tick));
        open.extend(ticks.map(|tick| (schedule, tick)));
    }
    while !open.is_empty() {
        clock.sleep(ASK_EVERY).await;
        let mut left = Vec::new();
        for (schedule, tick) in open {
            let now = now(schedule);
            if tick > now {
                left.push((schedule, tick));
                continue;
            }
            match service.seen(schedule, tick).await {
                Ok(TickState::Unfinished) if now < tick.plus(TIMEOUT) => {
                    left.push((schedule, tick));
                }
                Ok(seen) => tally.add(tick, seen),
                Err(error) if now < tick.plus(TIMEOUT) => {
                    output::complain(&format!("trying again: {error}"));
                    left.push((schedule, tick));
                }
                Err(error) => return Err(error),
            }
        }
        open = left;
    }
    Ok(tally)
}

fn read_key(args: &VerifyArgs) -> Result<String, CliError> {
    let key = match (&args.key_file, &args.key) {
        (Some(path), _) => std::fs::read_to_string(path).map_err(|error| {
            CliError::usage(format!("cannot read the key file {}: {error}", path.display()))
        })?,
        (None, Some(key)) => key.clone(),
        (None, None) => {
            return Err(CliError::usage("no key: give --key-file or set PUNCTUAL_KEY"));
        }
    };
    Ok(key.trim().to_owned())
}
