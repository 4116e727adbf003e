//! Traces over OTLP, only where somebody collects them.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use axum::http::{HeaderMap, Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Layer, registry::LookupSpan};

/// Set once traces are collected: then, and only then, requests are asked where they come from.
static COLLECTED: AtomicBool = AtomicBool::new(false);

/// The path that collectors take traces on.
const TRACES_PATH: &str = "/v1/traces";
/// The most that a collector's answer may hold.
const ANSWER_BYTES: usize = 64 * 1024;

/// Sends spans to the collector at this address, from within the runtime that calls this.
pub(super) fn provider(endpoint: &str) -> Result<SdkTracerProvider, String> {
    let mistaken = |why: &dyn std::fmt::Display| {
        format!(
            "telemetry.otlp_endpoint `{endpoint}` cannot be used: {why}; use an address like http://127.0.0.1:4318"
        )
    };
    let base = endpoint.trim_end_matches('/');
    let address = if base.ends_with(TRACES_PATH) { base.to_owned() } else { format!("{base}{TRACES_PATH}") };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(address)
        .with_http_client(Collector::new().map_err(|why| mistaken(&why))?)
        .build()
        .map_err(|why| mistaken(&why))?;
    COLLECTED.store(true, Ordering::Relaxed);
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("backstitch").build())
        .build())
}

/// Hands our spans to it; those of the libraries below tell nobody anything, and sending them would make more of them.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    let ours = Targets::new()
        .with_target("backstitch", LevelFilter::INFO)
        .with_target("backstitch_server", LevelFilter::INFO);
    tracing_opentelemetry::layer().with_tracer(provider.tracer("backstitch")).with_filter(ours)
}

/// Makes the span part of the trace that the request belongs to.
pub(super) fn continue_from(span: &Span, headers: &HeaderMap) {
    if COLLECTED.load(Ordering::Relaxed) && headers.contains_key("traceparent") {
        let parent = TraceContextPropagator::new().extract(&Headers(headers));
        // Fails only for a span that nobody records.
        let _ = span.set_parent(parent);
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

/// The client for the collector. Spans are exported by a thread of their own, which has no runtime; so each request is
/// made on ours.
#[derive(Debug)]
struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
}

impl Collector {
    fn new() -> Result<Self, std::io::Error> {
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())?
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let runtime = Handle::try_current().map_err(std::io::Error::other)?;
        Ok(Self { client, runtime })
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        });
        sent.await?
    }
}
