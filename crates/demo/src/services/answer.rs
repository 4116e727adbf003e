//! Responses of the simulated services.

use backstitch_modules::orders::Service;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::ledger::Verdict;

pub(super) type ServiceResponse = Response<Full<Bytes>>;

/// Larger than any response that callers read by default.
const GIANT: usize = 8 * 1024 * 1024;

/// The response; none if the connection is closed instead.
pub(super) fn answer(service: Service, behaviour: &Behaviour, verdict: &Verdict) -> Option<ServiceResponse> {
    Some(match behaviour {
        Behaviour::Drop => return None,
        Behaviour::Fail => failure(StatusCode::INTERNAL_SERVER_ERROR, "BROKEN", "something went wrong here"),
        Behaviour::Busy => {
            with(failure(StatusCode::SERVICE_UNAVAILABLE, "BUSY", "come back in a second"), RETRY_AFTER, "1")
        }
        Behaviour::Redirect => with(
            failure(StatusCode::TEMPORARY_REDIRECT, "MOVED", "call another service"),
            LOCATION,
            "/elsewhere",
        ),
        Behaviour::Garbage => plain(StatusCode::OK, "<html>it worked, believe me"),
        Behaviour::Giant => plain(StatusCode::OK, format!("\"{}\"", "x".repeat(GIANT))),
        Behaviour::Succeed
        | Behaviour::Refuse
        | Behaviour::Hang
        | Behaviour::Delay(_)
        | Behaviour::First(..) => said(service, verdict),
    })
}

/// The response to an invalid call.
pub(super) fn mistaken(status: StatusCode, why: &str) -> ServiceResponse {
    failure(status, "BAD_CALL", why)
}

fn said(service: Service, verdict: &Verdict) -> ServiceResponse {
    match verdict {
        Verdict::Done { receipt } => body(StatusCode::OK, &json!({ "receipt": receipt })),
        Verdict::Undone { receipt } => body(StatusCode::OK, &json!({ "undone": receipt })),
        Verdict::Refused => failure(StatusCode::UNPROCESSABLE_ENTITY, refusal(service), "not this time"),
        Verdict::TooLate => {
            failure(StatusCode::CONFLICT, "ALREADY_UNDONE", "this was undone before it was done")
        }
        Verdict::Open => failure(StatusCode::INTERNAL_SERVER_ERROR, "UNDECIDED", "nothing was decided"),
    }
}

fn refusal(service: Service) -> &'static str {
    match service {
        Service::Payment => "CARD_DECLINED",
        Service::Inventory => "OUT_OF_STOCK",
        Service::Logistics => "NO_CARRIER",
    }
}

fn failure(status: StatusCode, code: &str, message: &str) -> ServiceResponse {
    body(status, &json!({ "code": code, "message": message }))
}

fn body(status: StatusCode, body: &Value) -> ServiceResponse {
    with(plain(status, body.to_string()), CONTENT_TYPE, "application/json")
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> ServiceResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer
}

fn with(mut answer: ServiceResponse, name: HeaderName, value: &'static str) -> ServiceResponse {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
