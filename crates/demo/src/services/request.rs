//! Parses a step's call.

use backstitch::Phase;
use backstitch_modules::orders::Service;
use bytes::Bytes;
use hyper::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::Value;

use super::ledger::Call;

/// The used parts of a call's body.
#[derive(Deserialize)]
struct Body {
    saga_id: String,
    step: String,
    attempt: u32,
    #[serde(default)]
    input: Value,
}

/// The service and phase of a path.
pub(super) fn route(method: &Method, path: &str) -> Option<(Service, Phase)> {
    let (service, phase) = path.strip_prefix('/')?.split_once('/')?;
    let phase = [Phase::Do, Phase::Undo].into_iter().find(|it| it.as_str() == phase)?;
    (method == Method::POST).then_some((Service::named(service)?, phase))
}

/// The call, and the input of its saga.
///
/// # Errors
/// What is missing.
pub(super) fn read(
    (service, phase): (Service, Phase),
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<(Call, Value), String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let key = header("idempotency-key").filter(|key| !key.is_empty());
    let key = key.ok_or("the header Idempotency-Key is missing")?;
    let body: Body =
        serde_json::from_slice(body).map_err(|why| format!("this is no call of a step: {why}"))?;
    let call = Call {
        service,
        phase,
        key,
        saga: body.saga_id,
        step: body.step,
        attempt: body.attempt,
        traceparent: header("traceparent"),
        answered: None,
    };
    Ok((call, body.input))
}
