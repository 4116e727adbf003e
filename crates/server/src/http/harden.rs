//! Rules of HTTP that hold for every request and response.

use axum::extract::Request;
use axum::http::header::{HOST, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Kind, Problem};

/// Refuses requests without exactly one `Host`, and keeps browsers from guessing what a response is.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = match check_host(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// With no `Host` header, or two, a proxy and this server could read different names. HTTP/1.0 makes no difference. HTTP/2
/// sends the name as `:authority`.
fn check_host(request: &Request) -> Result<(), Problem> {
    let has_authority = request.version() == Version::HTTP_2 && request.uri().authority().is_some();
    match request.headers().get_all(HOST).iter().count() {
        1 => Ok(()),
        0 if has_authority => Ok(()),
        0 => Err(Problem::new(
            Kind::BadHeader,
            "the request has no Host header: send exactly one, with HTTP/1.0 too",
        )),
        _ => Err(Problem::new(Kind::BadHeader, "the request has several Host headers: send one")),
    }
}
