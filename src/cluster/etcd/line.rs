//! Connections to etcd, every wait of which is bounded.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, TlsOptions};

use super::failure::Failure;
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

/// How long a request may take that only memory has to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a write may take: the disks of etcd may be slow. Where writes are waited for, renewals
/// tell sooner whether the server is there at all.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// How often a quiet connection is tried; etcd closes those that try more often.
const TRY_EVERY: Duration = Duration::from_secs(5);

/// Connects to one of the servers: a connection to several would go on asking one that hangs.
pub(super) async fn connect(
    clock: &Clock,
    settings: &ServerSettings,
    turn: usize,
) -> Result<Client, Failure> {
    let endpoint = &settings.endpoints[turn % settings.endpoints.len()];
    let mut options = ConnectOptions::new()
        .with_connect_timeout(PATIENCE)
        .with_keep_alive(TRY_EVERY, PATIENCE)
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

/// The answer to a request, waited for as long as is bearable. Whether a request without an answer
/// had an effect is unknown.
pub(super) fn answer<T>(
    clock: &Clock,
    operation: ClusterOperation,
    request: impl Future<Output = Result<T, Error>>,
) -> impl Future<Output = Result<T, Failure>> {
    within(clock, operation, PATIENCE, Box::pin(request))
}

/// The answer to a write.
pub(super) fn written<T>(
    clock: &Clock,
    operation: ClusterOperation,
    request: impl Future<Output = Result<T, Error>>,
) -> impl Future<Output = Result<T, Failure>> {
    within(clock, operation, WRITE_PATIENCE, Box::pin(request))
}

/// The request is boxed: it is large, and moved from wrapper to wrapper.
async fn within<T>(
    clock: &Clock,
    operation: ClusterOperation,
    bound: Duration,
    request: Pin<Box<impl Future<Output = Result<T, Error>>>>,
) -> Result<T, Failure> {
    let call = async {
        match tokio::time::timeout(bound, request).await {
            Ok(answer) => answer.map_err(Failure::from),
            Err(_) => Err(Failure::Silent),
        }
    };
    measure(clock, operation, &CLUSTER_CALL_SECONDS, &CLUSTER_CALL_ERRORS, call).await
}
