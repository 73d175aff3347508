//! The systemd unit fits the service: its settings, its exit statuses, its stop timeout.

use crate::settings::settings;
use crate::tree::{Finding, Tree};

const UNIT: &str = "charts/systemd/punctual.service";
/// The time that the service may need after its grace period, in seconds.
const LAST_WORDS: u64 = 5;
/// The exit status of an invalid configuration, from `src/cli/error.rs`.
const WRONG_CONFIGURATION: &str = "2";

fn check(tree: &Tree) -> Vec<Finding> {
    let Some(unit) = tree.get(UNIT) else { return vec![Finding::new(UNIT, "is missing")] };
    let values = |key: &str| {
        let of_key = |line| str::strip_prefix(line, key)?.strip_prefix('=');
        unit.text.lines().filter_map(of_key).collect::<Vec<_>>()
    };
    let all = settings(tree);
    let mut findings = Vec::new();
    for setting in values("Environment") {
        let name = setting.split('=').next().unwrap_or_default();
        if !all.iter().any(|known| known.variable == name) {
            findings.push(Finding::new(UNIT, format!("there is no setting {name}")));
        }
    }
    let grace = all.iter().find(|known| known.variable == "PUNCTUAL_SHUTDOWN_GRACE_SECONDS");
    let least = grace.map_or(0, |grace| grace.default().parse().unwrap_or(0)) + LAST_WORDS;
    let stop = values("TimeoutStopSec");
    if !stop.iter().any(|stop| stop.parse::<u64>().is_ok_and(|stop| stop >= least)) {
        findings.push(Finding::new(UNIT, format!("TimeoutStopSec must be {least} at least")));
    }
    if values("RestartPreventExitStatus") != [WRONG_CONFIGURATION] {
        findings.push(Finding::new(UNIT, "starts again with a configuration that is wrong"));
    }
    let folders = values("ReadWritePaths");
    let data =
        values("Environment").into_iter().find_map(|set| set.strip_prefix("PUNCTUAL_DATA_DIR="));
    if data.is_none_or(|data| folders != [data]) {
        findings.push(Finding::new(UNIT, "may write to other folders than PUNCTUAL_DATA_DIR"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DEFAULTS;
    use crate::tree::{assert_finds, assert_tidy};

    const FILE: &str =
        "# Where.\ndata_dir = \"d\"\n\n[shutdown]\n# How long.\ngrace_seconds = 30\n";

    #[test]
    fn repository() {
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn finds_what_the_service_does_not_do() {
        let fine = "Environment=PUNCTUAL_DATA_DIR=/d\nTimeoutStopSec=35\nRestartPreventExitStatus=2\n\
                    ReadWritePaths=/d\n";
        let findings = |unit: &str| check(&Tree::of(&[(DEFAULTS, FILE), (UNIT, unit)]));
        assert_finds(&findings(fine), &[]);
        let wrong = fine.replace("=35", "=34").replace("=2", "=1").replace("Paths=/d", "Paths=/e");
        let wrong = wrong + "Environment=PUNCTUAL_GONE=1\n";
        let expected = ["PUNCTUAL_GONE", "35 at least", "that is wrong", "other folders"];
        assert_finds(&findings(&wrong), &expected);
    }
}
