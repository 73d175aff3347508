//! The schedules whose alerts a channel receives.

use maud::{Markup, html};

use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, PageError};
use crate::domain::ChannelId;
use crate::store::ChannelUses;

/// The maximum number of schedules that a page names.
const MAX_NAMED: u32 = 50;

/// Reads the schedules that name a channel.
pub(super) async fn read(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    id: ChannelId,
) -> Result<ChannelUses, PageError> {
    Ok(dashboard.notifications.channel_uses(visitor.account(), id, MAX_NAMED).await?)
}

/// Renders links to the schedules, and the number of all if some are left out.
pub(super) fn render(dashboard: &DashboardParts, uses: &ChannelUses) -> Markup {
    html! {
        ul {
            @for (id, name) in &uses.schedules {
                li { a href=(dashboard.path(&format!("/schedules/{id}"))) { (name) } }
            }
        }
        @if uses.total > uses.schedules.len() as u64 {
            p.soft {
                "These are the newest " (uses.schedules.len()) " of " (uses.total) " schedules."
            }
        }
    }
}
