//! An OpenTelemetry collector: a server of the published protocol that stores all spans it
//! receives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

use super::certificates::ServerFiles;

/// The spans that the collector has received.
#[derive(Clone, Default)]
struct ReceivedTraces(Arc<Mutex<Vec<Received>>>);

/// A span and the details of the call that delivered it.
#[derive(Clone, Debug)]
pub struct Received {
    /// The replica that recorded the span.
    pub replica: String,
    /// The `authorization` header of the call.
    pub authorization: Option<String>,
    pub span: Span,
}

impl Received {
    /// Returns an attribute as text, or an empty text if the span does not have it.
    pub fn attribute(&self, name: &str) -> String {
        attribute(&self.span.attributes, name)
    }
}

#[tonic::async_trait]
impl TraceService for ReceivedTraces {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let authorization = request.metadata().get("authorization");
        let authorization = authorization.map(|value| value.to_str().expect("text").to_owned());
        let mut kept = self.0.lock().expect("not poisoned");
        for of_resource in request.into_inner().resource_spans {
            let resource = of_resource.resource.expect("a resource");
            assert_eq!(attribute(&resource.attributes, "service.name"), "punctual");
            let replica = attribute(&resource.attributes, "service.instance.id");
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            kept.extend(spans.map(|span| {
                let (replica, authorization) = (replica.clone(), authorization.clone());
                Received { replica, authorization, span }
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A collector that runs until it is dropped.
pub struct Collector {
    address: SocketAddr,
    kept: ReceivedTraces,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    /// Listens on `address`, with TLS if certificate files are given.
    pub async fn start(address: SocketAddr, tls: Option<&ServerFiles>) -> Self {
        let kept = ReceivedTraces::default();
        let incoming = TcpIncoming::bind(address).expect("a free port");
        let address = incoming.local_addr().expect("bound");
        let read = |path| std::fs::read(path).expect("a file");
        let mut server = Server::builder();
        if let Some(files) = tls {
            let identity = Identity::from_pem(read(&files.certificate), read(&files.key));
            let tls = ServerTlsConfig::new().identity(identity);
            server = server.tls_config(tls).expect("a certificate");
        }
        let service = server.add_service(TraceServiceServer::new(kept.clone()));
        let serving = tokio::spawn(async move {
            service.serve_with_incoming(incoming).await.expect("it serves");
        });
        Self { address, kept, serving }
    }

    /// Returns the port that the collector listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns all spans received so far.
    pub fn received(&self) -> Vec<Received> {
        self.kept.0.lock().expect("not poisoned").clone()
    }
}

fn attribute(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    let value = found.and_then(|found| found.value.as_ref());
    match value.and_then(|AnyValue { value }| value.as_ref()) {
        None => String::new(),
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(other) => panic!("no such attributes are made: {other:?}"),
    }
}
