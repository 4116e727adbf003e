//! Rules of HTTP that hold for every request and response.

use axum::extract::Request;
use axum::http::header::{HOST, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Kind, Problem};

/// Refuses requests without exactly one `Host`, and keeps browsers from guessing what a response is.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = match check_host(request.version(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// With two `Host` headers a proxy and this server could read different names. HTTP/1.0 has none of its own, and HTTP/2
/// sends the name as `:authority`.
fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get_all(HOST).iter().count() {
        1 => Ok(()),
        0 if version != Version::HTTP_11 => Ok(()),
        0 => Err(Problem::new(Kind::BadHeader, "the request has no Host header: send one")),
        _ => Err(Problem::new(Kind::BadHeader, "the request has several Host headers: send one")),
    }
}
