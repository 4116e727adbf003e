//! The JSON body of a request: read within its limits, and refused with all errors and their paths.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, EXPECT};
use backstitch_api::validate::{self, Input, Partial, shown_duration};
use backstitch_modules::depth::exceeds;
use backstitch_modules::readable;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::content_type;
use crate::app::App;
use crate::config::Limits;
use crate::problem::{Kind, Problem};

/// How much of a body that is refused is still taken, and for how long.
const DISCARDED_BYTES: usize = 64 * 1024 * 1024;
const DISCARDING: Duration = Duration::from_secs(2);

/// The path of a body as a whole.
const BODY: &str = "body";

/// A body that is JSON and valid.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Input> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        refuse_other_types(request.headers())?;
        let body = read(request, &app.config.limits).await?;
        validate::read(text(&body, &app.config.limits)?, BODY).map(Self).map_err(Problem::invalid)
    }
}

/// A body that is JSON, as far as it is valid. Its errors are reported together with those that the server's settings cause.
pub(crate) struct PartialJson<T>(pub(crate) Partial<T>);

impl<T: Input> FromRequest<App> for PartialJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        refuse_other_types(request.headers())?;
        let body = read(request, &app.config.limits).await?;
        Ok(Self(validate::read_partially(text(&body, &app.config.limits)?, BODY)))
    }
}

/// A body that may be left out or be `null`: it is as if it was an empty object then.
pub(crate) struct JsonOrNothing<T>(pub(crate) T);

impl<T: Input> FromRequest<App> for JsonOrNothing<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let typed = refuse_other_types(request.headers());
        let body = read(request, &app.config.limits).await?;
        let json = if body.is_empty() || body.trim_ascii() == b"null" {
            "{}"
        } else {
            typed?;
            text(&body, &app.config.limits)?
        };
        validate::read(json, BODY).map(Self).map_err(Problem::invalid)
    }
}

fn refuse_other_types(headers: &HeaderMap) -> Result<(), Problem> {
    let is_json = |essence: &str| {
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
    };
    match content_type(headers)? {
        Some(essence) if is_json(&essence) => Ok(()),
        Some(essence) => Err(Problem::new(
            Kind::UnsupportedMediaType,
            format!("the body is said to be `{essence}`: send JSON with `Content-Type: application/json`"),
        )),
        None => Err(Problem::new(
            Kind::UnsupportedMediaType,
            "the type of the body is not said: send `Content-Type: application/json`",
        )),
    }
}

/// A few bytes that unpack to very many would get round every limit, so nothing is unpacked.
fn refuse_encodings(headers: &HeaderMap) -> Result<(), Problem> {
    let named =
        headers.get_all(CONTENT_ENCODING).iter().map(|named| String::from_utf8_lossy(named.as_bytes()));
    match named.map(|named| named.trim().to_owned()).find(|named| !named.eq_ignore_ascii_case("identity")) {
        None => Ok(()),
        Some(encoding) => Err(Problem::new(
            Kind::UnsupportedMediaType,
            format!(
                "the body is said to be encoded as `{encoding}`: send it as it is, without Content-Encoding"
            ),
        )),
    }
}

/// The whole body, if it is not encoded, small enough and comes in time.
pub(crate) async fn read(request: Request, limits: &Limits) -> Result<Bytes, Problem> {
    refuse_encodings(request.headers())?;
    let limit = limits.body_bytes;
    let waits_to_continue = request.headers().contains_key(EXPECT);
    let mut body = request.into_body();
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        if !waits_to_continue {
            discard(body).await;
        }
        return Err(too_large(limit));
    }
    let collected = Limited::new(&mut body, limit).collect();
    match tokio::time::timeout(limits.body_timeout, collected).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(why)) if why.is::<LengthLimitError>() => {
            discard(body).await;
            Err(too_large(limit))
        }
        Ok(Err(_)) => Err(Problem::new(Kind::BadJson, "the body was cut off: send the request again")),
        Err(_) => {
            let detail = format!(
                "the body was not complete after {}: send the request again",
                shown_duration(limits.body_timeout)
            );
            Err(Problem::new(Kind::RequestTimeout, detail))
        }
    }
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than {limit} bytes: pass a reference to where the data is");
    Problem::new(Kind::TooLarge, detail).with("limit", &limit)
}

/// Takes the rest of a body that is refused, for a while: whoever still sends when the connection is closed may never
/// read the answer.
async fn discard(mut body: Body) {
    let rest = async {
        let mut left = DISCARDED_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARDING, rest).await;
}

/// The body as text, if it is JSON that is not nested too deeply.
fn text<'a>(body: &'a [u8], limits: &Limits) -> Result<&'a str, Problem> {
    let limit = limits.json_depth;
    if exceeds(body, limit) {
        let detail = format!("the body is nested deeper than {limit} levels: flatten it");
        return Err(Problem::new(Kind::JsonTooDeep, detail).with("limit", &limit));
    }
    readable::check(body).map_err(|why| {
        let problem = Problem::new(Kind::BadJson, format!("the body is not JSON: {why}"));
        problem.with("line", &why.line()).with("column", &why.column())
    })?;
    std::str::from_utf8(body)
        .map_err(|_| Problem::new(Kind::BadJson, "the body is not UTF-8: send it in that encoding"))
}
