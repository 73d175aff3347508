//! The warning of a preference: one sentence that explains why alerts are not delivered.

use crate::domain::plan::NotifyOn;
use crate::store::{AttachedChannel, StoredPreference};

/// Explains why alerts of this preference do not reach some or all channels. Returns `None` if all
/// channels work or if the preference raises no alerts.
pub fn warning(preference: &StoredPreference) -> Option<String> {
    if preference.policy.notify_on == NotifyOn::None {
        return None;
    }
    let (verified, unverified): (Vec<_>, Vec<_>) =
        preference.channels.iter().partition(|attached| attached.channel.verified);
    let deleted = preference.detached.as_deref();
    let none_left = verified.is_empty();
    Some(match (unverified.as_slice(), deleted) {
        (all @ [first, ..], _) => {
            let which = if none_left { "Alerts" } else { "Some alerts" };
            format!("{which} cannot be delivered: {}", not_verified(first, all.len()))
        }
        ([], Some(label)) if none_left => format!(
            "Alerts cannot be delivered: the channel \"{label}\" was deleted, attach another one"
        ),
        ([], None) if none_left => {
            "Alerts cannot be delivered: no channel is attached, attach one".to_owned()
        }
        ([], Some(label)) => format!(
            "The channel \"{label}\" was deleted, alerts are delivered to the remaining channels"
        ),
        ([], None) => return None,
    })
}

/// Names the first unverified channel, the reason, and the number of other unverified channels.
fn not_verified(first: &AttachedChannel, count: usize) -> String {
    let label = &first.channel.label;
    let trouble = first.trouble.as_deref().map_or_else(String::new, |trouble| {
        let first_sentence = trouble.split(". ").next().unwrap_or(trouble);
        format!(" ({})", first_sentence.trim_end_matches('.'))
    });
    match count {
        1 => format!("the channel \"{label}\" is not verified{trouble}, verify it again"),
        2 => {
            format!("\"{label}\"{trouble} and 1 other channel are not verified, verify them again")
        }
        _ => {
            let others = count - 1;
            format!(
                "\"{label}\"{trouble} and {others} other channels are not verified, verify them again"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::alert::policy::AlertPolicy;
    use crate::domain::channel::Channel;
    use crate::domain::plan::ChannelType;
    use crate::domain::{ChannelId, Timestamp};

    const AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn attached(label: &str, verified: bool, trouble: Option<&str>) -> AttachedChannel {
        let channel = Channel {
            id: ChannelId::new(AT, 1),
            kind: ChannelType::Slack,
            label: label.to_owned(),
            verified,
            created_at: AT,
            updated_at: AT,
        };
        AttachedChannel { channel, trouble: trouble.map(str::to_owned) }
    }

    fn warning_of(channels: Vec<AttachedChannel>, detached: Option<&str>) -> Option<String> {
        let policy = AlertPolicy { notify_on: NotifyOn::Failure, ..AlertPolicy::default() };
        warning(&StoredPreference { policy, channels, detached: detached.map(str::to_owned) })
    }

    #[test]
    fn a_working_preference_has_no_warning_and_one_without_alerts_neither() {
        assert_eq!(warning_of(vec![attached("A", true, None)], None), None);
        assert_eq!(warning(&StoredPreference::default()), None);
    }

    #[test]
    fn the_warning_names_the_cause_and_a_remedy() {
        let gone = || attached("Ops", false, Some("Its reader has unsubscribed. Ask them first."));
        let works = || attached("Mail", true, None);
        let plain = || attached("Chat", false, None);
        for (channels, detached, sentence) in [
            (vec![], None, "Alerts cannot be delivered: no channel is attached, attach one"),
            (
                vec![],
                Some("Ops"),
                "Alerts cannot be delivered: the channel \"Ops\" was deleted, attach another one",
            ),
            (
                vec![gone()],
                Some("Old"),
                "Alerts cannot be delivered: the channel \"Ops\" is not verified (Its reader has \
                 unsubscribed), verify it again",
            ),
            (
                vec![works(), plain()],
                None,
                "Some alerts cannot be delivered: the channel \"Chat\" is not verified, verify it \
                 again",
            ),
            (
                vec![gone(), works(), plain(), plain()],
                None,
                "Some alerts cannot be delivered: \"Ops\" (Its reader has unsubscribed) and 2 \
                 other channels are not verified, verify them again",
            ),
            (
                vec![works()],
                Some("Ops"),
                "The channel \"Ops\" was deleted, alerts are delivered to the remaining channels",
            ),
        ] {
            assert_eq!(warning_of(channels, detached).as_deref(), Some(sentence));
        }
    }
}
