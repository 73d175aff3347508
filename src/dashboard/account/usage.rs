//! The plan of the account and its usage.

use std::fmt::Display;

use maud::{Markup, html};

use crate::accounts::AccountOverview;
use crate::dashboard::channels::kinds;
use crate::dashboard::table;
use crate::dashboard::table::Column::{Number, Text};
use crate::dashboard::time;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::account_notes;
use crate::domain::key::MAX_KEYS;
use crate::domain::plan::Plan;

/// Renders the plan, and how much of it is used.
pub(super) fn section(visitor: &Visitor, overview: &AccountOverview) -> Markup {
    let (account, zone) = (&overview.account, visitor.zone);
    html! {
        (account_notes(visitor, overview))
        dl.facts {
            div { dt { "Plan" } dd { (account.plan) } }
            div { dt { "Your role" } dd { (visitor.membership.role) } }
            div { dt { "Created" } dd { (time::instant(account.created_at, zone)) } }
            div { dt { "Id" } dd { code { (account.id) } } }
        }
        h2 { "Usage" }
        (usage_table(overview))
        (limits(&overview.plan))
    }
}

fn usage_table(overview: &AccountOverview) -> Markup {
    let (plan, usage) = (&overview.plan, overview.usage);
    let rows = [
        ("Schedules", usage.schedules, plan.schedules),
        ("Active API keys", usage.keys, Some(MAX_KEYS)),
        ("Channels", usage.channels, plan.channels),
        ("Jobs this month", overview.jobs_this_month, plan.jobs_per_month),
    ];
    let most = |limit: Option<u64>| limit.map_or("no limit".to_owned(), |most| most.to_string());
    html! {
        (table::render(
            "Usage and limits of the plan",
            &[Text("Resource"), Number("Used"), Number("Limit")],
            &html! {
                @for (what, used, limit) in rows {
                    tr {
                        th scope="row" { (what) }
                        td.number { (used) }
                        td.number { (most(limit)) }
                    }
                }
            },
        ))
    }
}

/// Renders the limits that are not counted.
fn limits(plan: &Plan) -> Markup {
    let shortest = plan.shortest_interval.map(time::rough);
    let kinds = plan.channel_types.as_deref().map(|kinds| {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kinds::name(*kind)).collect();
        kinds.join(", ")
    });
    html! {
        dl.facts {
            (limit("Shortest interval of a schedule", shortest))
            (limit("Concurrent requests", plan.concurrent_attempts))
            (limit("Maximum body size in bytes", plan.body_bytes))
            (limit("History in days", plan.history_days))
            (limit("Types of channels", kinds))
        }
    }
}

/// Renders a limit, if the plan has it.
fn limit(name: &str, limit: Option<impl Display>) -> Markup {
    html! {
        @if let Some(limit) = limit { div { dt { (name) } dd { (limit.to_string()) } } }
    }
}
