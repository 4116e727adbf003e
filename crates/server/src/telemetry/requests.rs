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
    let response = answer_or_problem(next.run(request)).instrument(span).await;
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

/// A handler that panics costs its own request and nothing else.
pub(crate) async fn answer_or_problem(answer: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        Problem::internal().into_response()
    })
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_handler_that_panics_is_a_problem_without_internals() {
        let response = answer_or_problem(async { panic!("secret internals") }).await;
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(!String::from_utf8_lossy(&body).contains("secret"));
    }
}
