//! The errors of pages, and the pages that show them.

use std::str::FromStr;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use maud::{Markup, html};

use super::shell::{self, html_response, redirect};
use super::text::sentence;
use super::{Dashboard, DashboardParts, widgets};
use crate::accounts::{AccountError, OidcError, UserError};
use crate::domain::Timestamp;
use crate::domain::key::MAX_KEYS;
use crate::notifications::NotificationError;
use crate::schedules::CommandError;
use crate::store::StoreError;

/// The reason why a page cannot be shown or a change was not made.
#[derive(Clone, Debug)]
pub(super) enum PageError {
    /// There is no such page or object, or it belongs to another account.
    NotFound,
    /// The visitor has to sign in; then the page at this path and query is shown.
    SignIn(String),
    /// The visitor is not a member of any account.
    NoAccount,
    /// The client or the user makes too many requests. The next one is allowed at this time.
    TooMany(Timestamp),
    /// The role of the visitor does not allow this.
    Forbidden(String),
    /// The request was made by another site.
    CrossSite,
    /// The input is not acceptable.
    Refused(String),
    /// A part of the service does not answer.
    Unavailable(String),
    /// Too many such requests are in progress.
    Busy(String),
    /// The service has a fault.
    Internal(String),
}

/// Reads an id in an address. A malformed one cannot belong to any object.
pub(super) fn id_of<T: FromStr>(text: &str) -> Result<T, PageError> {
    text.parse().map_err(|_| PageError::NotFound)
}

impl PageError {
    /// Returns the status of the page.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::SignIn(_) => StatusCode::SEE_OTHER,
            Self::NoAccount | Self::Forbidden(_) | Self::CrossSite => StatusCode::FORBIDDEN,
            Self::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable(_) | Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn texts(&self) -> (&'static str, String) {
        match self {
            Self::NotFound => (
                "Not found",
                "There is no such page, or it belongs to an account that you are not a member of."
                    .to_owned(),
            ),
            Self::SignIn(_) => ("Sign in", "Sign in to see this page.".to_owned()),
            Self::NoAccount => (
                "No account",
                "You are not a member of any account. Ask an owner for an invitation.".to_owned(),
            ),
            Self::TooMany(until) => (
                "Too many requests",
                format!(
                    "There were too many requests. Try again after {}.",
                    until.to_utc().format("%Y-%m-%d %H:%M:%S UTC")
                ),
            ),
            Self::Forbidden(why) => ("Not allowed", why.clone()),
            Self::CrossSite => (
                "Not allowed",
                "Another site requested this change, so it was not made. Open the dashboard and \
                 try again there."
                    .to_owned(),
            ),
            Self::Refused(why) => ("Not possible", why.clone()),
            Self::Busy(why) => ("Try again", why.clone()),
            Self::Unavailable(_) => (
                "Not available",
                "A part of the service does not respond. Try again in a moment. If you changed \
                 something, check first whether the change was made."
                    .to_owned(),
            ),
            Self::Internal(_) => (
                "Something went wrong",
                "The service has a fault. Its log has the details under the request id of this \
                 response (header x-request-id)."
                    .to_owned(),
            ),
        }
    }

    /// Returns the sentences of the error page.
    pub(super) fn text(&self) -> String {
        self.texts().1
    }

    fn page(&self, dashboard: &DashboardParts) -> Markup {
        let (title, text) = self.texts();
        shell::bare(
            dashboard,
            title,
            &html! {
                h1 { (title) }
                p { (text) }
                @if matches!(self, Self::NoAccount) {
                    (widgets::action(&dashboard.path("/sign-out"), "Sign out", "quiet"))
                } @else {
                    p { a href=(dashboard.path("")) { "Go to the overview" } }
                }
            },
        )
    }

    /// Returns the number of seconds after which the client may try again.
    fn retry_after(&self, now: Timestamp) -> Option<u64> {
        match self {
            Self::Unavailable(_) | Self::Busy(_) => Some(1),
            Self::TooMany(until) => Some(until.since(now).as_secs() + 1),
            _ => None,
        }
    }
}

/// The handlers do not know the base path, so the guard renders the page.
impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Replaces an error by its page.
pub(super) fn complete(dashboard: &Dashboard, asked: &HeaderMap, response: Response) -> Response {
    let Some(error) = response.extensions().get::<PageError>() else { return response };
    if let PageError::Unavailable(why) | PageError::Internal(why) = error {
        tracing::warn!(error = %why, "page not rendered");
    }
    if let PageError::SignIn(next) = error {
        let next =
            if next.is_empty() { String::new() } else { format!("{}{next}", dashboard.base_path) };
        let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let page = format!("{}?next={next}", dashboard.path("/sign-in"));
        return to_sign_in(asked, &page);
    }
    let mut page = html_response(error.status(), error.page(dashboard));
    if let Some(seconds) = error.retry_after(dashboard.clock.now()) {
        page.headers_mut().insert(header::RETRY_AFTER, http::HeaderValue::from(seconds));
    }
    page
}

/// Sends a visitor without a session to the sign-in page. The session cookie does not come along
/// when a link of another site or a mail program is followed. So such a request gets a page that
/// loads itself again, as a page of this origin.
fn to_sign_in(asked: &HeaderMap, page: &str) -> Response {
    if asked.contains_key("hx-request") {
        // The script loads the page, instead of putting it into a part of the present one.
        return (StatusCode::OK, [("hx-redirect", page)]).into_response();
    }
    let site = asked.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    if !matches!(site, Some("cross-site" | "same-site")) {
        return redirect(page);
    }
    html_response(StatusCode::OK, shell::passage("0", page, "Sign in"))
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<CommandError> for PageError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NoSuchSchedule
            | CommandError::NoSuchJob
            | CommandError::NoSuchAccount => Self::NotFound,
            CommandError::Store(error) => error.into(),
            CommandError::Uncounted | CommandError::Stopping => {
                Self::Unavailable(error.to_string())
            }
            CommandError::Panicked => Self::Internal(error.to_string()),
            other => Self::Refused(sentence(&other.to_string())),
        }
    }
}

impl From<NotificationError> for PageError {
    fn from(error: NotificationError) -> Self {
        match error {
            NotificationError::NoSuchChannel
            | NotificationError::NoSuchSchedule
            | NotificationError::NoSuchDelivery
            | NotificationError::NoSuchAccount => Self::NotFound,
            NotificationError::Store(error) => error.into(),
            NotificationError::Stopping => Self::Unavailable(error.to_string()),
            NotificationError::Panicked => Self::Internal(error.to_string()),
            other => Self::Refused(sentence(&other.to_string())),
        }
    }
}

/// The texts of these errors name commands of operators, so the pages have their own sentences.
impl From<AccountError> for PageError {
    fn from(error: AccountError) -> Self {
        let why = match error {
            AccountError::NoSuchAccount(_)
            | AccountError::NoSuchKey(_)
            | AccountError::NoSuchUser(_)
            | AccountError::NoSuchMember(..) => return Self::NotFound,
            AccountError::Store(error) => return error.into(),
            AccountError::Hash(_) => return Self::Unavailable(error.to_string()),
            AccountError::NoSuchPlan(_) | AccountError::Unwritten(_) => {
                return Self::Internal(error.to_string());
            }
            AccountError::UnusableName(_) => "Use a name of 1 to 100 printable characters.",
            AccountError::NameTaken(_) => "An account with this name exists. Choose another name.",
            AccountError::TooManyKeys(_) => {
                return Self::Refused(format!(
                    "The account already has {MAX_KEYS} active keys. Revoke one first."
                ));
            }
            AccountError::KeyIsOver(_) => "The key is revoked or expired. Create a new one.",
            AccountError::EmailTaken(_) => "A user with this e-mail address already exists.",
            AccountError::LastOwner(_) => {
                "The account needs an owner. Make another member an owner first."
            }
        };
        Self::Refused(why.to_owned())
    }
}

impl From<UserError> for PageError {
    fn from(error: UserError) -> Self {
        match error {
            UserError::NoSuchAccount => Self::NotFound,
            UserError::SignedOut => Self::SignIn(String::new()),
            UserError::TooMany(until) => Self::TooMany(until),
            UserError::Forbidden(_) => Self::Forbidden(sentence(&error.to_string())),
            UserError::Store(error) => error.into(),
            UserError::Hash(_) => Self::Unavailable(error.to_string()),
            UserError::Oidc(OidcError::NoProvider) => Self::NotFound,
            other => Self::Refused(sentence(&other.to_string())),
        }
    }
}
