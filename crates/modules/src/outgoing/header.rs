//! Headers that somebody gave a call.

use http::header::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

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

/// What a header cannot hold, and what would make two keys look the same.
const NOT_IN_A_HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Text of whatever kind as a header's value: letters, digits and signs stay, all else is written as %XX.
pub(crate) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_A_HEADER).to_string()
}

/// The names that a call leaves to others, as a regular expression for descriptions of the API.
pub(crate) fn name_pattern() -> String {
    let reserved = RESERVED.map(in_any_case).join("|");
    let prefixes = RESERVED_PREFIXES.map(in_any_case).join("|");
    format!("^(?!({reserved})$)(?!{prefixes})[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
}

/// A name as a regular expression: its case does not matter.
fn in_any_case(name: &str) -> String {
    let mut pattern = String::new();
    for letter in name.chars() {
        if letter.is_ascii_lowercase() {
            pattern.extend(['[', letter.to_ascii_uppercase(), letter, ']']);
        } else {
            pattern.push(letter);
        }
    }
    pattern
}

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
