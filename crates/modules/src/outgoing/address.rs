//! Addresses and headers that people write down for calls to come.

use http::Uri;
use http::header::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::Url;

use crate::reading::quoted;

/// Headers that belong to the call itself: with them its author could break its framing, or claim to be another call.
const RESERVED: [&str; 15] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "user-agent",
];
const RESERVED_PREFIXES: [&str; 2] = ["x-backstitch-", "proxy-"];

/// What a header cannot hold, and what would make two keys look the same.
const NOT_IN_A_HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Text of whatever kind as a header's value: letters, digits and signs stay, all else is written as %XX.
pub(crate) fn as_header(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_A_HEADER).to_string()
}

/// An address that leads to a host over HTTP and holds no secret.
///
/// # Errors
/// All that is wrong with it.
pub(crate) fn url(written: &str) -> Result<Url, Vec<String>> {
    // A URL's parser would quietly leave these out.
    if written.contains(|char: char| char.is_whitespace() || char.is_control()) {
        return Err(vec!["has a blank or a control character: write a blank as %20".to_owned()]);
    }
    let url = Url::parse(written).map_err(|why| {
        vec![format!("`{}` is not a URL ({why}): write it like http://host/path", quoted(written))]
    })?;
    let mut wrong = Vec::new();
    if !matches!(url.scheme(), "http" | "https") {
        wrong.push("is neither http nor https");
    } else if url.host_str().is_none_or(str::is_empty) {
        wrong.push("names no host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        wrong.push("holds a user or a password: send them in the header `Authorization`");
    }
    if url.fragment().is_some() {
        wrong.push("has a fragment (#…), which is never sent: leave it out");
    }
    if wrong.is_empty() { Ok(url) } else { Err(wrong.into_iter().map(str::to_owned).collect()) }
}

/// The whole address as a request has it.
///
/// # Errors
/// When it cannot stand in a request.
pub(crate) fn uri(url: &Url) -> Result<Uri, String> {
    Uri::try_from(url.as_str())
        .map_err(|why| format!("cannot be put into a request ({why}): encode unusual characters as %XX"))
}

/// The name of a header that a call may be given.
///
/// # Errors
/// When there is no such header, or it belongs to the call itself.
pub(crate) fn header_name(written: &str) -> Result<HeaderName, &'static str> {
    let Ok(name) = HeaderName::from_bytes(written.as_bytes()) else {
        return Err("is not a header's name: use letters, digits and `-`");
    };
    let reserved = RESERVED.contains(&name.as_str())
        || RESERVED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
    if reserved { Err("belongs to the call itself and cannot be set: leave it out") } else { Ok(name) }
}

/// What a header says.
///
/// # Errors
/// When no header can say it.
pub(crate) fn header_value(written: &str) -> Result<HeaderValue, &'static str> {
    HeaderValue::from_str(written)
        .map_err(|_| "has a line break or another character that no header may have")
}

/// Two headers of a call have the same name.
pub(crate) const TWICE: &str = "is given twice: the case of a header's name does not matter";
