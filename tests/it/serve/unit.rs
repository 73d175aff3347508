//! The systemd unit, checked by systemd.

use std::fs;
use std::path::Path;
use std::process::Command;

const UNIT: &str = include_str!("../../../charts/systemd/punctual.service");
const INSTALLED: &str = "/usr/local/bin/punctual";

/// Returns the complaints of systemd about a unit.
fn complaints(folder: &Path, unit: &str) -> String {
    // systemd checks that the program exists.
    let unit = unit.replace(INSTALLED, env!("CARGO_BIN_EXE_punctual"));
    let path = folder.join("punctual.service");
    fs::write(&path, unit).expect("written");
    let output = Command::new("systemd-analyze").arg("verify").arg(&path).output();
    let output = output.expect("systemd is installed");
    let said = [output.stdout, output.stderr].concat();
    let ended = if output.status.success() { "" } else { "failed: " };
    format!("{ended}{}", String::from_utf8_lossy(&said))
}

#[test]
fn systemd_understands_the_whole_unit() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(UNIT.contains(&format!("ExecStart={INSTALLED} serve\n")), "{UNIT}");
    assert_eq!(complaints(folder.path(), UNIT), "");
    let wrong = UNIT.replace("NoNewPrivileges=", "NoNewPrivilege=");
    let said = complaints(folder.path(), &wrong);
    assert!(said.contains("NoNewPrivilege"), "{said}");
}
