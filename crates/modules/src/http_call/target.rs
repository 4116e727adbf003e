//! Where a call goes, as its definition says.

use backstitch::{Payload, Problems};
use backstitch_api::validate::{Node, ValidationErrors};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};

use crate::outgoing::{Address, header};

/// What a call may do. A `GET` sends no body.
const METHODS: [(&str, Method); 5] = [
    ("POST", Method::POST),
    ("PUT", Method::PUT),
    ("PATCH", Method::PATCH),
    ("DELETE", Method::DELETE),
    ("GET", Method::GET),
];

/// The most headers that a declared call may have. Beyond some thousands a `HeaderMap` panics.
pub const MAX_HEADERS: usize = 1_000;

/// The methods that a declared call may have.
pub fn methods() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|(name, _)| *name)
}

/// The names of headers that a declared call may have, as a regular expression for descriptions of the API.
#[must_use]
pub fn header_name_pattern() -> String {
    header::name_pattern()
}

/// A declared call that passed its check.
#[derive(Debug)]
pub(crate) struct Target {
    pub(super) method: Method,
    pub(super) uri: Uri,
    /// Host and port: whom the call loads.
    pub(super) authority: String,
    pub(super) headers: HeaderMap,
}

impl Target {
    /// Reads the inside of `{"http": {…}}`. The mistakes are the node's to tell.
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        let fields = node.object(&["method", "url", "headers"])?;
        let method = match fields.get("method") {
            Some(method) => method.one_of(&METHODS),
            None => Some(Method::POST),
        };
        let headers = match fields.get("headers") {
            Some(written) => headers(&written),
            None => Some(HeaderMap::new()),
        };
        let place = fields.required("url").and_then(|written| place(&written));
        let place = place?;
        Some(Self { method: method?, authority: place.authority(), uri: place.uri, headers: headers? })
    }

    /// Reads a whole call.
    pub(super) fn parse(call: &Payload) -> Result<Self, Problems> {
        let errors = ValidationErrors::of("the call");
        let node = Node::root(call.as_str(), &errors);
        let target = node.object(&["http"]).and_then(|fields| Self::read(&fields.required("http")?));
        errors.or_else(target)
    }

    /// Its method, as in a request's first line.
    pub(crate) fn method(&self) -> &str {
        self.method.as_str()
    }
}

/// Where the call goes.
fn place(node: &Node<'_>) -> Option<Address> {
    Address::read(&node.text()?).map_err(|mistakes| mistakes.into_iter().for_each(|it| node.wrong(it))).ok()
}

fn headers(node: &Node<'_>) -> Option<HeaderMap> {
    let fields = node.any_object()?;
    let count = fields.entries().count();
    if count > MAX_HEADERS {
        node.wrong(format!("has {count} headers; the limit is {MAX_HEADERS}"));
        return None;
    }
    let mut headers = HeaderMap::new();
    let mut fine = true;
    for (name, field) in fields.entries() {
        match header(name, &field) {
            Some((name, _)) if headers.contains_key(&name) => {
                field.wrong(header::TWICE);
                fine = false;
            }
            Some((name, value)) => {
                headers.insert(name, value);
            }
            None => fine = false,
        }
    }
    fine.then_some(headers)
}

fn header(name: &str, field: &Node<'_>) -> Option<(HeaderName, HeaderValue)> {
    let wrong = |mistake| field.wrong(mistake);
    let name = header::name(name).map_err(wrong).ok()?;
    let value = header::value(&field.text()?).map_err(wrong).ok()?;
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(http: &Value) -> Result<Target, Problems> {
        Target::parse(&Payload::encode(&json!({ "http": http })).unwrap())
    }

    fn wrong(http: &Value) -> Vec<String> {
        let Problems(found) = parse(http).unwrap_err();
        found.into_iter().map(|problem| format!("{}: {}", problem.place, problem.message)).collect()
    }

    #[test]
    fn a_call_is_a_post_unless_it_says_otherwise() {
        let target = parse(&json!({"url": "http://pay:81/charge?x=1"})).unwrap();
        assert_eq!((target.method.as_str(), target.authority.as_str()), ("POST", "pay:81"));
        assert_eq!(parse(&json!({"url": "https://pay", "method": "get"})).unwrap().authority, "pay:443");
    }

    #[test]
    fn a_url_leads_to_a_host_over_http_and_holds_no_secret() {
        for (url, complaint) in [
            ("ftp://pay/charge", "neither http nor https"),
            ("file:///etc/passwd", "neither http nor https"),
            ("pay/charge", "not a URL"),
            ("http://", "not a URL"),
            ("", "not a URL"),
            ("http://ada:secret@pay/", "user or a password"),
            ("http://ada@pay/", "user or a password"),
            ("http://pay/#top", "fragment"),
            ("http://pay/a b", "blank"),
            ("http://pay/a\nb", "blank"),
            ("http://pay:99999/", "not a URL"),
            (&format!("http://{}/", "a".repeat(64)), "longer than any"),
            (&format!("http://{}pay/", "a.".repeat(200)), "longer than any"),
        ] {
            let found = wrong(&json!({ "url": url }));
            assert!(
                found.iter().any(|it| it.starts_with("http.url: ") && it.contains(complaint)),
                "{url}: {found:?}"
            );
        }
    }

    #[test]
    fn a_header_cannot_pretend_or_smuggle() {
        for (name, value, complaint) in [
            ("Idempotency-Key", "mine", "belongs to the call"),
            ("x-backstitch-saga", "other", "belongs to the call"),
            ("Content-Length", "0", "belongs to the call"),
            ("Transfer-Encoding", "chunked", "belongs to the call"),
            ("Proxy-Authorization", "x", "belongs to the call"),
            ("Host", "other", "belongs to the call"),
            ("X-A", "a\r\nX-Backstitch-Saga: other", "line break"),
            ("X A", "a", "not a header's name"),
            ("X-A:", "a", "not a header's name"),
            ("", "a", "not a header's name"),
        ] {
            let found = wrong(&json!({"url": "http://pay", "headers": {name: value}}));
            assert!(found.len() == 1 && found[0].contains(complaint), "{name}: {found:?}");
        }
        let found = wrong(&json!({"url": "http://pay", "headers": {"X-A": "1", "x-a": "2"}}));
        assert!(found[0].contains("twice"), "{found:?}");
    }

    #[test]
    fn call_with_too_many_headers_is_refused() {
        let headers = |count: usize| {
            let headers: serde_json::Map<_, _> =
                (0..count).map(|nth| (format!("a{nth}"), json!(""))).collect();
            json!({ "url": "http://pay", "headers": headers })
        };
        assert_eq!(parse(&headers(MAX_HEADERS)).unwrap().headers.len(), MAX_HEADERS);
        assert_eq!(wrong(&headers(40_000)), ["http.headers: has 40000 headers; the limit is 1000"]);
    }

    #[test]
    fn a_call_that_cannot_be_read_says_everything_that_is_wrong() {
        let found = wrong(&json!({"method": "PSOT", "ulr": "http://pay", "headers": {"X-A": 1}}));
        assert_eq!(
            found,
            [
                "http.ulr: is not known: did you mean `url`?",
                "http.method: `PSOT` is not one of POST, PUT, PATCH, DELETE, GET: did you mean `POST`?",
                "http.headers.X-A: is a number: write text, in quotes if it looks like something else",
                "http.url: is missing",
            ]
        );
        assert!(Target::parse(&Payload::null()).is_err());
        assert!(Target::parse(&Payload::parse(r#"{"grpc": {}}"#).unwrap()).is_err());
    }
}
