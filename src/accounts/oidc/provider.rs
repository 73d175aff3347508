//! The provider. Its discovery document and its keys are fetched on demand, and cached.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use url::Url;

use super::attempt::OidcSignIn;
use super::discovery::{self, ProviderMetadata};
use super::error::{InvalidIdToken, OidcError};
use super::exchange::{self, shown_code};
use super::id_token::{self, VerifiedIdentity};
use super::keys::JsonWebKeys;
use super::settings::OidcSettings;
use crate::domain::outcome::Response;
use crate::domain::token::Token;
use crate::outbound::{Client, OutboundSettings, Request, SetupError};
use crate::runtime::{Clock, Random, Tasks};
use crate::store::INSTALLATION;

/// The timeout of a call to the provider, and of the fetch of the discovery document and the keys
/// together.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a whole step of a sign-in, with its wait for the fetch of another one. It is
/// shorter than the 30 s of a request, so that the person gets a page with the error.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// The time for which the discovery document and the keys are cached.
const CACHED: Duration = Duration::from_secs(3_600);
/// The age up to which they are used if the provider does not answer.
const USABLE: Duration = Duration::from_hours(24);
/// The minimum time between two fetches of the keys because of an unknown key.
const BETWEEN_REFETCHES: Duration = Duration::from_secs(60);
/// The time after a failed fetch during which the provider is not called again.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// An OpenID Connect provider. Clones share the cache.
#[derive(Clone)]
pub struct OidcProvider(Arc<OidcProviderInner>);

struct OidcProviderInner {
    settings: OidcSettings,
    client: Client,
    clock: Clock,
    random: Random,
    published: Mutex<ProviderCache>,
}

/// The cache of the discovery document and the keys, and the last failure to fetch them.
#[derive(Default)]
struct ProviderCache {
    current: Option<Arc<ProviderKeys>>,
    /// The time of the last failure and the failure, if no fetch has succeeded since.
    failed: Option<(Duration, OidcError)>,
}

struct ProviderKeys {
    metadata: ProviderMetadata,
    keys: JsonWebKeys,
    fetched_at: Duration,
}

/// A sign-in that was started.
#[derive(Debug)]
pub struct OidcStart {
    /// The secret that the browser keeps.
    pub attempt: OidcSignIn,
    /// The page of the provider to which the browser goes.
    pub url: String,
}

/// The answer of the provider, which the browser brings along.
#[derive(Clone, Copy, Debug, Default)]
pub struct OidcAnswer<'a> {
    /// The code.
    pub code: Option<&'a str>,
    /// The state of the sign-in that is answered.
    pub state: Option<&'a str>,
    /// The error, if the sign-in was refused.
    pub error: Option<&'a str>,
    /// The issuer of the answer, if the provider names it (RFC 9207).
    pub issuer: Option<&'a str>,
}

/// An answer that belongs to the attempt of the browser that brings it along.
pub struct AttemptAnswer<'a> {
    attempt: &'a OidcSignIn,
    answer: OidcAnswer<'a>,
}

impl<'a> OidcAnswer<'a> {
    /// Returns the answer with the attempt of the browser.
    ///
    /// # Errors
    /// `OtherBrowser` if the answer belongs to no attempt, or to another one.
    pub fn of(self, attempt: Option<&'a OidcSignIn>) -> Result<AttemptAnswer<'a>, OidcError> {
        let attempt = attempt.filter(|attempt| attempt.has_state(self.state.unwrap_or("")));
        let attempt = attempt.ok_or(OidcError::OtherBrowser)?;
        Ok(AttemptAnswer { attempt, answer: self })
    }
}

impl OidcProvider {
    /// Creates a provider without calling it. Name servers and additional certificate authorities
    /// are those of `outbound`.
    ///
    /// # Errors
    /// If a certificate authority or the name resolver cannot be used.
    pub fn new(
        settings: OidcSettings,
        outbound: &OutboundSettings,
        (clock, random): (Clock, Random),
        tasks: &Tasks,
    ) -> Result<Self, SetupError> {
        let everywhere = ["0.0.0.0/0", "::/0"].map(|net| net.parse().expect("a network"));
        let outbound = OutboundSettings {
            allow: everywhere.to_vec(),
            deny_ports: Vec::new(),
            exception: None,
            ..outbound.clone()
        };
        let client = Client::new(outbound, clock.clone(), tasks)?;
        let published = Mutex::default();
        Ok(Self(Arc::new(OidcProviderInner { settings, client, clock, random, published })))
    }

    /// Returns the name of the provider on the pages.
    pub fn name(&self) -> &str {
        &self.0.settings.name
    }

    /// Starts a sign-in.
    ///
    /// # Errors
    /// If the discovery document or the keys cannot be fetched within 20 seconds.
    pub async fn start(&self) -> Result<OidcStart, OidcError> {
        self.in_time(STEP_TIMEOUT, self.begin()).await
    }

    async fn begin(&self) -> Result<OidcStart, OidcError> {
        let OidcProviderInner { settings, random, .. } = &*self.0;
        let discovered = self.discovered().await?;
        let attempt = OidcSignIn::new(Token::new(|bytes| random.fill(bytes)));
        let mut url: Url = discovered.metadata.authorization_endpoint.parse().map_err(|_| {
            OidcError::Unusable("its authorization_endpoint is not a URL".to_owned())
        })?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &settings.client_id)
            .append_pair("redirect_uri", &settings.redirect_url)
            .append_pair("scope", &settings.scopes)
            .append_pair("state", &attempt.state())
            .append_pair("nonce", &attempt.nonce())
            .append_pair("code_challenge", &attempt.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(OidcStart { attempt, url: url.into() })
    }

    /// Ends a sign-in with the provider's answer, and returns the person.
    ///
    /// # Errors
    /// If the answer refuses the sign-in or cannot be verified, or if the provider does not answer
    /// all calls within 20 seconds.
    pub async fn finish(&self, answer: AttemptAnswer<'_>) -> Result<VerifiedIdentity, OidcError> {
        self.in_time(STEP_TIMEOUT, self.exchange(answer)).await
    }

    /// Carries out calls to the provider within a limit.
    async fn in_time<T>(
        &self,
        limit: Duration,
        calls: impl Future<Output = Result<T, OidcError>>,
    ) -> Result<T, OidcError> {
        tokio::select! {
            biased;
            result = calls => result,
            () = self.0.clock.sleep(limit) => {
                let seconds = limit.as_secs();
                Err(OidcError::Unreachable(format!("its answers take more than {seconds} s")))
            }
        }
    }

    async fn exchange(
        &self,
        AttemptAnswer { attempt, answer }: AttemptAnswer<'_>,
    ) -> Result<VerifiedIdentity, OidcError> {
        let settings = &self.0.settings;
        if answer.issuer.is_some_and(|issuer| issuer != settings.issuer) {
            return Err(InvalidIdToken::Issuer.into());
        }
        let code = match (answer.error, answer.code) {
            (Some(error), _) => return Err(OidcError::Refused(shown_code(error))),
            (None, Some(code)) => code,
            (None, None) => return Err(OidcError::Unusable("it answers without a code".into())),
        };
        let discovered = self.discovered().await?;
        let secret = self.secret().await?;
        let request = exchange::request(&discovered.metadata, settings, &secret, (attempt, code));
        let response = self.call(request).await?;
        let token = exchange::id_token(&response)?;
        self.verified(discovered, &token, &attempt.nonce()).await
    }

    /// Verifies an ID token. If its key is unknown, the keys are fetched again.
    async fn verified(
        &self,
        discovered: Arc<ProviderKeys>,
        token: &str,
        nonce: &str,
    ) -> Result<VerifiedIdentity, OidcError> {
        let expected = (&self.0.settings, nonce);
        let verify = |keys| id_token::verify(token, keys, expected, self.0.clock.now());
        match verify(&discovered.keys) {
            Err(InvalidIdToken::UnknownKey) => {
                let again = self.refetched(&discovered).await?;
                Ok(verify(&again.keys)?)
            }
            verified => Ok(verified?),
        }
    }

    /// Reads the client's secret, and fetches the discovery document and the keys, for
    /// `punctual doctor`.
    ///
    /// # Errors
    /// If the secret cannot be read, or if the provider does not answer or is not the configured
    /// one.
    pub async fn check_up(&self) -> Result<(), OidcError> {
        self.secret().await?;
        self.discovered().await.map(drop)
    }

    /// Returns the discovery document and the keys, from the cache or from the provider.
    async fn discovered(&self) -> Result<Arc<ProviderKeys>, OidcError> {
        let mut published = self.0.published.lock().await;
        let now = self.0.clock.monotonic();
        match &published.current {
            Some(current) if now.saturating_sub(current.fetched_at) < CACHED => Ok(current.clone()),
            Some(current) if now.saturating_sub(current.fetched_at) < USABLE => {
                let known = current.clone();
                let fetched = self.fetch(&mut published).await;
                Ok(fetched.unwrap_or_else(|error| {
                    tracing::warn!(%error, "could not refresh the keys of the OpenID provider");
                    known
                }))
            }
            _ => self.fetch(&mut published).await,
        }
    }

    /// Returns newer keys than those of `seen`, unless those were fetched less than 60 seconds ago.
    async fn refetched(&self, seen: &Arc<ProviderKeys>) -> Result<Arc<ProviderKeys>, OidcError> {
        let mut published = self.0.published.lock().await;
        let now = self.0.clock.monotonic();
        match &published.current {
            Some(current) if !Arc::ptr_eq(current, seen) => Ok(current.clone()),
            _ if now.saturating_sub(seen.fetched_at) < BETWEEN_REFETCHES => Ok(seen.clone()),
            _ => self.fetch(&mut published).await,
        }
    }

    /// Fetches from the provider. The caller holds the lock of the cache, so one request runs at a
    /// time.
    async fn fetch(&self, published: &mut ProviderCache) -> Result<Arc<ProviderKeys>, OidcError> {
        let now = self.0.clock.monotonic();
        if let Some((at, error)) = &published.failed
            && now.saturating_sub(*at) < AFTER_FAILURE
        {
            return Err(error.clone());
        }
        let fetched = self.in_time(TIMEOUT, self.discover()).await;
        match &fetched {
            Ok(discovered) => {
                *published = ProviderCache { current: Some(discovered.clone()), failed: None };
            }
            Err(error) => {
                published.failed = Some((self.0.clock.monotonic(), error.clone()));
            }
        }
        fetched
    }

    async fn discover(&self) -> Result<Arc<ProviderKeys>, OidcError> {
        let fetched_at = self.0.clock.monotonic();
        let issuer = &self.0.settings.issuer;
        let description = self.document(&discovery::address(issuer)).await?;
        let metadata = ProviderMetadata::read(&description, issuer)?;
        let keys = JsonWebKeys::read(&self.document(&metadata.jwks_uri).await?);
        let keys = keys.filter(|keys| !keys.is_empty()).ok_or_else(|| {
            let what = format!("{} has no key that verifies ID tokens", metadata.jwks_uri);
            OidcError::Unusable(what)
        })?;
        Ok(Arc::new(ProviderKeys { metadata, keys, fetched_at }))
    }

    async fn document(&self, url: &str) -> Result<Vec<u8>, OidcError> {
        let response = self.call(exchange::get(url)).await?;
        match response.status {
            200 => Ok(response.body),
            status @ 500.. => Err(OidcError::Unreachable(format!("{url} answers {status}"))),
            status => Err(OidcError::Unusable(format!("{url} answers {status}"))),
        }
    }

    async fn call(&self, request: Request) -> Result<Response, OidcError> {
        let url = request.url.clone();
        let exchange = self.0.client.send(INSTALLATION, request, TIMEOUT).await;
        match exchange.result {
            Ok(response) if response.truncated => {
                Err(OidcError::Unusable(format!("the answer of {url} is too large")))
            }
            Ok(response) => Ok(response),
            Err(failure) => Err(OidcError::Unreachable(format!("{url}: {}", failure.message))),
        }
    }

    async fn secret(&self) -> Result<String, OidcError> {
        let Some(path) = &self.0.settings.client_secret_file else {
            return Ok(self.0.settings.client_secret.clone());
        };
        let text = tokio::fs::read_to_string(path).await;
        let text = text.map_err(|error| OidcError::SecretFile(error.to_string()))?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}
