//! Pause states that end without a transition: by an operator, or because they expire.

use backstitch_kernel::lifecycle::{AbandonReason, Event, Input, Instance, Refused, audit};

use crate::lifecycle::support::{Life, PATH, PAUSE, abandon, at, expiring, fail, start, to};

/// A site that waits for GitHub, in a machine with an expiring pause.
fn paused() -> Life {
    Life::of(expiring()).brought_to("awaiting_github")
}

fn expired(life: &Life) -> Input {
    Input::PauseExpired { entry: life.stands().entry }
}

#[test]
fn an_operator_ends_an_instance_in_its_pause_state() {
    let mut life = Life::standing_in("awaiting_github");
    let before = life.stands().clone();
    let abandoned = life.tell(abandon()).unwrap();
    let reason = AbandonReason::Requested { note: "the owner left".to_owned() };
    let [recorded] = &abandoned.events[..] else { panic!("{:?}", abandoned.events) };
    assert_eq!(recorded.event, Event::Abandoned { state: "awaiting_github".into(), attempt: 1, reason });
    let after = &abandoned.instance;
    assert_eq!(
        (&*after.state, after.entry, after.entered_at),
        ("awaiting_github", before.entry, before.entered_at)
    );
    assert!(after.abandoned && after.has_ended(&life.machine));
    assert!(!life.machine.is_terminal("awaiting_github"), "the state itself is no end");
    assert!(audit(&life.machine, &life.log).is_empty());
}

#[test]
fn abandoning_adds_no_edge_to_the_machine() {
    let machine = Life::standing_in("awaiting_github").machine;
    assert_eq!(machine.follows("awaiting_github").count(), 0);
    assert_eq!(machine.diagram(), expiring().diagram());
}

#[test]
fn nothing_changes_an_abandoned_instance() {
    let mut life = paused();
    life.tell(abandon()).unwrap();
    let before = life.stands().clone();
    for input in [start(), to("source_resolving"), to("awaiting_github"), fail("internal"), abandon()] {
        let refused = life.tell(input).unwrap_err();
        assert_eq!(refused, Refused::Abandoned { state: "awaiting_github".into() });
    }
    let late = expired(&life);
    assert_eq!(life.tell(late).unwrap_err(), Refused::Late { state: "awaiting_github".into() });
    assert_eq!(*life.stands(), before);
}

#[test]
fn only_a_pause_state_can_be_abandoned() {
    for state in PATH.iter().filter(|state| **state != "live") {
        let refused = Life::standing_in(state).tell(abandon()).unwrap_err();
        assert_eq!(refused, Refused::NotPaused { state: (*state).into() });
    }
    for end in ["live", "failed"] {
        let refused = Life::standing_in(end).tell(abandon()).unwrap_err();
        assert_eq!(refused, Refused::Ended { state: end.into() });
    }
    assert_eq!(Life::of(expiring()).tell(abandon()).unwrap_err(), Refused::NeverStarted);
}

#[test]
fn a_pause_without_a_limit_is_never_due() {
    let mut life = Life::standing_in("awaiting_github");
    assert_eq!(life.stands().due_at, None);
    let expired = expired(&life);
    assert_eq!(life.tell(expired).unwrap_err(), Refused::Late { state: "awaiting_github".into() });
}

#[test]
fn a_pause_that_expires_abandons_its_instance() {
    let mut life = paused();
    assert_eq!(life.stands().due_at, Some(at(life.now + PAUSE)));
    life.now += PAUSE;
    let expired = expired(&life);
    let abandoned = life.tell(expired).unwrap();
    let Event::Abandoned { reason, .. } = &abandoned.events[0].event else { panic!("it was not abandoned") };
    assert_eq!((reason.name(), reason.note()), ("expired", None));
    assert_eq!((abandoned.instance.abandoned, abandoned.instance.due_at), (true, None));
    assert!(audit(&life.machine, &life.log).is_empty());
}

#[test]
fn a_start_before_the_limit_wins() {
    let mut life = paused();
    let first = expired(&life);
    life.tell(start()).unwrap();
    assert_eq!(life.tell(first.clone()).unwrap_err(), Refused::Late { state: "source_resolving".into() });
    assert_eq!(life.stands().due_at, None, "the limit is gone with the pause");
    life.tell(to("awaiting_github")).unwrap();
    let refused = life.tell(first).unwrap_err();
    assert_eq!(refused, Refused::Late { state: "awaiting_github".into() }, "that pause is another");
    assert!(!life.stands().abandoned);
}

#[test]
fn an_abandoned_instance_is_not_stuck() {
    let mut draft = expiring().draft().clone();
    let hour = draft.pause_expires["awaiting_github"];
    draft.stuck_after.insert("awaiting_github".to_owned(), hour);
    let mut life = Life::of(draft.check().unwrap()).brought_to("awaiting_github");
    assert!(life.stands().stuck_at(&life.machine).is_some());
    life.tell(abandon()).unwrap();
    assert_eq!(life.stands().stuck_at(&life.machine), None);
}

#[test]
fn the_fold_of_an_abandoned_log_is_its_instance() {
    let mut life = paused();
    life.tell(abandon()).unwrap();
    assert_eq!(Instance::of(&life.machine, &life.log).as_ref(), life.instance.as_ref());
}
