//! Whether a form was sent by a page of this very console.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

/// Whether the browser says that another site sent it. A browser that says nothing about it sends no `Origin` either; then the
/// form's token decides alone.
pub(super) fn is_foreign(headers: &HeaderMap, uri: &Uri) -> bool {
    if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
    let from = origin.as_ref().and_then(Uri::authority).map(Authority::as_str);
    from.is_none_or(|from| Some(from) != asked_for(headers, uri))
}

/// Whether the address that the browser asked for stands for this machine. Where nobody needs a key, a name that somebody else
/// points here must not let their pages in.
pub(super) fn is_local(headers: &HeaderMap, uri: &Uri) -> bool {
    asked_for(headers, uri).is_none_or(is_of_this_machine)
}

fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Why a request is none of whoever is at this machine, where nobody needs a key: it asks for a name that somebody else points
/// here, or a page of somebody else makes a browser send it. Programs say nothing of where they come from.
pub(crate) fn is_of_a_stranger(headers: &HeaderMap, uri: &Uri) -> Option<&'static str> {
    if !is_local(headers, uri) {
        return Some(
            "without API keys this server is for this machine only: ask for it as http://127.0.0.1 or http://localhost, or \
             make a key with `backstitch keys create`",
        );
    }
    let origin = headers.get(ORIGIN).map(|origin| {
        let origin = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
        origin.as_ref().and_then(Uri::authority).is_some_and(|from| is_of_this_machine(from.as_str()))
    });
    if origin == Some(false) || headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return Some(
            "a page of another site sent this, and nothing was done: without API keys this server answers pages of this \
             machine only; make a key with `backstitch keys create` and send it",
        );
    }
    None
}

/// The name under which this server was asked. Over HTTP/2 it is in the address, and need not be in a header besides.
fn asked_for<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| uri.authority().map(Authority::as_str))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = given
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn what_another_site_sends_is_foreign() {
        let own = ("host", "sagas.example:7420");
        let (path, whole) = (Uri::from_static("/"), Uri::from_static("https://sagas.example:7420/"));
        let is_foreign = |headers: &HeaderMap| is_foreign(headers, &path);
        assert!(!is_foreign(&headers(&[own, ("origin", "https://sagas.example:7420")])));
        assert!(!is_foreign(&headers(&[own, ("sec-fetch-site", "same-origin")])));
        assert!(!is_foreign(&headers(&[own])), "some browsers say nothing");
        for origin in [
            "https://evil.example",
            "http://sagas.example",
            "null",
            "https://sagas.example:7420.evil.example",
        ] {
            assert!(is_foreign(&headers(&[own, ("origin", origin)])), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(is_foreign(&headers(&[own, ("sec-fetch-site", site)])), "{site}");
        }
        let (ours, theirs) = ("https://sagas.example:7420", "https://evil.example");
        assert!(!super::is_foreign(&headers(&[("origin", ours)]), &whole), "over HTTP/2");
        assert!(super::is_foreign(&headers(&[("origin", theirs)]), &whole), "over HTTP/2");
    }

    #[test]
    fn whoever_asks_from_elsewhere_is_a_stranger_where_nobody_needs_a_key() {
        let path = Uri::from_static("/v1/sagas");
        let own = ("host", "localhost:7420");
        for known in [
            &[own][..],
            &[],
            &[own, ("origin", "http://localhost:7420")],
            &[own, ("origin", "http://127.0.0.1:3000"), ("sec-fetch-site", "same-site")],
            &[own, ("sec-fetch-site", "none")],
        ] {
            assert_eq!(is_of_a_stranger(&headers(known), &path), None, "{known:?}");
        }
        for strange in [
            &[("host", "evil.example")][..],
            &[own, ("origin", "https://evil.example")],
            &[own, ("origin", "null")],
            &[own, ("sec-fetch-site", "cross-site")],
        ] {
            assert!(is_of_a_stranger(&headers(strange), &path).is_some(), "{strange:?}");
        }
        let whole = Uri::from_static("http://evil.example/v1/sagas");
        assert!(is_of_a_stranger(&headers(&[]), &whole).is_some(), "over HTTP/2");
    }

    #[test]
    fn an_address_of_this_machine_is_local() {
        let path = Uri::from_static("/");
        for host in [
            "localhost",
            "localhost:7420",
            "LOCALHOST:1",
            "127.0.0.1:7420",
            "127.9.9.9",
            "[::1]:7420",
            "[::1]",
        ] {
            assert!(is_local(&headers(&[("host", host)]), &path), "{host}");
        }
        for host in
            ["evil.example", "evil.example:7420", "10.0.0.1", "localhost.evil.example", "[2001:db8::1]:7420"]
        {
            assert!(!is_local(&headers(&[("host", host)]), &path), "{host}");
        }
        assert!(is_local(&headers(&[]), &Uri::from_static("http://localhost:7420/")), "over HTTP/2");
        assert!(!is_local(&headers(&[]), &Uri::from_static("http://evil.example/")), "over HTTP/2");
    }
}
