//! `punctual dev`: runs the service for a trial, with an example schedule.

use serde_json::json;

use super::address::reachable;
use super::operator::operator;
use super::serve::{begin, finish, start};
use super::welcome::{Welcome, welcome};
use super::{CliError, output};
use crate::accounts::{AccountError, KeyRequest};
use crate::app::App;
use crate::config::Sources;
use crate::domain::AccountId;
use crate::domain::key::{ApiKey, Scope};
use crate::domain::plan::UNLIMITED;
use crate::domain::request_body::object;
use crate::domain::token::Token;
use crate::domain::user::{EmailAddress, Role};
use crate::schedules::{CommandError, ScheduleCreation};

/// The name of the account and of its key.
const NAME: &str = "dev";
/// The user of the dashboard.
const USER: &str = "dev@localhost";

pub(super) async fn run(sources: &Sources) -> Result<(), CliError> {
    let (config, _log) = begin(sources)?;
    let (app, signals) = start(&config).await?;
    let public = app.public_address().expect("a single process has all roles");
    let ops_url = format!("http://{}", reachable(app.operations_address()));
    let (key, demo) = match seed(&app, &ops_url).await {
        Ok(seeded) => seeded,
        Err(error) => {
            app.stop().await;
            return Err(CliError::failed(error));
        }
    };
    let base_path = &config.http.base_path;
    let base_url = format!("http://{}{base_path}", reachable(public));
    let token = first_user(&app).await;
    let entry = token.map(|token| format!("{base_url}/dashboard/first/{}", token.reveal()));
    let said = output::print(&welcome(&Welcome {
        base_url: &base_url,
        dashboard: entry.as_deref(),
        ops_url: &ops_url,
        key: key.as_ref().map(ApiKey::reveal),
        store: &config.store.to_string(),
        demo,
    }));
    finish(app, signals).await.and(said)
}

/// Creates an account, a key and a schedule if the store is empty. Returns the key, and whether the
/// schedule was run.
async fn seed(app: &App, ops_url: &str) -> Result<(Option<ApiKey>, bool), AccountError> {
    if !app.accounts().list().await?.is_empty() {
        return Ok((None, false));
    }
    let account = app.accounts().create(operator(), NAME, UNLIMITED).await?;
    let request = KeyRequest { name: NAME.to_owned(), scope: Scope::Write, expires_in: None };
    let key = app.accounts().create_key(operator(), &account, &request).await?;
    let shown = demonstrate(app, account.id, ops_url).await;
    if let Err(error) = &shown {
        // Settings can forbid the demo schedule. Everything else still works.
        tracing::warn!(%error, "demo schedule not run");
    }
    Ok((Some(key), shown.is_ok()))
}

/// Creates the user of the trial at the first start, who owns the account `dev`, and returns the
/// token of the link with which this start signs in. `None` if there is no such account.
async fn first_user(app: &App) -> Option<Token> {
    let email: EmailAddress = USER.parse().expect("an address");
    let accounts = app.accounts();
    let account = accounts.named(NAME).await.ok()?;
    let password = accounts.new_password();
    let owns = Some((&account, Role::Owner));
    let made = match accounts.create_user(operator(), &email, &password, owns).await {
        // The person at this machine runs the installation.
        Ok(_) | Err(AccountError::EmailTaken(_)) => {
            accounts.set_operator(operator(), &email, true).await
        }
        Err(error) => Err(error),
    };
    match made {
        Ok(()) => Some(app.users().first_entry(email)),
        Err(error) => {
            tracing::warn!(%error, "could not create the user of the dashboard");
            None
        }
    }
}

/// Creates the schedule `demo`, whose target is this process, and triggers it.
async fn demonstrate(app: &App, account: AccountId, ops_url: &str) -> Result<(), CommandError> {
    let demo = json!({
        "name": "demo",
        "description": "Calls the echo of this process every five minutes",
        "cronExpression": "*/5 * * * *",
        "timezone": "UTC",
        "endpoint": format!("{ops_url}/echo"),
        "httpMethod": "POST",
        "body": r#"{"hello":"world"}"#,
    });
    let request: ScheduleCreation = object(demo.to_string().as_bytes()).expect("a JSON object");
    let schedule = app.schedules().create(account, operator().into(), request).await?;
    app.schedules().trigger(account, operator().into(), schedule.id).await?;
    Ok(())
}
