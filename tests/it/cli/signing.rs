//! Signing secrets.

use super::{expect_failure, folder, result};

#[test]
fn a_secret_is_listed_shown_and_rotated() {
    let folder = folder();
    let path = folder.path();
    result(path, &["account", "create", "alice"]);
    let of = |command: &str| result(path, &["signing", command, "--account", "alice"]);
    let old = of("show");
    assert!(old.starts_with("whsec_") && old.lines().count() == 1, "{old}");
    assert_eq!(of("show"), old);
    let said = of("rotate");
    assert!(said.starts_with("sgn_") && !said.contains("whsec_"), "{said}");
    let both = of("show");
    assert_eq!((both.lines().count(), both.lines().nth(1)), (2, old.lines().next()), "{both}");
    let list = of("list");
    assert!(!list.contains("whsec_"), "{list}");
    let rows: Vec<Vec<&str>> = list.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!((rows.len(), rows[1][0]), (3, said.split_whitespace().next().expect("an id")));
    assert_eq!((rows[1][2], rows[1][3], rows[2][3]), ("never", "signs", "signs"));

    result(path, &["signing", "rotate", "--account", "alice", "--overlap", "15m"]);
    assert!(!of("show").contains(&old), "never more than two");
    let missing = expect_failure(path, &["signing", "show", "--account", "bob"], 1);
    assert!(missing.contains("punctual account list"), "{missing}");
    expect_failure(path, &["signing", "rotate", "--account", "alice", "--overlap", "soon"], 2);
}
