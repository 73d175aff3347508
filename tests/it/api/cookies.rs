//! The API accepts keys and no cookies (S17), so no other site can call it through a browser.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use punctual::accounts::{
    HashCost, Password, SESSION_COOKIE, SignIn, SignUp, SignUpMode, UserContext, UserSettings,
    Users,
};
use punctual::domain::plan::UNLIMITED;
use punctual::runtime::Random;
use serde_json::json;

use super::harness::{Service, schedule_with};

/// Returns the session cookie of a signed-in owner of an account.
async fn session(service: &Service) -> String {
    let context = UserContext {
        store: service.store.clone(),
        queue: service.queue.clone(),
        clock: service.clock.clone(),
        random: Random::seeded(8),
        tasks: service.tasks.clone(),
        mailer: None,
        provider: None,
        cost: HashCost { memory_kib: 64, passes: 1 },
    };
    let hour = Duration::from_secs(3_600);
    let settings = UserSettings {
        sign_up: SignUpMode::Open,
        plan: UNLIMITED.into(),
        session_idle: hour,
        session_lifetime: hour,
        public_url: None,
    };
    let users = Users::new(context, settings);
    let (email, address) = ("ann@example.com", IpAddr::V4(Ipv4Addr::LOCALHOST));
    let password = Password::new("correct horse").expect("long enough");
    let sign_up =
        SignUp { email, password: &password, account: "second", invitation: None, address };
    users.sign_up(sign_up).await.expect("signed up");
    let sign_in = SignIn { email, password: password.reveal(), address, previous: None };
    let session = users.sign_in(sign_in).await.expect("signed in");
    format!("{SESSION_COOKIE}={}", session.token.reveal())
}

#[tokio::test]
async fn a_session_is_no_key() {
    let service = Service::start().await;
    let with_key = format!("{SESSION_COOKIE}={}; x-api-key={0}", service.key);
    for cookie in [session(&service).await, with_key] {
        for (method, path) in [
            ("GET", "/v1/account"),
            ("GET", "/v1/schedules"),
            ("POST", "/v1/schedules"),
            ("GET", "/v1/audit-log"),
            ("DELETE", "/v1/schedules/x"),
        ] {
            let call = service.bare(method, path).header("cookie", &cookie);
            let answer = call.json(&schedule_with(json!({}))).send().await;
            answer.refused(401, "MISSING_API_KEY", "API key is required");
            assert!(!answer.headers.contains_key("set-cookie"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_session_beside_a_key_changes_nothing() {
    let service = Service::start().await;
    let cookie = session(&service).await;
    let account = service.get("/v1/account").await;
    let beside = service.call("GET", "/v1/account").header("cookie", &cookie).send().await;
    assert_eq!(beside.ok(), account.ok());
    let read_key = service.read_key().await;
    let create = service.bare("POST", "/v1/schedules").key(&read_key).header("cookie", &cookie);
    let refused = create.json(&schedule_with(json!({}))).send().await;
    assert_eq!(refused.status, 403, "the key may only read: {}", refused.text);
    let wrong = service.bare("GET", "/v1/account").key("x").header("cookie", &cookie);
    wrong.send().await.refused(401, "INVALID_API_KEY", "Invalid API key");
}
