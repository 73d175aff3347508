//! An OpenID provider on a real socket. It signs in the person that the test names, without a form.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode, header};
use punctual::accounts::OidcSettings;
use punctual::domain::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::wait::live_for;

/// The id and the secret of the one client.
pub const CLIENT: (&str, &str) = ("punctual", "a secret: 100%");
/// The redirect URI of the client.
pub const CALLBACK: &str = "https://punctual.example/app/dashboard/oidc/callback";

/// The fault of the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenIdFault {
    /// The provider works.
    #[default]
    None,
    /// Every address answers 503.
    Down,
    /// No address with this text in its path answers while the fault lasts.
    Hanging(&'static str),
    /// The discovery document redirects to itself.
    Redirect,
    /// The discovery document is larger than the limit.
    Large,
    /// The discovery document names another issuer.
    OtherIssuer,
}

/// The state of the provider, which a test may change.
pub struct OpenIdState {
    pub fault: OpenIdFault,
    /// Claims in addition to the usual ones. A claim that is `null` is left out.
    pub person: Value,
    /// The time of the tokens.
    pub now: Timestamp,
    /// The number of calls that have waited for the end of `OpenIdFault::Hanging`.
    pub hung: usize,
    /// The number of times that the keys were fetched.
    pub key_fetches: usize,
    issuer: String,
    key: EcdsaKeyPair,
    key_id: u32,
    /// The code that was issued last, with the query of its sign-in.
    issued: Option<(String, Value)>,
    codes: u32,
}

pub struct OpenIdServer {
    state: Arc<Mutex<OpenIdState>>,
    task: JoinHandle<()>,
}

type Shared = State<Arc<Mutex<OpenIdState>>>;

fn locked(state: &Mutex<OpenIdState>) -> MutexGuard<'_, OpenIdState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new_key() -> EcdsaKeyPair {
    let (signing, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(signing, &random).expect("generated");
    EcdsaKeyPair::from_pkcs8(signing, pkcs8.as_ref(), &random).expect("a pair")
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl OpenIdServer {
    /// Starts a provider that issues its tokens at `now`.
    pub async fn start(now: Timestamp) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let issuer = format!("http://{}/realm", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(OpenIdState {
            fault: OpenIdFault::None,
            person: json!({}),
            now,
            hung: 0,
            key_fetches: 0,
            issuer,
            key: new_key(),
            key_id: 1,
            issued: None,
            codes: 0,
        }));
        let router = Router::new()
            .route("/realm/.well-known/openid-configuration", get(describe))
            .route("/keys", get(publish))
            .route("/authorize", get(authorize))
            .route("/token", post(exchange))
            .layer(axum::middleware::from_fn_with_state(state.clone(), fail))
            .with_state(state.clone());
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("served");
        });
        Self { state, task }
    }

    /// Returns the state, to read or to change it.
    pub fn state(&self) -> MutexGuard<'_, OpenIdState> {
        locked(&self.state)
    }

    pub fn issuer(&self) -> String {
        self.state().issuer.clone()
    }

    /// Signs in a person with these claims from now on.
    pub fn sign_in(&self, person: Value) {
        self.state().person = person;
    }

    /// Signs with another key from now on.
    pub fn rotate_key(&self) {
        let mut state = self.state();
        state.key = new_key();
        state.key_id += 1;
    }

    /// Returns the settings of a client.
    pub fn settings(&self) -> OidcSettings {
        OidcSettings {
            issuer: self.issuer(),
            client_id: CLIENT.0.into(),
            client_secret: CLIENT.1.into(),
            client_secret_file: None,
            name: "Example ID".into(),
            scopes: "openid email".into(),
            redirect_url: CALLBACK.into(),
            join: None,
        }
    }

    /// Visits the sign-in page as a browser does. Returns the query with which the provider sends
    /// the browser back.
    pub fn visit(&self, url: &str) -> Vec<(String, String)> {
        let url: url::Url = url.parse().expect("a URL");
        assert!(url.path() == "/authorize", "{url}");
        let pairs = url.query_pairs().into_owned();
        let sent: Value = pairs.map(|(name, value)| (name, Value::String(value))).collect();
        locked(&self.state).answer(sent)
    }
}

impl Drop for OpenIdServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OpenIdState {
    fn base(&self) -> &str {
        self.issuer.trim_end_matches("/realm")
    }

    fn answer(&mut self, sent: Value) -> Vec<(String, String)> {
        assert_eq!(
            (&sent["response_type"], &sent["client_id"]),
            (&json!("code"), &json!(CLIENT.0))
        );
        assert_eq!(sent["code_challenge_method"], "S256");
        self.codes += 1;
        let code = format!("code-{}", self.codes);
        let state = sent["state"].as_str().expect("a state").to_owned();
        self.issued = Some((code.clone(), sent));
        [("code", code), ("state", state), ("iss", self.issuer.clone())]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    fn token(&self, nonce: &Value) -> String {
        let now = self.now.as_millis() / 1_000;
        let mut claims = json!({
            "iss": self.issuer, "aud": CLIENT.0, "nonce": nonce, "iat": now, "exp": now + 60,
        });
        let claims = claims.as_object_mut().expect("an object");
        claims.extend(self.person.as_object().expect("an object").clone());
        claims.retain(|_, value| !value.is_null());
        let header = json!({ "alg": "ES256", "kid": self.key_id.to_string() });
        let claims = Value::Object(claims.clone());
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", encoded(signature))
    }

    /// Returns the ID token for a code that the right client presents with the right verifier.
    fn exchanged(&mut self, authorization: &str, form: &Value) -> Option<String> {
        let (code, sent) = self.issued.take()?;
        let id_and_secret = "punctual:a+secret%3A+100%25";
        let is_client = authorization == format!("Basic {}", STANDARD.encode(id_and_secret));
        let challenge = encoded(Sha256::digest(form["code_verifier"].as_str()?));
        let fits = is_client
            && form["grant_type"] == "authorization_code"
            && form["code"] == code
            && form["redirect_uri"] == sent["redirect_uri"]
            && sent["code_challenge"] == challenge;
        fits.then(|| self.token(&sent["nonce"]))
    }
}

fn is_hanging(state: &Mutex<OpenIdState>, path: &str) -> bool {
    matches!(locked(state).fault, OpenIdFault::Hanging(part) if path.contains(part))
}

async fn fail(State(state): Shared, request: Request, next: axum::middleware::Next) -> Response {
    if locked(&state).fault == OpenIdFault::Down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let path = request.uri().path().to_owned();
    if is_hanging(&state, &path) {
        locked(&state).hung += 1;
        while is_hanging(&state, &path) {
            live_for(Duration::from_millis(5)).await;
        }
    }
    next.run(request).await
}

async fn describe(State(state): Shared, request: Request) -> Response {
    let state = locked(&state);
    let base = state.base();
    let mut description = json!({
        "issuer": state.issuer,
        "authorization_endpoint": format!("{base}/authorize?theme=dark"),
        "token_endpoint": format!("{base}/token"),
        "jwks_uri": format!("{base}/keys"),
    });
    match state.fault {
        OpenIdFault::Redirect => {
            let location = request.uri().to_string();
            return (StatusCode::FOUND, [(header::LOCATION, location)]).into_response();
        }
        OpenIdFault::Large => description["filler"] = "x".repeat(200_000).into(),
        OpenIdFault::OtherIssuer => description["issuer"] = format!("{base}/other").into(),
        OpenIdFault::None | OpenIdFault::Down | OpenIdFault::Hanging(_) => {}
    }
    Json(description).into_response()
}

async fn publish(State(state): Shared) -> Json<Value> {
    let mut state = locked(&state);
    state.key_fetches += 1;
    let (x, y) = state.key.public_key().as_ref()[1..].split_at(32);
    let (x, y, kid) = (encoded(x), encoded(y), state.key_id.to_string());
    Json(json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": kid, "x": x, "y": y }] }))
}

/// Sends a browser back at once.
async fn authorize(State(state): Shared, Query(sent): Query<Value>) -> Response {
    let callback = sent["redirect_uri"].as_str().expect("a URL").to_owned();
    let answer = locked(&state).answer(sent);
    let mut url: url::Url = callback.parse().expect("a URL");
    url.query_pairs_mut().extend_pairs(answer);
    (StatusCode::FOUND, [(header::LOCATION, url.to_string())]).into_response()
}

async fn exchange(State(state): Shared, headers: HeaderMap, Form(form): Form<Value>) -> Response {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match locked(&state).exchanged(authorization.unwrap_or_default(), &form) {
        Some(token) => Json(json!({ "access_token": "x", "id_token": token })).into_response(),
        None => {
            (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response()
        }
    }
}
