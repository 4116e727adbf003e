//! The one stylesheet and the one script, part of the binary.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

pub(super) const STYLE_PLACE: &str = "/assets/console.css";
pub(super) const SCRIPT_PLACE: &str = "/assets/console.js";

pub(super) async fn style() -> Response {
    sent("text/css; charset=utf-8", include_str!("console.css"))
}

pub(super) async fn script() -> Response {
    sent("text/javascript; charset=utf-8", include_str!("console.js"))
}

fn sent(kind: &'static str, text: &'static str) -> Response {
    // They change with the binary, and are small.
    let kept = HeaderValue::from_static("no-cache");
    ([(CONTENT_TYPE, HeaderValue::from_static(kind)), (CACHE_CONTROL, kept)], text).into_response()
}
