//! Small values: payloads, errors, ids, times.

use std::collections::HashMap;
use std::time::Duration;

use backstitch_kernel::{ErrorKind, Payload, SagaId, StepError, StepId, Timestamp};

#[test]
fn a_payload_is_one_json_document() {
    assert_eq!(Payload::default(), Payload::null());
    assert!(Payload::null().is_null());
    let object = Payload::parse(r#"{"a": 1}"#).unwrap();
    assert_eq!(object.as_str(), r#"{"a": 1}"#);
    assert_eq!(object.len(), 8);
    assert!(!object.is_null() && !object.is_empty());
    assert_eq!(format!("{object:?}"), r#"{"a": 1}"#);
    for broken in ["", "{", "1 2", "nul", "{}x"] {
        assert!(Payload::parse(broken).is_err(), "{broken:?}");
    }
    let no_json: HashMap<[u8; 2], u8> = HashMap::from([([1, 2], 3)]);
    assert!(Payload::encode(&no_json).is_err());
}

#[test]
fn a_payload_comes_back_from_another_document_as_it_was() {
    for text in [" null ", "\n[1,\t2]\r\n", "7", r#" "a b" "#] {
        let payload = Payload::parse(text).unwrap();
        let stored = serde_json::to_string(&[&payload]).unwrap();
        let read: Vec<Payload> = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, [payload], "{text:?}");
    }
    assert!(Payload::parse(" null").unwrap().is_null());
}

#[test]
fn payload_decodes_into_the_requested_type() {
    let payload = Payload::encode(&("x", 7)).unwrap();
    assert_eq!(payload.decode::<(String, u8)>().unwrap(), ("x".to_owned(), 7));
    assert!(payload.decode::<bool>().is_err());
}

#[test]
fn error_kinds_know_doubt_and_retry() {
    use ErrorKind::{
        Cancelled, DeadlineExceeded, Failed, InDoubt, Interrupted, Panicked, Refused, TimedOut, Unusable,
    };
    for (kind, doubt, again) in [
        (Failed, false, true),
        (Refused, false, false),
        (InDoubt, true, true),
        (TimedOut, true, true),
        (Panicked, true, true),
        (Unusable, true, false),
        (Interrupted, true, true),
        (Cancelled, false, true),
        (DeadlineExceeded, false, true),
    ] {
        assert_eq!((kind.leaves_doubt(), kind.is_retryable()), (doubt, again), "{kind:?}");
    }
    assert_eq!(StepError::not_done("x").kind, Failed);
    assert_eq!(StepError::refused("x").kind, Refused);
    assert_eq!(StepError::in_doubt("x").kind, InDoubt);
}

#[test]
fn an_error_reads_well_with_and_without_its_code() {
    let error = StepError::refused("card declined");
    assert_eq!(error.to_string(), "card declined");
    assert_eq!(error.with_code("CARD").to_string(), "CARD: card declined");
}

#[test]
fn ids_read_as_they_are_written() {
    let text = "01920000-0000-7000-8000-000000000001";
    let saga: SagaId = text.parse().unwrap();
    assert_eq!(saga.to_string(), text);
    assert!("nonsense".parse::<SagaId>().is_err());
    let step = StepId::from("pay");
    assert_eq!((step.as_str(), step.to_string().as_str()), ("pay", "pay"));
    assert_eq!(StepId::new("pay".to_owned()), step);
}

#[test]
fn times_stop_at_the_end_of_time_instead_of_wrapping() {
    let at = Timestamp::from_micros(5);
    assert_eq!(at.plus(Duration::from_millis(2)).as_micros(), 2_005);
    let end = Timestamp::from_micros(i64::MAX);
    assert_eq!(at.plus(Duration::MAX), end);
    assert_eq!(end.plus(Duration::from_secs(1)), end);
    assert_eq!(Timestamp::from_micros(2_005).minus(Duration::from_millis(2)), at);
    let beginning = Timestamp::from_micros(i64::MIN);
    assert_eq!(beginning.minus(Duration::from_secs(1)), beginning);
    assert_eq!(end.since(at), Duration::from_micros(i64::MAX.unsigned_abs() - 5));
    assert_eq!(at.since(end), Duration::ZERO);
    assert_eq!(at.since(at), Duration::ZERO);
}
