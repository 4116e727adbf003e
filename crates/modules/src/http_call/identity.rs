//! The headers that tell a service which attempt calls it.

use backstitch::SagaId;
use http::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const SAGA: HeaderName = HeaderName::from_static("x-backstitch-saga");
const STEP: HeaderName = HeaderName::from_static("x-backstitch-step");
const ATTEMPT: HeaderName = HeaderName::from_static("x-backstitch-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Which attempt it is.
pub(crate) struct Identity<'a> {
    pub(crate) saga: SagaId,
    pub(crate) step: &'a str,
    /// Tells attempts of one step apart that mean different things.
    pub(crate) phase: &'a str,
    pub(crate) attempt: u32,
    pub(crate) idempotency_key: String,
}

/// Adds them; what a definition may have set under these names is gone then.
pub(super) fn insert(headers: &mut HeaderMap, identity: Identity<'_>) -> Result<(), InvalidHeaderValue> {
    let Identity { saga, step, phase, attempt, idempotency_key } = identity;
    // Ids may have letters beyond ASCII; a header carries them as UTF-8.
    headers.insert(IDEMPOTENCY_KEY, HeaderValue::try_from(idempotency_key.into_bytes())?);
    headers.insert(SAGA, HeaderValue::try_from(saga.to_string())?);
    headers.insert(STEP, HeaderValue::from_bytes(step.as_bytes())?);
    headers.insert(ATTEMPT, HeaderValue::from(attempt));
    headers.insert(TRACEPARENT, HeaderValue::try_from(traceparent(saga, step, phase, attempt))?);
    Ok(())
}

/// One trace a saga and one span an attempt, so that a service's own spans are found by the saga's id.
fn traceparent(saga: SagaId, step: &str, phase: &str, attempt: u32) -> String {
    let parts = [step.as_bytes(), phase.as_bytes(), &attempt.to_be_bytes()];
    // FNV-1a: the same on every machine and in every version.
    let bytes = parts.into_iter().flat_map(|part| part.iter().chain(&[0]));
    let span = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    // A span of zero is none.
    format!("00-{}-{:016x}-01", saga.0.simple(), span.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_the_sagas_and_a_span_the_attempts() {
        let saga: SagaId = "01920000-0000-7000-8000-00000000abcd".parse().unwrap();
        let first = traceparent(saga, "payment", "do", 1);
        assert_eq!(
            first, "00-0192000000007000800000000000abcd-dee48e8feaa76f17-01",
            "pinned: services index it"
        );
        let others = [
            traceparent(saga, "payment", "do", 2),
            traceparent(saga, "payment", "undo", 1),
            traceparent(saga, "parcel", "do", 1),
        ];
        for other in others {
            assert_eq!(other[..36], first[..36], "one trace");
            assert_ne!(other, first, "its own span");
        }
    }
}
