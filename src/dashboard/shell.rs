//! The frame of every page: head, navigation and the account of the visitor.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use super::visitor::Visitor;
use super::{DashboardParts, assets, cookies};
use crate::domain::AccountId;

/// The entry of the navigation that only operators see, with its path.
const FOR_OPERATORS: (&str, &str) = ("Installation", "/installation");
/// The entries of the navigation, with their paths.
const ENTRIES: [(&str, &str); 6] = [
    ("Overview", ""),
    ("Schedules", "/schedules"),
    ("Jobs", "/jobs"),
    ("Channels", "/channels"),
    ("API keys", "/keys"),
    ("Account", "/account"),
];

/// Renders a page of an account. `entry` is the current entry of the navigation.
pub(super) fn page(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    (entry, title): (&str, &str),
    content: &Markup,
) -> Response {
    let own = visitor.is_operator().then_some(FOR_OPERATORS);
    let body = html! {
        a.skip href="#main" { "Skip to content" }
        header.top {
            a.brand href=(dashboard.path("")) { "Punctual" }
            nav aria-label="Main" {
                ul {
                    @for (name, path) in ENTRIES.into_iter().chain(own) {
                        li {
                            a href=(dashboard.path(path))
                                aria-current=[(name == entry).then_some("page")] { (name) }
                        }
                    }
                }
            }
            (who(dashboard, visitor))
        }
        main #main tabindex="-1" { (content) }
    };
    html_response(StatusCode::OK, document(dashboard, title, &body))
}

/// Renders the user, the choice of the account and the sign-out button.
fn who(dashboard: &DashboardParts, visitor: &Visitor) -> Markup {
    html! {
        div.who {
            @if visitor.memberships.len() > 1 {
                form method="post" action=(dashboard.path("/account/choose")) {
                    label.hidden for="choose" { "Account" }
                    select #choose name="account" {
                        @for one in &visitor.memberships {
                            option value=(one.account)
                                selected[one.account == visitor.membership.account] { (one.name) }
                        }
                    }
                    button.quiet type="submit" { "Switch" }
                }
            } @else {
                span.account { (visitor.membership.name) }
            }
            span.user title=(visitor.visit.session.email) { (visitor.visit.session.email) }
            form method="post" action=(dashboard.path("/sign-out")) {
                button.quiet type="submit" { "Sign out" }
            }
        }
    }
}

/// Renders a page that belongs to no account: signing in, errors.
pub(super) fn bare(dashboard: &DashboardParts, title: &str, content: &Markup) -> Markup {
    let body = html! {
        header.top { a.brand href=(dashboard.path("")) { "Punctual" } }
        main.narrow #main { (content) }
    };
    document(dashboard, title, &body)
}

/// The settings of htmx: nothing inline, because the content security policy forbids it.
const HTMX: &str = r#"{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"historyCacheSize":0}"#;

fn document(dashboard: &DashboardParts, title: &str, body: &Markup) -> Markup {
    let names = assets::names();
    let asset = |name: &str| dashboard.path(&format!("/assets/{name}"));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX);
                title { (title) " · Punctual" }
                link rel="icon" href=(asset(names.icon));
                link rel="stylesheet" href=(asset(names.style));
                script src=(asset(names.htmx)) defer {}
                script src=(asset(names.script)) defer {}
            }
            body { (body) }
        }
    }
}

/// Returns a page as an answer.
pub(super) fn html_response(status: StatusCode, page: Markup) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (status, headers, page.into_string()).into_response()
}

/// Returns a redirect to another page, which the browser reads with GET.
pub(super) fn redirect(path: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response()
}

/// Renders a page that loads another page by itself. The browser then requests that page like a
/// link of this origin, and sends the session cookie. `refresh` is the delay in seconds and the
/// address.
pub(super) fn passage(refresh: &str, link: &str, text: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(refresh);
                title { "Punctual" }
            }
            body { p { a href=(link) { (text) } } }
        }
    }
}

/// Returns a redirect to a page of another account of the user.
pub(super) fn switch_account(account: AccountId, page: &str) -> Response {
    let mut response = redirect(page);
    response.headers_mut().append(header::SET_COOKIE, cookies::of_account(account));
    response
}

/// Marks a page as the answer to a form that was refused.
pub(super) fn refused(mut page: Response) -> Response {
    *page.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    page
}
