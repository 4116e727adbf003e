//! Every event is encoded and decoded unchanged, and a bad row is refused with a reason.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::saga::support::seconds;
use backstitch_kernel::saga::event::Started;
use backstitch_kernel::saga::{Event, Outside, Phase, Resolution, codec};
use backstitch_kernel::{Payload, StepError, StepId};

fn error() -> StepError {
    StepError::in_doubt("gone \"quiet\"\n").with_code("E_GONE").with_retry_after(Duration::from_millis(1500))
}

fn json(text: &str) -> Payload {
    Payload::parse(text).unwrap_or_else(|broken| panic!("{text}: {broken}"))
}

fn unparsed(body: &[u8]) -> Event {
    Event::StepSucceeded { step: "pay".into(), attempt: 4, result: Payload::from_unparsed(body) }
}

fn started() -> Started {
    Started {
        definition: "d".to_owned(),
        version: 3,
        input: json(r#"{"n": [1, 2.50, "x"]}"#),
        correlation_id: Some("c".to_owned()),
        deadline: Some(seconds(7)),
        attributes: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
    }
}

fn outside() -> Outside {
    Outside { queue: "q".into(), queue_until: Some(seconds(8)), until: None }
}

fn is_left_outside(event: &Event) -> bool {
    matches!(
        event,
        Event::StepStarted { outside: Some(_), .. } | Event::StepCompensating { outside: Some(_), .. }
    )
}

/// Every event with all its fields, and its name.
fn every_event() -> Vec<(&'static str, Event)> {
    let step = StepId::from("s");
    let attempt = 4;
    let note = "who, \"why\"".to_owned();
    vec![
        ("saga.started", Event::SagaStarted(Arc::new(started()))),
        ("saga.succeeded", Event::SagaSucceeded),
        ("saga.failed", Event::SagaFailed { step: step.clone(), error: error() }),
        ("saga.compensating", Event::SagaCompensating { failed_step: Some(step.clone()), error: error() }),
        ("saga.compensating", Event::SagaCompensating { failed_step: None, error: StepError::not_done("") }),
        ("saga.compensated", Event::SagaCompensated { results: BTreeMap::new() }),
        (
            "saga.compensated",
            Event::SagaCompensated { results: BTreeMap::from([(step.clone(), json(r#"{"id":  7}"#))]) },
        ),
        ("saga.paused", Event::SagaPaused { note: note.clone() }),
        ("saga.resumed", Event::SagaResumed { note: note.clone() }),
        ("saga.adopted", Event::SagaAdopted { node: "n".to_owned(), epoch: -5 }),
        ("step.started", Event::StepStarted { step: step.clone(), attempt, outside: None }),
        ("step.started", Event::StepStarted { step: step.clone(), attempt, outside: Some(outside()) }),
        (
            "step.leased",
            Event::StepLeased { step: step.clone(), phase: Phase::Undo, attempt, until: seconds(9) },
        ),
        ("step.succeeded", Event::StepSucceeded { step: step.clone(), attempt, result: json("[1,  2]") }),
        ("step.succeeded", Event::StepSucceeded { step: step.clone(), attempt, result: Payload::null() }),
        ("step.succeeded", unparsed(b"<html>")),
        ("step.succeeded", unparsed(b"\xff")),
        ("step.failed", Event::StepFailed { step: step.clone(), attempt, error: error(), in_doubt: true }),
        ("step.failed", Event::StepFailed { step: step.clone(), attempt, error: error(), in_doubt: false }),
        ("step.timed_out", Event::StepTimedOut { step: step.clone(), attempt, error: error() }),
        (
            "step.retry",
            Event::StepRetry {
                step: step.clone(),
                phase: Phase::Undo,
                attempt,
                max_attempts: 9,
                error: error(),
                retry_at: seconds(99),
            },
        ),
        ("step.compensating", Event::StepCompensating { step: step.clone(), attempt, outside: None }),
        (
            "step.compensating",
            Event::StepCompensating { step: step.clone(), attempt, outside: Some(outside()) },
        ),
        ("step.compensated", Event::StepCompensated { step: step.clone(), attempt, result: Payload::null() }),
        (
            "step.compensated",
            Event::StepCompensated { step: step.clone(), attempt, result: json(r#"{"id":  7}"#) },
        ),
        (
            "step.compensated",
            Event::StepCompensated { step: step.clone(), attempt, result: Payload::from_unparsed(b"<html>") },
        ),
        (
            "step.compensation_failed",
            Event::StepCompensationFailed { step: step.clone(), attempt, error: error() },
        ),
        ("step.resolved", Event::StepResolved { step, action: Resolution::Skip, note }),
    ]
}

fn written(event: &Event) -> (Option<String>, Option<u32>, Option<String>) {
    let step = event.step().map(ToString::to_string);
    (step, event.attempt(), codec::data(event))
}

#[test]
fn every_event_comes_back_from_its_row_as_it_was() {
    for (name, event) in every_event() {
        assert_eq!(event.name(), name);
        let (step, attempt, data) = written(&event);
        let read = codec::event(name, step.as_deref(), attempt, data.as_deref()).unwrap();
        assert_eq!(read, event);
    }
}

#[test]
fn events_that_say_it_all_by_their_name_need_no_data() {
    for (name, event) in every_event() {
        let bare = matches!(name, "saga.succeeded" | "step.started" | "step.compensating")
            && !is_left_outside(&event);
        let empty = match &event {
            Event::StepSucceeded { result, .. } | Event::StepCompensated { result, .. } => {
                result.is_null() && !result.is_unparsed()
            }
            Event::SagaCompensated { results } => results.is_empty(),
            _ => false,
        };
        assert_eq!(codec::data(&event).is_none(), bare || empty, "{name}");
    }
}

#[test]
fn an_attempt_without_data_is_one_that_was_made_here() {
    let (step, attempt, outside) = (StepId::from("s"), 4, None);
    let started = codec::event("step.started", Some("s"), Some(4), None).unwrap();
    assert_eq!(started, Event::StepStarted { step: step.clone(), attempt, outside: outside.clone() });
    let compensating = codec::event("step.compensating", Some("s"), Some(4), None).unwrap();
    assert_eq!(compensating, Event::StepCompensating { step, attempt, outside });
}

#[test]
fn the_written_form_is_pinned() {
    let data = |wanted: &str| {
        let all = every_event();
        let (_, event) = all.iter().find(|(name, _)| *name == wanted).unwrap();
        codec::data(event).unwrap()
    };
    assert_eq!(
        data("saga.started"),
        r#"{"definition":"d","version":3,"input":{"n": [1, 2.50, "x"]},"correlation_id":"c","deadline":7000000,"attributes":{"k":"v"}}"#
    );
    assert_eq!(data("step.succeeded"), r#"{"result":[1,  2]}"#);
    let error = r#"{"kind":"in_doubt","code":"E_GONE","message":"gone \"quiet\"\n","retry_after":{"secs":1,"nanos":500000000}}"#;
    assert_eq!(data("step.failed"), format!(r#"{{"error":{error},"in_doubt":true}}"#));
    assert_eq!(
        data("step.retry"),
        format!(r#"{{"error":{error},"phase":"undo","max_attempts":9,"retry_at":99000000}}"#)
    );
    let left_outside = Event::StepStarted { step: "s".into(), attempt: 1, outside: Some(outside()) };
    assert_eq!(codec::data(&left_outside).unwrap(), r#"{"queue":"q","queue_until":8000000}"#);
    assert_eq!(data("step.leased"), r#"{"phase":"undo","until":9000000}"#);
    assert_eq!(data("step.resolved"), r#"{"action":"skip","note":"who, \"why\""}"#);
    assert_eq!(data("saga.adopted"), r#"{"node":"n","epoch":-5}"#);
}

#[test]
fn a_row_with_something_missing_is_refused_by_name() {
    let refused = |name: &str, step: Option<&str>, attempt: Option<u32>, data: Option<&str>| {
        codec::event(name, step, attempt, data).unwrap_err().to_string()
    };
    for (name, event) in every_event() {
        let (step, attempt, data) = written(&event);
        let (step, data) = (step.as_deref(), data.as_deref());
        // Only the cause of a rollback may lack a step.
        if step.is_some() && name != "saga.compensating" {
            let expected = format!("a `{name}` event has no `step`");
            assert_eq!(refused(name, None, attempt, data), expected);
        }
        if attempt.is_some() {
            let expected = format!("a `{name}` event has no `attempt`");
            assert_eq!(refused(name, step, None, data), expected);
        }
        // Results are optional. Attempts of the engine have no data, as in versions without outside workers.
        let has_result = ["step.succeeded", "step.compensated", "saga.compensated"].contains(&name);
        if data.is_some() && !has_result && !is_left_outside(&event) {
            let expected = format!("a `{name}` event has no `data`");
            assert_eq!(refused(name, step, attempt, None), expected);
        }
    }
    for (name, data, missing) in [
        ("saga.failed", "{}", "data.error"),
        ("saga.paused", "{}", "data.note"),
        ("saga.adopted", r#"{"epoch": 1}"#, "data.node"),
        ("saga.adopted", r#"{"node": "n"}"#, "data.epoch"),
        ("step.failed", "{}", "data.error"),
        ("step.retry", "{}", "data.phase"),
        ("step.started", r#"{"until": 1}"#, "data.queue"),
        ("step.leased", r#"{"until": 1}"#, "data.phase"),
        ("step.leased", r#"{"phase": "do"}"#, "data.until"),
        ("step.compensating", r#"{"until": 1}"#, "data.queue"),
        ("step.resolved", "{}", "data.action"),
        ("step.resolved", r#"{"action": "skip"}"#, "data.note"),
    ] {
        let told = refused(name, Some("s"), Some(1), Some(data));
        assert_eq!(told, format!("a `{name}` event has no `{missing}`"));
    }
}

#[test]
fn an_unknown_type_and_broken_data_are_refused_with_a_reason() {
    let unknown = codec::event("saga.teleported", None, None, None).unwrap_err();
    assert!(unknown.to_string().starts_with("the event type `saga.teleported` is unknown"));
    for data in ["", "{", "[]", r#"{"result": }"#, "{}"] {
        let broken = codec::event("step.succeeded", Some("s"), Some(1), Some(data)).unwrap_err();
        let told = broken.to_string();
        assert!(told.starts_with("the data of a `step.succeeded` event cannot be read: "), "{told}");
    }
}

#[test]
fn unknown_fields_of_a_newer_version_are_ignored() {
    let data = r#"{"note": "n", "mood": "good"}"#;
    let read = codec::event("saga.paused", None, None, Some(data)).unwrap();
    assert_eq!(read, Event::SagaPaused { note: "n".to_owned() });
}

#[test]
fn terminal_events_are_recognised() {
    for (name, event) in every_event() {
        let end = matches!(name, "saga.succeeded" | "saga.failed" | "saga.compensated");
        assert_eq!(event.is_terminal(), end, "{name}");
    }
}

#[test]
fn phases_have_their_names_in_keys() {
    assert_eq!((Phase::Do.as_str(), Phase::Undo.as_str()), ("do", "undo"));
}
