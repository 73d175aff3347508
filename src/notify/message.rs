//! Builds the alert of a claimed delivery.

use crate::domain::alert::content::{Alert, Subject};
use crate::store::{ClaimedDelivery, DeliveryContent};

/// Returns the alert of a delivery, or `None` if its job was pruned.
pub(super) fn alert(claimed: &ClaimedDelivery, public_url: Option<&str>) -> Option<Alert> {
    let (subject, page) = match &claimed.content {
        DeliveryContent::Job(job) => {
            (Subject::Job(job.clone()), format!("dashboard/jobs/{}", job.job.id))
        }
        DeliveryContent::Incident(incident) => {
            (Subject::Incident(incident.clone()), "dashboard/schedules".to_owned())
        }
        DeliveryContent::Digest(digest) => {
            (Subject::Digest(digest.clone()), "dashboard/schedules".to_owned())
        }
        DeliveryContent::Gone => return None,
    };
    Some(Alert {
        id: claimed.event,
        kind: claimed.kind,
        created_at: claimed.at,
        account: claimed.account,
        subject,
        link: public_url.map(|url| format!("{url}/{page}")),
    })
}
