//! `punctual verify` against a real process.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::link::{Link, Mood};
use crate::harness::process::{Installation, Server, run_to_end};
use crate::harness::recorder::Recorder;
use crate::harness::servers::free_port;
use crate::harness::wait::{until, within};

/// The timeout for the verification of one tick: a minute until it is due, and one until it counts
/// as missed.
const TIMEOUT: Duration = Duration::from_secs(180);

fn command(installation: &Installation, server: &Server, target: &str, more: &[&str]) -> Command {
    let port = server.public().expect("it serves").port();
    command_at(installation, port, target, more)
}

/// Returns the command for an API at this port.
fn command_at(installation: &Installation, port: u16, target: &str, more: &[&str]) -> Command {
    let url = format!("http://127.0.0.1:{port}");
    let mut arguments = vec!["verify", "--url", &url, "--target", target, "--minutes", "1"];
    arguments.extend(more);
    let mut command = installation.command(&arguments);
    command.env("PUNCTUAL_KEY", &installation.key);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn end(mut child: Child) -> (Option<i32>, String, String) {
    within(TIMEOUT, "the command ends", async || child.try_wait().expect("a child").map(|_| ()))
        .await;
    let output = child.wait_with_output().expect("it has ended");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_distinguishes_a_service_that_keeps_its_promises() {
    let mut installation = Installation::new(&[]);
    let server = installation.serve().await;
    let (recorder, port) = (Recorder::start().await, free_port());
    let listen = format!("127.0.0.1:{port}");
    let here = format!("http://{listen}/");
    let verifier =
        command(&installation, &server, &recorder.url("/ok"), &[]).spawn().expect("it runs");
    let mut heard = command(&installation, &server, &here, &["--listen", &listen]);
    let heard = heard.spawn().expect("it runs");
    // The requests go to another address than the one that it listens on.
    let (other, elsewhere) = (format!("127.0.0.1:{}", free_port()), recorder.url("/ok"));
    let mut unheard = command(&installation, &server, &elsewhere, &["--listen", &other]);
    let unheard = unheard.spawn().expect("it runs");

    let (status, summary, complaints) = end(verifier).await;
    assert_eq!(status, Some(0), "{summary}{complaints}");
    assert!(summary.starts_with("3 ticks: 0 missed, 0 doubled, "), "{summary}");
    let (status, summary, complaints) = end(heard).await;
    assert_eq!(status, Some(0), "{summary}{complaints}");
    assert!(summary.ends_with("this command received 3 requests\n"), "{summary}");
    let (status, summary, complaints) = end(unheard).await;
    assert_eq!(status, Some(1), "{summary}{complaints}");
    assert!(summary.starts_with("3 ticks: 3 missed, 0 doubled, "), "{summary}");
    assert_eq!(complaints, "error: not every tick ran once\n");
    // All runs delete their schedules.
    let left = installation.client(&server).get("/v1/schedules").await;
    assert_eq!(left.body["pagination"]["total"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_leaves_nothing_behind_when_it_is_stopped() {
    let mut installation = Installation::new(&[]);
    let server = installation.serve().await;
    let api = installation.client(&server);
    let schedules = async || api.get("/v1/schedules").await.body["pagination"]["total"].clone();
    // The response to each created schedule is delayed by half a second.
    let link = Link::start(server.public().expect("it serves").port()).await;
    link.set(Mood::Slow(Duration::from_millis(500)));
    let mut verify = command_at(&installation, link.port, "http://127.0.0.1:1/", &[]);
    for (signal, count) in [("-TERM", 1), ("-TERM", 3), ("-INT", 1)] {
        let verify = verify.spawn().expect("it runs");
        until("the command has created its schedules", async || {
            (schedules().await.as_u64()? >= count).then_some(())
        })
        .await;
        let sent = Command::new("kill").args([signal, &verify.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        let (status, _, complaints) = end(verify).await;
        assert_eq!((status, complaints.as_str()), (Some(1), "error: stopped before the end\n"));
        assert_eq!(schedules().await, 0, "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_that_cannot_begin_has_a_reason() {
    let mut installation = Installation::new(&[]);
    let server = installation.serve().await;
    let target = "http://127.0.0.1:1/";
    let mut wrong = command(&installation, &server, target, &[]);
    wrong.env("PUNCTUAL_KEY", "pk_wrong");
    let (status, said) = run_to_end(wrong).await;
    assert_eq!(status, Some(1));
    assert!(said.contains("/v1/schedules: status 401: "), "{said}");
    let mut none = command(&installation, &server, target, &[]);
    none.env_remove("PUNCTUAL_KEY");
    let (status, said) = run_to_end(none).await;
    assert_eq!((status, said.contains("give --key-file or set PUNCTUAL_KEY")), (Some(2), true));
    let refused = command(&installation, &server, "http://10.0.0.1/", &[]);
    let (status, said) = run_to_end(refused).await;
    assert_eq!((status, said.contains("URL resolves to a disallowed address")), (Some(1), true));
}
