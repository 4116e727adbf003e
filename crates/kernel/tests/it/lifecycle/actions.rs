//! States with actions.

use std::time::Duration;

use backstitch_kernel::lifecycle::draft::{Allowed, MAX_MESSAGE};
use backstitch_kernel::lifecycle::{
    Draft, DraftAction, Event, Given, Input, Instance, Machine, Offer, Refused, decide,
};
use backstitch_kernel::{ErrorKind, Payload, Performer, Retry, StepError, Timestamp};

use crate::lifecycle::support::{Life, at, call, driven, driven_site, start, to};

fn begun() -> Life {
    let mut life = Life::of(driven());
    life.tell(start()).unwrap();
    life
}

#[test]
fn state_without_work_is_passed_in_the_same_decision() {
    let mut life = Life::of(driven());
    let begun = life.tell(start()).unwrap();
    assert_eq!(&*begun.instance.state, "source_resolving");
    assert_eq!(begun.events.len(), 2, "the start, and the way to what is to be done");
    assert_eq!(begun.instance.due_at, Some(at(1)), "at once");
}

/// A machine with an action in its initial state.
fn doing(performer: Performer, retry: Retry) -> Machine {
    let mut draft = Draft::new("errand", "doing");
    draft.states.push("done".to_owned());
    draft.terminal = vec!["done".to_owned()];
    draft.edges = vec![("doing".to_owned(), "done".to_owned())];
    draft.can_fail = vec!["doing".to_owned()];
    let action = DraftAction { retry, ..DraftAction::performed_by(performer, "done") };
    draft.actions.insert("doing".to_owned(), action);
    draft.check().unwrap()
}

#[test]
fn initial_state_can_offer_work_to_a_worker() {
    let performer = Performer::Worker { queue: "errands".to_owned() };
    let mut life = Life::of(doing(performer, Retry::none()));
    let begun = life.tell(start()).unwrap();
    assert_eq!(begun.events.len(), 1);
    assert_eq!(begun.offer, Some(Offer { queue: "errands".to_owned(), attempt: 1, due_at: at(1) }));
}

#[test]
fn neighbours_wait_differently_and_each_the_same_each_time() {
    let retry = Retry::fixed(3, Duration::from_secs(100)).with_jitter(50);
    let machine = doing(call(), retry.clone());
    let mut waits = Vec::new();
    for entered in [3, 3, 1_000_003] {
        let entered = Timestamp::from_micros(entered);
        let begun = decide(&machine, "errand-1", None, start(), entered).unwrap().instance;
        let Instance { entry, token, .. } = begun;
        let outcome = Err(StepError::not_done("try later"));
        let answer = Input::Answered { entry, attempt: 1, token: Some(token), outcome };
        let failed = decide(&machine, "errand-1", Some(&begun), answer, at(60)).unwrap().instance;
        let wait = failed.due_at.unwrap().since(at(60));
        assert_eq!(wait, retry.wait(1, entered.as_micros().unsigned_abs() ^ entry));
        waits.push(wait);
    }
    assert_eq!(waits[0], waits[1]);
    assert_ne!(waits[0], waits[2]);
}

#[test]
fn answers_lead_to_live() {
    let mut life = begun();
    life.answer(Ok("{\"commit\":\"abc\"}")).unwrap();
    assert_eq!(life.state(), "vercel_creating");
    let hook = life.answer(Ok("null")).unwrap();
    let offer = hook.offer.unwrap();
    assert_eq!((life.state(), &*offer.queue, offer.attempt), ("hook_creating", "hooks", 1));
    assert_eq!(life.stands().due_at, None, "its time begins with the lease");
    life.lease().unwrap();
    assert_eq!(life.stands().due_at, Some(at(4).plus(Duration::from_secs(60))), "so long a worker has");
    life.answer(Ok("1")).unwrap();
    assert_eq!((life.state(), life.stands().due_at), ("live", None));
    let results = life.log.iter().filter_map(|recorded| match &recorded.event {
        Event::Transitioned { to, data: Some(data), .. } => Some((to.to_string(), data.as_str().to_owned())),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert_eq!(results[0], ("source_resolved".to_owned(), "{\"commit\":\"abc\"}".to_owned()));
    assert_eq!(results.len(), 2, "null is no result");
}

#[test]
fn retryable_error_is_retried_with_the_actions_backoff() {
    let mut draft = driven_site();
    let waits = vec![Duration::from_secs(7), Duration::from_secs(9)];
    draft.actions.get_mut("source_resolving").unwrap().retry = Retry::after_each(waits);
    let mut life = Life::of(draft.check().unwrap());
    life.tell(start()).unwrap();
    for (turn, wait) in [(1, 7), (2, 9)] {
        let again = life.answer(Err(StepError::not_done("try later"))).unwrap();
        let due = at(life.now).plus(Duration::from_secs(wait));
        assert_eq!((again.instance.failures, again.instance.due_at), (turn, Some(due)));
        assert_eq!(life.state(), "source_resolving");
    }
    let over = life.answer(Err(StepError::not_done("still broken"))).unwrap();
    let failure = over.instance.failure.unwrap();
    assert_eq!((life.state(), &*failure.kind, &*failure.message), ("failed", "internal", "still broken"));
}

#[test]
fn a_refusal_is_not_tried_again_and_its_code_is_the_kind() {
    let mut life = begun();
    life.answer(Err(StepError::refused("no more projects").with_code("quota_exceeded"))).unwrap();
    let failure = life.stands().failure.clone().unwrap();
    assert_eq!(
        (life.state(), &*failure.kind, &*failure.message),
        ("failed", "quota_exceeded", "no more projects")
    );
}

#[test]
fn undeclared_code_is_internal_and_kept_in_the_message() {
    let mut life = begun();
    life.answer(Err(StepError::refused("odd").with_code("TEAPOT"))).unwrap();
    let failure = life.stands().failure.clone().unwrap();
    assert_eq!((&*failure.kind, &*failure.message), ("internal", "TEAPOT: odd"));
}

#[test]
fn declared_error_kind_leads_to_its_state_without_an_error() {
    let mut life = begun();
    let waits = life.answer(Err(StepError::refused("not linked").with_code("no_github_token"))).unwrap();
    assert_eq!(
        (life.state(), life.stands().failure.clone(), life.stands().due_at),
        ("awaiting_github", None, None)
    );
    let Event::Transitioned { error: Some(error), .. } = &waits.events[0].event else { panic!("no reason") };
    assert_eq!(error.kind, "no_github_token", "the log keeps why");
    life.tell(start()).unwrap();
    assert_eq!((life.state(), life.stands().attempt), ("source_resolving", 2));
}

#[test]
fn a_wish_to_wait_is_granted_within_reason() {
    let mut life = begun();
    let wish = StepError::not_done("slow down").with_retry_after(Duration::from_secs(100));
    assert_eq!(life.answer(Err(wish)).unwrap().instance.due_at, Some(at(2).plus(Duration::from_secs(100))));
    let mut life = begun();
    let wish = StepError::not_done("slow down").with_retry_after(Duration::from_secs(100_000));
    assert_eq!(life.answer(Err(wish)).unwrap().instance.due_at, Some(at(2).plus(Duration::from_secs(300))));
}

#[test]
fn an_answer_that_something_else_overtook_changes_nothing() {
    let mut life = begun();
    let Instance { entry, token, .. } = *life.stands();
    let stale =
        |entry, attempt, token| Input::Answered { entry, attempt, token, outcome: Ok(Payload::null()) };
    for late in [stale(entry - 1, 1, None), stale(entry, 2, None), stale(entry, 1, Some(token + 1))] {
        let refused = life.tell(late).unwrap_err();
        assert_eq!(refused, Refused::Late { state: "source_resolving".into() });
    }
    life.tell(Input::Transition { to: "source_resolved".to_owned(), data: None }).unwrap();
    let refused = life.tell(stale(entry, 1, Some(token))).unwrap_err();
    assert_eq!(refused, Refused::Late { state: "vercel_creating".into() });
}

#[test]
fn an_answer_for_an_end_changes_nothing() {
    let mut life = begun();
    life.answer(Err(StepError::refused("no"))).unwrap();
    let entry = life.stands().entry;
    let late = Input::Answered { entry, attempt: 1, token: None, outcome: Ok(Payload::null()) };
    assert_eq!(life.tell(late).unwrap_err(), Refused::Late { state: "failed".into() });
}

#[test]
fn start_does_not_disturb_a_running_attempt() {
    let mut life = begun();
    let before = life.stands().clone();
    let again = life.tell(Input::Start(Given::default())).unwrap();
    assert_eq!((again.instance.entry, again.instance.failures), (before.entry, before.failures));
    assert_eq!((again.instance.due_at, again.offer), (before.due_at, None));
    life.answer(Ok("null")).unwrap();
    assert_eq!(life.state(), "vercel_creating");
}

#[test]
fn a_worker_is_offered_each_attempt_anew() {
    let mut life = begun();
    life.answer(Ok("null")).unwrap();
    life.answer(Ok("null")).unwrap();
    let again = life.answer(Err(StepError::not_done("try later"))).unwrap();
    let offer = again.offer.unwrap();
    assert_eq!((offer.attempt, offer.due_at), (2, at(life.now).plus(Duration::from_secs(5))));
    assert_eq!((again.instance.due_at, again.instance.leased), (None, false), "it is not leased");
}

#[test]
fn time_in_the_queue_costs_no_attempt() {
    let performer = Performer::Worker { queue: "errands".to_owned() };
    let mut life = Life::of(doing(performer, Retry::none()));
    life.tell(start()).unwrap();
    assert_eq!(life.stands().unleased_queue(&life.machine), Some("errands"));
    life.now += 1_000_000;
    let leased = life.lease().unwrap();
    assert_eq!((leased.events.len(), leased.offer, leased.instance.leased), (1, None, true));
    assert_eq!(leased.instance.due_at, Some(at(life.now).plus(Duration::from_secs(60))));
    assert_eq!(life.stands().unleased_queue(&life.machine), None);
    let again = life.lease().unwrap_err();
    assert_eq!(again, Refused::LeasedBefore { state: "doing".into() }, "its timeout is running");
    life.answer(Ok("null")).unwrap();
    assert_eq!(life.state(), "done");
    assert_eq!(life.lease().unwrap_err(), Refused::Late { state: "done".into() });
}

#[test]
fn leased_attempt_times_out_and_is_offered_again() {
    let performer = Performer::Worker { queue: "errands".to_owned() };
    let mut life = Life::of(doing(performer, Retry::fixed(1, Duration::from_secs(5))));
    life.tell(start()).unwrap();
    life.lease().unwrap();
    let Instance { entry, token, .. } = *life.stands();
    let stale = Input::WorkerTimedOut { entry, attempt: 1, token: token + 1 };
    assert_eq!(life.tell(stale).unwrap_err(), Refused::Late { state: "doing".into() });
    let again = life.worker_times_out().unwrap();
    let Event::ActionRetry { error, .. } = &again.events[0].event else { panic!("{again:?}") };
    assert_eq!((error.kind, again.offer.unwrap().attempt), (ErrorKind::TimedOut, 2));
    life.lease().unwrap();
    life.worker_times_out().unwrap();
    assert_eq!(life.state(), "failed");
}

#[test]
fn queue_timeout_ends_the_wait_for_a_worker() {
    let performer = Performer::Worker { queue: "errands".to_owned() };
    let mut draft = doing(performer, Retry::fixed(1, Duration::from_secs(5))).draft().clone();
    draft.actions.get_mut("doing").unwrap().queue_timeout = Some(Duration::from_secs(30));
    let mut life = Life::of(draft.check().unwrap());
    let begun = life.tell(start()).unwrap();
    assert_eq!(begun.instance.due_at, Some(at(1).plus(Duration::from_secs(30))));
    let again = life.worker_times_out().unwrap();
    let Event::ActionRetry { error, retry_at, .. } = &again.events[0].event else { panic!("{again:?}") };
    assert_eq!(error.code.as_deref(), Some("QUEUE_TIMEOUT"));
    assert!(!error.kind.leaves_doubt(), "it has not begun");
    assert_eq!(again.instance.due_at, Some(retry_at.plus(Duration::from_secs(30))));
    life.worker_times_out().unwrap();
    assert_eq!(life.state(), "failed");
}

#[test]
fn transition_from_outside_wins_over_a_running_action() {
    let mut life = begun();
    life.tell(to("awaiting_github")).unwrap();
    assert_eq!((life.state(), life.stands().due_at), ("awaiting_github", None));
}

#[test]
fn a_clock_that_was_set_back_holds_no_action_up() {
    let mut life = begun();
    life.now = -3600;
    let moved = life.answer(Ok("null")).unwrap();
    assert_eq!(moved.instance.due_at, Some(at(-3599)), "by the clock, not by the log");
    assert_eq!(moved.instance.entered_at, at(1), "by the log, not by the clock");
    let error = StepError::not_done("busy");
    let again = life.answer(Err(error)).unwrap();
    let wait = again.instance.due_at.unwrap().since(at(-3598));
    assert!(wait <= Duration::from_secs(5), "{wait:?}");
}

#[test]
fn stored_error_drops_unstorable_parts() {
    let mut life = begun();
    let error = StepError::refused("x".repeat(10_000) + "\u{e9}").with_code("a\0b");
    let failed = life.answer(Err(error)).unwrap();
    let message = failed.instance.failure.unwrap().message;
    assert!(message.starts_with("a\u{fffd}b: xxx"), "{message}");
    assert_eq!(message.chars().count(), MAX_MESSAGE);
}

#[test]
fn instance_is_stuck_after_its_states_limit() {
    let mut draft = driven_site();
    let minute = Duration::from_secs(60);
    draft.stuck_after.insert("vercel_creating".to_owned(), Allowed(minute));
    let mut life = Life::of(draft.check().unwrap());
    life.tell(start()).unwrap();
    assert_eq!(life.stands().stuck_at(&life.machine), None, "this state may last");
    life.answer(Ok("null")).unwrap();
    let came = at(life.now);
    life.answer(Err(StepError::not_done("try later"))).unwrap();
    assert_eq!(life.state(), "vercel_creating");
    assert_eq!(life.stands().stuck_at(&life.machine), Some(came.plus(minute)), "trying again is no progress");
}
