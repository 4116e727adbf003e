//! Headers that several routes read.

use axum::http::HeaderMap;

use crate::problem::{Kind, Problem};

/// The key that makes a repeated request the same request.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(header) = headers.get("idempotency-key") else { return Ok(None) };
    let text = header.to_str().ok().filter(|text| !text.trim().is_empty());
    let refused = || {
        Problem::new(
            Kind::BadHeader,
            "the Idempotency-Key header is empty or not plain text: give a key, or none at all",
        )
    };
    text.map(Some).ok_or_else(refused)
}
