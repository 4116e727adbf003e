//! Around every request: a span, a line in the log, a number, and a net for panics.

use std::panic::AssertUnwindSafe;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use metrics::SharedString;
use tokio::time::Instant;
use tracing::Instrument;

use super::traces;
use crate::app::App;
use crate::http::Peer;
use crate::problem::Problem;

/// The middleware around everything.
pub(crate) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let name = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let span =
        tracing::info_span!("request", otel.kind = "server", http.request.method = method, http.route = name);
    traces::continue_from(&span, request.headers());
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let response = answer.unwrap_or_else(|_| {
        tracing::error!(parent: &span, "a handler panicked");
        Problem::internal().into_response()
    });
    let (status, took) = (response.status().as_u16(), began.elapsed());
    let label = SharedString::from(name.to_owned());
    app.metrics.answered(method, label, status, took);
    let duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let peer = peer.map(tracing::field::display);
    if name.starts_with("/health") || name == "/metrics" {
        tracing::debug!(method, route = name, status, duration_us, peer, "request");
    } else {
        tracing::info!(method, route = name, status, duration_us, peer, "request");
    }
    response
}

/// A name of our own, so that nobody can make up labels without end.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
