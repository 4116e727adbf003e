//! Every event is encoded and decoded unchanged.

use std::collections::HashSet;

use backstitch_kernel::lifecycle::{Event, Failure, Given, Input, Instance, codec};
use backstitch_kernel::{Payload, StepError};

use crate::lifecycle::support::{Life, abandon, driven, expiring, fail, start, start_as};

fn lives() -> Vec<Life> {
    let payload = |text: &str| Some(Payload::parse(text).unwrap());
    let mut full = Life::of(driven());
    let given = Given { correlation_id: Some("c-1".to_owned()), input: payload("{\"a\":[1,2.50]}") };
    full.tell(Input::Start(given.clone())).unwrap();
    full.tell(start()).unwrap();
    full.tell(start_as("c-2")).unwrap();
    full.tell(Input::Start(given)).unwrap();
    full.answer(Err(StepError::not_done("again").with_code("x"))).unwrap();
    full.answer(Err(StepError::refused("not linked").with_code("no_github_token"))).unwrap();
    full.tell(start()).unwrap();
    full.answer(Ok("{\"big\":12345678901234567890}")).unwrap();
    full.tell(fail("quota_exceeded")).unwrap();
    let mut abandoned = Life::standing_in("awaiting_github");
    abandoned.tell(abandon()).unwrap();
    let mut expired = Life::of(expiring()).brought_to("awaiting_github");
    expired.tell(Input::PauseExpired { entry: expired.stands().entry }).unwrap();
    let mut leased = Life::of(driven());
    leased.tell(start()).unwrap();
    leased.answer(Ok("null")).unwrap();
    leased.answer(Ok("null")).unwrap();
    leased.lease().unwrap();
    vec![full, leased, Life::standing_in("live"), Life::standing_in("failed"), abandoned, expired]
}

#[test]
fn every_event_is_read_as_it_was_written() {
    let mut seen = HashSet::new();
    for life in lives() {
        for recorded in &life.log {
            let event = &recorded.event;
            let data = codec::data(event);
            let again =
                codec::event(event.name(), event.state(), Some(event.attempt()), data.as_deref()).unwrap();
            assert_eq!(again, *event);
            seen.insert(event.name());
        }
    }
    assert_eq!(seen, Event::NAMES.into_iter().collect(), "every kind was tried");
}

#[test]
fn unparsed_response_keeps_its_mark() {
    for (body, text) in [(b"<p>linked</p>".as_slice(), "\"<p>linked</p>\""), (b"\xff", "null")] {
        let mut life = Life::of(driven());
        life.tell(start()).unwrap();
        let Instance { entry, failures, token, .. } = *life.stands();
        let outcome = Ok(Payload::from_unparsed(body));
        life.tell(Input::Answered { entry, attempt: failures + 1, token: Some(token), outcome }).unwrap();
        let event = life
            .log
            .iter()
            .map(|recorded| &recorded.event)
            .find(|event| matches!(event, Event::Transitioned { data: Some(_), .. }));
        let row = codec::data(event.unwrap());
        let again = codec::event("lifecycle.transitioned", Some("b"), Some(1), row.as_deref()).unwrap();
        let Event::Transitioned { data: Some(data), .. } = again else { panic!("{again:?}") };
        assert_eq!((data.as_str(), data.is_unparsed()), (text, true));
    }
}

#[test]
fn a_restart_that_was_given_nothing_has_nothing_to_write() {
    let log = lives().remove(0).log;
    let restarts = log.iter().filter(|recorded| matches!(recorded.event, Event::Restarted { .. }));
    let written: Vec<bool> = restarts.map(|recorded| codec::data(&recorded.event).is_some()).collect();
    assert!(written.contains(&true) && written.contains(&false), "{written:?}");
}

#[test]
fn numbers_in_payloads_keep_their_digits() {
    let life = lives().remove(0);
    let data: Vec<String> = life.log.iter().filter_map(|recorded| codec::data(&recorded.event)).collect();
    assert!(data.iter().any(|data| data.contains("12345678901234567890")));
    assert!(data.iter().any(|data| data.contains("2.50")));
}

#[test]
fn unreadable_event_is_named() {
    let unknown = codec::event("lifecycle.danced", None, Some(1), None).unwrap_err();
    assert!(unknown.to_string().contains("lifecycle.danced"));
    let no_data = codec::event("lifecycle.failed", None, Some(1), None).unwrap_err();
    assert!(no_data.to_string().contains("no `data`"), "{no_data}");
    let no_state =
        codec::event("lifecycle.transitioned", None, Some(1), Some("{\"from\":\"a\"}")).unwrap_err();
    assert!(no_state.to_string().contains("no `step`"), "{no_state}");
    let no_attempt = codec::event("lifecycle.restarted", None, None, None).unwrap_err();
    assert!(no_attempt.to_string().contains("no `attempt`"), "{no_attempt}");
    let odd = codec::event("action.retry", Some("a"), Some(1), Some("[]")).unwrap_err();
    assert!(odd.to_string().contains("cannot be read"), "{odd}");
}

#[test]
fn an_abandoned_event_is_written_with_its_reason() {
    let data: Vec<String> = lives()
        .iter()
        .rev()
        .take(2)
        .map(|life| life.log.last().unwrap().clone())
        .map(|last| codec::data(&last.event).unwrap())
        .collect();
    assert_eq!(data, [r#"{"reason":"expired"}"#, r#"{"reason":"requested","note":"the owner left"}"#]);
}

#[test]
fn a_failure_is_written_with_its_kind_by_name() {
    let failure = Failure { kind: "quota_exceeded".to_owned(), message: "full".to_owned() };
    let event = Event::Failed { from: "vercel_creating".into(), attempt: 2, failure };
    assert_eq!(
        codec::data(&event).unwrap(),
        "{\"from\":\"vercel_creating\",\"error_kind\":\"quota_exceeded\",\"message\":\"full\"}"
    );
}
