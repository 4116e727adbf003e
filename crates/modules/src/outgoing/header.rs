//! Headers that somebody gave a call.

use http::header::{HeaderName, HeaderValue};

/// Headers that belong to every call itself: with them somebody could break its framing, or claim to be another call.
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

/// A header's name that a call leaves to others.
pub(crate) fn name(written: &str) -> Result<HeaderName, &'static str> {
    let name = HeaderName::from_bytes(written.as_bytes())
        .map_err(|_| "is not a header's name: use letters, digits and `-`")?;
    let reserved = RESERVED.contains(&name.as_str())
        || RESERVED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
    if reserved { Err(BELONGS_TO_THE_CALL) } else { Ok(name) }
}

/// A header's value.
pub(crate) fn value(written: &str) -> Result<HeaderValue, &'static str> {
    HeaderValue::from_str(written)
        .map_err(|_| "has a line break or another character that no header may have")
}

/// What is wrong with a header that is reserved.
pub(crate) const BELONGS_TO_THE_CALL: &str = "belongs to the call itself and cannot be set: leave it out";
/// What is wrong with a header that is there a second time.
pub(crate) const TWICE: &str = "is given twice: the case of a header's name does not matter";
