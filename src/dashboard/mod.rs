//! The dashboard: pages for people, rendered on the server.
//!
//! Place in the flow: an entry point beside the API. A page turns a form into the same request that
//! the API reads, calls the same commands and queries, and renders their result. The dashboard has
//! no business logic of its own.
//!
//! Invariants:
//! - S16, S17: a page of an account needs a session whose user is a member of the account. A change
//!   needs a role that allows it, and a request from a page of this origin (`guard`).
//! - An object that does not exist and an object of another account get the same answer: 404.
//! - Every text from users, targets and providers is escaped by the templates. The content security
//!   policy allows no inline script or style and no other host.
//! - Every page works without script. The script only saves steps.
//!
//! On failure: a page says what failed and what to do. A form keeps its input.

mod account;
mod address;
mod assets;
mod channels;
mod chart;
mod cookies;
mod entry;
mod error;
mod form;
mod installation;
mod jobs;
mod keys;
mod members;
mod middleware;
mod overview;
mod question;
mod schedules;
mod shell;
mod table;
mod text;
mod time;
mod upload;
mod visitor;
mod widgets;
mod zones;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use crate::accounts::{Accounts, Throttle, Users};
use crate::domain::retry::RetryPolicy;
use crate::inspection::Inspector;
use crate::notifications::Notifications;
use crate::runtime::{Clock, Tasks};
use crate::schedules::{Forecasts, JobWatches, ScheduleImports, Schedules};
use crate::store::JobQuery;

use error::{PageError, id_of};

/// The dependencies of the dashboard.
pub struct DashboardParts {
    /// Commands and queries of users who sign in.
    pub users: Users,
    /// Commands and queries on accounts.
    pub accounts: Accounts,
    /// Commands and queries on schedules and jobs.
    pub schedules: Schedules,
    /// Imports of schedules.
    pub imports: ScheduleImports,
    /// Forecasts of the load of accounts.
    pub forecasts: Forecasts,
    /// Reads unfinished jobs for the pages that show them.
    pub watches: JobWatches,
    /// Commands and queries on notification channels, preferences and deliveries.
    pub notifications: Notifications,
    /// Limits the actions that have lower rate limits than other calls.
    pub throttle: Arc<Throttle>,
    /// Reports on the installation, for operators.
    pub inspector: Inspector,
    /// The pauses before failed jobs are retried, for the worst case that the form shows.
    pub retry: RetryPolicy,
    /// The clock.
    pub clock: Clock,
    /// The tasks of the process. Streams end when the process stops.
    pub tasks: Tasks,
    /// The path prefix of all routes, without a slash at the end.
    pub base_path: String,
}

/// The maximum total size of the texts that a query for a page reads, in bytes.
const PAGE_BYTES: usize = 8 << 20;

/// Returns the query for the newest jobs of an account, without their responses.
fn newest_jobs(limit: u32) -> JobQuery {
    JobQuery::newest(limit, PAGE_BYTES)
}

/// The state that the pages share.
type Dashboard = Arc<DashboardParts>;

impl DashboardParts {
    /// Returns the path of a page, which begins with a slash.
    fn path(&self, page: &str) -> String {
        format!("{}/dashboard{page}", self.base_path)
    }

    /// Returns the path of a page with a query of the pairs whose value is not empty.
    fn address<V: AsRef<str>>(
        &self,
        page: &str,
        pairs: impl IntoIterator<Item = (&'static str, V)>,
    ) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(pairs.into_iter().filter(|(_, value)| !value.as_ref().is_empty()));
        let query = query.finish();
        let separator = if query.is_empty() { "" } else { "?" };
        format!("{}{separator}{query}", self.path(page))
    }
}

/// Redirects the start page of the service to the dashboard.
async fn to_dashboard(State(dashboard): State<Dashboard>) -> Response {
    shell::redirect(&dashboard.path(""))
}

/// Returns the routes of the pages, without the base path.
pub fn router(parts: DashboardParts) -> Router {
    let dashboard = Arc::new(parts);
    let pages = Router::new()
        .merge(entry::routes())
        .merge(overview::routes())
        .merge(schedules::routes())
        .merge(jobs::routes())
        .merge(channels::routes())
        .merge(keys::routes())
        .merge(account::routes())
        .merge(installation::routes())
        .route("/", get(to_dashboard))
        .route("/dashboard/", get(to_dashboard))
        .route("/dashboard/{*path}", get(async || PageError::NotFound))
        .method_not_allowed_fallback(async || PageError::NotFound)
        .route_layer(axum::middleware::from_fn_with_state(dashboard.clone(), middleware::guard))
        .with_state(dashboard);
    pages.merge(assets::routes())
}
