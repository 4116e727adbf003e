//! Answers in JSON.

use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::problem::Problem;

const CONTENT: HeaderValue = HeaderValue::from_static("application/json");

/// An answer with a JSON body.
pub(crate) fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(CONTENT_TYPE, CONTENT)], body).into_response(),
        Err(why) => {
            tracing::error!(%why, "an answer has no JSON form");
            Problem::internal().into_response()
        }
    }
}

/// The same answer, saying where what it is about is to be found.
pub(crate) fn located(place: &str, mut response: Response) -> Response {
    // Paths are made of plain text, so this cannot fail.
    if let Ok(place) = HeaderValue::from_str(place) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}
