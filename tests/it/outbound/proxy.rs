//! The proxies in the environment are not used (S04).

use std::process::Command;

use super::{ALLOWED, Caller, response};
use crate::harness::target::Target;

/// The variable with the URL of the target, for the child process of the test.
const TARGET: &str = "PUNCTUAL_TEST_TARGET";

/// HTTP clients read the proxies from the environment only once. So the test runs itself in a child
/// process whose environment names some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_of_the_environment_are_ignored() {
    if let Ok(url) = std::env::var(TARGET) {
        assert_eq!(response(Caller::new().get(&url).await).body, b"ok");
        return;
    }
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let target = Target::answering(ALLOWED, ok).await;
    let proxy = Target::answering("127.0.0.1:0", "HTTP/1.1 502 Proxied\r\n\r\n").await;
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "outbound::proxy::proxies_of_the_environment_are_ignored"]);
    child.env(TARGET, target.url("/"));
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        child.env(name, proxy.url("/"));
    }
    // These variables would disable the proxies themselves.
    for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        child.env_remove(name);
    }
    let ran = tokio::task::spawn_blocking(move || child.output()).await.expect("not cancelled");
    let output = String::from_utf8_lossy(&ran.expect("it runs").stdout).into_owned();
    assert!(output.contains("1 passed"), "{output}");
    assert_eq!((target.connections(), proxy.connections()), (1, 0));
}
