//! The pages of a sign-in with an OpenID provider, as a browser without script sees them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use punctual::runtime::Clock;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::app::Service;
use crate::harness::openid::{CALLBACK, CLIENT, OpenIdFault, OpenIdServer};
use crate::harness::pages::Page;

/// A browser that keeps cookies, and sends them to every page.
struct CookieJar {
    address: SocketAddr,
    cookies: BTreeMap<String, String>,
}

impl CookieJar {
    fn new(service: &Service) -> Self {
        Self { address: service.api.address(), cookies: BTreeMap::new() }
    }

    async fn get(&mut self, path: &str) -> Page {
        let pairs: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: punctual.example\r\nconnection: close\r\ncookie: {}\r\n\r\n",
            pairs.join("; ")
        );
        let mut stream = TcpStream::connect(self.address).await.expect("connected");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("an answer");
        let page = Page::read(&bytes);
        for line in page.head.lines().filter_map(|line| line.strip_prefix("set-cookie: ")) {
            let (name, rest) = line.split_once('=').expect("a cookie");
            let (value, attributes) = rest.split_once("; ").expect("attributes");
            assert!(attributes.contains("Secure; HttpOnly; SameSite="), "{line}");
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        page
    }

    /// Goes to the provider and back. Returns the last page.
    async fn enter(&mut self, server: &OpenIdServer, next: &str) -> Page {
        let start = self.get(&format!("/dashboard/oidc?next={next}")).await;
        assert_eq!(start.status, 303, "{}", start.text);
        let brought = server.visit(start.header("location"));
        self.get(&callback(&brought)).await
    }
}

fn callback(brought: &[(String, String)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    format!("/dashboard/oidc/callback?{}", query.extend_pairs(brought).finish())
}

async fn started(sign_up: &str) -> (Service, OpenIdServer) {
    let server = OpenIdServer::start(Clock::system().now()).await;
    let issuer = server.issuer();
    let service = Service::with(&[
        ("http.public_url", CALLBACK.trim_end_matches("/dashboard/oidc/callback")),
        ("accounts.sign_up", sign_up),
        ("oidc.issuer", &issuer),
        ("oidc.client_id", CLIENT.0),
        ("oidc.client_secret", CLIENT.1),
        ("oidc.name", "Example <ID>"),
    ])
    .await;
    (service, server)
}

fn ann() -> Value {
    json!({ "sub": "1", "email": "ann@example.com", "email_verified": true })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_signs_in_and_sees_the_requested_page() {
    let (service, server) = started("open").await;
    server.sign_in(ann());
    let mut browser = CookieJar::new(&service);
    let asked = browser.get("/dashboard/jobs").await;
    let sign_in = browser.get(asked.header("location")).await;
    let link =
        r#"href="/dashboard/oidc?next=%2Fdashboard%2Fjobs">Sign in with Example &lt;ID&gt;<"#;
    assert!(sign_in.text.contains(link), "{}", sign_in.text);
    assert!(browser.get("/dashboard/sign-up").await.text.contains("/dashboard/oidc"));

    let entered = browser.enter(&server, "%2Fdashboard%2Fjobs").await;
    assert_eq!(entered.status, 200, "{}", entered.text);
    assert!(entered.text.contains(r#"content="0; url=/dashboard/jobs""#), "{}", entered.text);
    assert_eq!(entered.header("cache-control"), "no-store");
    assert_eq!(browser.cookies.keys().collect::<Vec<_>>(), ["__Host-punctual"]);
    let jobs = browser.get("/dashboard/jobs").await;
    assert!(jobs.status == 200 && jobs.text.contains("ann@example.com"), "{}", jobs.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_site_is_led_to_and_no_other_browser_is_signed_in() {
    let (service, server) = started("open").await;
    server.sign_in(ann());
    let mut browser = CookieJar::new(&service);
    for next in ["https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "%2Fdashboard%2F..%2Fv1"] {
        let entered = browser.enter(&server, next).await;
        assert!(entered.text.contains(r#"content="0; url=/dashboard""#), "{}", entered.text);
    }
    let mut other = CookieJar::new(&service);
    let start = browser.get("/dashboard/oidc").await;
    let brought = server.visit(start.header("location"));
    let refused = other.get(&callback(&brought)).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("started in another browser"), "{}", refused.text);
    assert!(refused.text.contains(r#"href="/dashboard/sign-in">Back to sign-in<"#));
    assert_eq!(other.cookies.len(), 0);
    let denied = browser.enter_denied().await;
    assert_eq!(denied.status, 403);
    assert!(denied.text.contains("Example &lt;ID&gt; did not sign you in"), "{}", denied.text);
    assert!(denied.text.contains("The sign-in was cancelled"), "{}", denied.text);
}

impl CookieJar {
    /// Starts a sign-in that the person cancels at the provider.
    async fn enter_denied(&mut self) -> Page {
        let start = self.get("/dashboard/oidc").await;
        let url: url::Url = start.header("location").parse().expect("a URL");
        let (_, state) = url.query_pairs().find(|(name, _)| name == "state").expect("a state");
        let denied = [("error", "access_denied"), ("state", &*state)];
        self.get(&callback(&denied.map(|(name, value)| (name.to_owned(), value.to_owned())))).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_names_a_remedy() {
    let (service, server) = started("invitation").await;
    let mut browser = CookieJar::new(&service);
    server.sign_in(ann());
    let stranger = browser.enter(&server, "").await;
    assert_eq!(stranger.status, 403);
    assert!(stranger.text.contains("There is no user ann@example.com here"), "{}", stranger.text);
    server.sign_in(json!({ "sub": "1" }));
    let unconfirmed = browser.enter(&server, "").await;
    assert!(
        unconfirmed.text.contains("Your e-mail address is not confirmed"),
        "{}",
        unconfirmed.text
    );
    server.sign_in(json!({ "sub": "1", "nonce": "x" }));
    let wrong = browser.enter(&server, "").await;
    assert!(wrong.status == 502 && wrong.text.contains("Tell the operator"), "{}", wrong.text);
    assert!(browser.cookies.is_empty(), "no attempt is left: {:?}", browser.cookies);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_provider_affects_nothing_else() {
    let (service, server) = started("invitation").await;
    server.state().fault = OpenIdFault::Down;
    let mut browser = CookieJar::new(&service);
    let away = browser.get("/dashboard/oidc").await;
    assert_eq!(away.status, 503);
    assert!(away.text.contains("Example &lt;ID&gt; does not respond"), "{}", away.text);
    assert_eq!(browser.get("/dashboard/sign-in").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_provider_there_is_no_such_page() {
    let service = Service::start().await;
    let mut browser = CookieJar::new(&service);
    for path in ["/dashboard/oidc", "/dashboard/oidc/callback?code=a&state=b"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    let sign_in = browser.get("/dashboard/sign-in").await;
    assert!(!sign_in.text.contains("/dashboard/oidc"), "{}", sign_in.text);
}
