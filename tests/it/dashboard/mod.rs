//! Pages of the dashboard over real sockets, as a browser without script uses them.

mod activity;
mod bulk;
mod channel_uses;
mod events;
mod forecasts;
mod imports;
mod job_filters;
mod overview;
mod pauses;
mod questions;
mod streams;
mod test_requests;
mod times;
mod versions;
mod watches;

use crate::harness::app::Service;
use crate::harness::client::ApiClient;
use crate::harness::pages::PageVisitor;

/// The setting with which a visitor can sign up.
const OPEN: (&str, &str) = ("accounts.sign_up", "open");

/// Starts a service with a user who owns the account `ann`.
async fn with_owner(settings: &[(&'static str, &str)]) -> (Service, PageVisitor) {
    let settings: Vec<_> = settings.iter().copied().chain([OPEN]).collect();
    let service = Service::with(&settings).await;
    let ann = PageVisitor::sign_up(service.api.address(), "ann").await;
    (service, ann)
}

/// Creates an API key of the owner's account. Returns a client that presents it.
async fn key_of(service: &Service, owner: &PageVisitor, name: &str) -> ApiClient {
    let new = [("name", name), ("scope", "write"), ("expires", "never")];
    let page = owner.post("/dashboard/keys", &new).await;
    let (_, rest) = page.text.split_once("pnc_").unwrap_or_else(|| panic!("{}", page.text));
    let key: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    service.api.with_key(&format!("pnc_{key}"))
}
