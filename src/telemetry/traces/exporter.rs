//! Exports spans to the collector.

use std::time::Duration;

use http::HeaderMap;
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::span::text;
use super::{TRACER, Tracer};
use crate::telemetry::metrics::{SpanResult, TRACE_SPANS};

/// The maximum number of spans that wait to be sent. Further spans are dropped.
const WAITING: usize = 8_192;
/// The maximum number of spans in one batch.
const BATCH: usize = 512;
/// The timeout of a batch.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of the trace exporter.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// The collector's address, such as `http://collector:4317`.
    pub url: String,
    /// The certificate authorities (PEM) to trust instead of the public ones.
    pub ca_certificates: Option<String>,
    /// The headers that the collector requires with each call, such as `authorization`.
    pub headers: HeaderMap,
    /// The sampling rate: one of this many jobs and requests is traced. At least 1.
    pub one_in: u64,
}

/// Formats the settings without the headers, which are secrets.
impl std::fmt::Debug for TraceSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, one_in, .. } = self;
        f.debug_struct("Settings").field("url", url).field("one_in", one_in).finish_non_exhaustive()
    }
}

/// The settings do not allow an exporter to be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot export traces to traces.otlp_url: {0}")]
pub struct WrongSettings(String);

/// Sends spans. It runs in its own task.
pub struct Exporting {
    exporter: SpanExporter,
    spans: mpsc::Receiver<SpanData>,
    /// `true` if the export of the previous batch failed.
    is_failing: bool,
}

/// Turns tracing on. [`Exporting::run`] then sends the spans, under the name of this replica. A
/// second call leaves the first tracer in force. Must be called within the runtime.
///
/// # Errors
/// Returns an error if no exporter can be built from the settings.
pub fn start(settings: &TraceSettings, replica: &str) -> Result<Exporting, WrongSettings> {
    let mut tls = ClientTlsConfig::new();
    tls = match &settings.ca_certificates {
        Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
        None => tls.with_webpki_roots(),
    };
    let builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&settings.url)
        .with_timeout(TIMEOUT)
        .with_metadata(MetadataMap::from_headers(settings.headers.clone()));
    let is_https = settings.url.starts_with("https:");
    let builder = if is_https { builder.with_tls_config(tls) } else { builder };
    let mut exporter = builder.build().map_err(|error| WrongSettings(error.to_string()))?;
    let attributes = [
        text("service.version", &env!("CARGO_PKG_VERSION")),
        text("service.instance.id", &replica),
    ];
    let resource = Resource::builder_empty().with_service_name("punctual");
    exporter.set_resource(&resource.with_attributes(attributes).build());
    let (sender, spans) = mpsc::channel(WAITING);
    let _ = TRACER.set(Tracer { one_in: settings.one_in, spans: sender });
    Ok(Exporting { exporter, spans, is_failing: false })
}

impl Exporting {
    /// Sends spans until the stop, and then the spans that are still waiting. While one batch is
    /// sent, the next one accumulates.
    pub async fn run(mut self, stopping: CancellationToken) {
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            tokio::select! {
                biased;
                _ = self.spans.recv_many(&mut batch, BATCH) => self.export(batch).await,
                () = stopping.cancelled() => return,
            }
        }
    }

    async fn export(&mut self, batch: Vec<SpanData>) {
        let count = batch.len() as u64;
        match self.exporter.export(batch).await {
            Ok(()) => {
                TRACE_SPANS.with(SpanResult::Exported).add(count);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("traces are exported again");
                }
            }
            Err(error) => {
                TRACE_SPANS.with(SpanResult::Failed).add(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "traces are not exported: check traces.otlp_url; jobs are not affected");
                }
            }
        }
    }
}
