//! Connections to etcd, with a timeout for every wait.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, TlsOptions};

use super::failure::EtcdFailure;
use super::settings::ServerSettings;
use crate::runtime::{Clock, measure};
use crate::telemetry::metrics::{CLUSTER_CALL_ERRORS, CLUSTER_CALL_SECONDS, ClusterOperation};

pub(super) const CONNECT: ClusterOperation = ClusterOperation::named("connect");
pub(super) const STATUS: ClusterOperation = ClusterOperation::named("status");
pub(super) const DELETE: ClusterOperation = ClusterOperation::named("delete");
pub(super) const GET: ClusterOperation = ClusterOperation::named("get");
pub(super) const PUT: ClusterOperation = ClusterOperation::named("put");
pub(super) const TXN: ClusterOperation = ClusterOperation::named("txn");
pub(super) const WATCH: ClusterOperation = ClusterOperation::named("watch");
pub(super) const GRANT: ClusterOperation = ClusterOperation::named("lease_grant");
pub(super) const KEEP_ALIVE: ClusterOperation = ClusterOperation::named("lease_keep_alive");
pub(super) const REVOKE: ClusterOperation = ClusterOperation::named("lease_revoke");

/// The timeout of a request that etcd answers from memory.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The timeout of a write. It is longer because the disks of etcd may be slow. While a write waits,
/// the renewals of the lease detect sooner if the server is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of keep-alive pings on an idle connection. etcd closes connections that ping more
/// often.
const TRY_EVERY: Duration = Duration::from_secs(5);

/// Connects to one of the servers. A connection to several would keep asking a server that hangs.
pub(super) async fn connect(
    clock: &Clock,
    settings: &ServerSettings,
    turn: usize,
) -> Result<Client, EtcdFailure> {
    let endpoint = &settings.endpoints[turn % settings.endpoints.len()];
    let mut options = ConnectOptions::new()
        .with_connect_timeout(TIMEOUT)
        .with_keep_alive(TRY_EVERY, TIMEOUT)
        .with_keep_alive_while_idle(true)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    if let Some((user, password)) = &settings.login {
        options = options.with_user(user, password);
    }
    if endpoint.starts_with("https://") {
        let tls = TlsOptions::new();
        options = options.with_tls(match &settings.authorities {
            Some(authorities) => tls.ca_certificate(Certificate::from_pem(authorities)),
            None => tls.with_webpki_roots(),
        });
    }
    answer(clock, CONNECT, Client::connect([endpoint], Some(options))).await
}

/// Waits for the answer to a request, up to the timeout. A request without an answer may still have
/// taken effect.
pub(super) fn answer<T>(
    clock: &Clock,
    operation: ClusterOperation,
    request: impl Future<Output = Result<T, Error>>,
) -> impl Future<Output = Result<T, EtcdFailure>> {
    within(clock, operation, TIMEOUT, Box::pin(request))
}

/// Waits for the answer to a write, up to its longer timeout.
pub(super) fn written<T>(
    clock: &Clock,
    operation: ClusterOperation,
    request: impl Future<Output = Result<T, Error>>,
) -> impl Future<Output = Result<T, EtcdFailure>> {
    within(clock, operation, WRITE_TIMEOUT, Box::pin(request))
}

/// Applies a timeout and measures the call. The request is boxed because it is large and is moved
/// through several wrappers.
async fn within<T>(
    clock: &Clock,
    operation: ClusterOperation,
    bound: Duration,
    request: Pin<Box<impl Future<Output = Result<T, Error>>>>,
) -> Result<T, EtcdFailure> {
    let call = async {
        match tokio::time::timeout(bound, request).await {
            Ok(answer) => answer.map_err(EtcdFailure::from),
            Err(_) => Err(EtcdFailure::Silent),
        }
    };
    measure(clock, operation, &CLUSTER_CALL_SECONDS, &CLUSTER_CALL_ERRORS, call).await
}
