//! Rules of HTTP that hold for every request and response.

use axum::extract::Request;
use axum::http::header::{HOST, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Kind, Problem};

/// Refuses requests that do not name exactly one host, and keeps browsers from guessing what a response is.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = match check_host(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// With no `Host` header, or two, or one that contradicts the target, a proxy and this server could read different names.
/// HTTP/1.0 makes no difference. HTTP/2 sends the name as `:authority`.
fn check_host(request: &Request) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let problem = match (hosts.next(), hosts.next()) {
        (Some(host), None) if agrees(request.uri(), host) => return Ok(()),
        (None, _) if request.version() == Version::HTTP_2 && request.uri().authority().is_some() => {
            return Ok(());
        }
        (Some(_), None) => {
            "the target of the request and its Host header name different hosts: send the same host and port in both"
        }
        (None, _) => "the request has no Host header: send exactly one, with HTTP/1.0 too",
        (Some(_), Some(_)) => "the request has several Host headers: send one",
    };
    Err(Problem::new(Kind::BadHeader, problem))
}

/// Whether the target names no host, or the one that the header names. A port that is left out is that of the scheme.
fn agrees(target: &Uri, host: &HeaderValue) -> bool {
    let Some(named) = target.authority() else { return true };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let usual = if target.scheme_str() == Some("https") { 443 } else { 80 };
    let port = |of: &Authority| of.port_u16().unwrap_or(usual);
    host.is_some_and(|host| {
        // A user before the host could pass for one.
        let is_plain = !host.as_str().contains('@') && !named.as_str().contains('@');
        is_plain && host.host().eq_ignore_ascii_case(named.host()) && port(&host) == port(named)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_and_host_header_name_the_same_host() {
        for (target, host, agree) in [
            ("/v1/sagas", "anything", true),
            ("http://a.example/v1/sagas", "a.example", true),
            ("http://A.example/v1/sagas", "a.EXAMPLE:80", true),
            ("https://a.example:443/", "a.example", true),
            ("http://[::1]:7420/", "[::1]:7420", true),
            ("http://a.example/", "b.example", false),
            ("http://a.example:81/", "a.example", false),
            ("http://b.example@a.example/", "a.example", false),
            ("http://a.example/", "b.example@a.example", false),
            ("http://a.example/", "", false),
        ] {
            let host_header = HeaderValue::from_static(host);
            assert_eq!(agrees(&Uri::from_static(target), &host_header), agree, "{target} {host}");
        }
    }
}
