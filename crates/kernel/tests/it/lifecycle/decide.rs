//! Start, transition and fail as requests from outside.

use backstitch_kernel::Payload;
use backstitch_kernel::lifecycle::{Event, Failure, Given, Input, Refused};

use crate::lifecycle::support::{Life, PATH, at, fail, machine, start, start_as, to};

#[test]
fn the_happy_path_goes_from_requested_to_live() {
    let mut life = Life::of(machine());
    let begun = life.tell(start()).unwrap();
    assert_eq!((begun.from, &*begun.instance.state, begun.instance.attempt), (None, "requested", 1));
    for pair in PATH.windows(2) {
        let moved = life.tell(to(pair[1])).unwrap();
        assert_eq!(moved.from.as_deref(), Some(pair[0]), "the previous state is captured");
        assert_eq!(&*moved.instance.state, pair[1]);
    }
    assert_eq!(life.log.len(), PATH.len(), "one event a change: seven transitions after the start");
}

#[test]
fn a_start_counts_attempts_and_leaves_the_state() {
    for state in PATH.iter().filter(|state| **state != "live") {
        let mut life = Life::standing_in(state);
        let before = life.stands().clone();
        let again = life.tell(start()).unwrap();
        assert_eq!((&*again.instance.state, again.instance.attempt), (*state, 2));
        assert_eq!((again.instance.entry, again.instance.entered_at), (before.entry, before.entered_at));
        assert_eq!(life.tell(start()).unwrap().instance.attempt, 3);
    }
}

#[test]
fn start_in_a_pause_state_continues_in_the_declared_state() {
    let mut life = Life::standing_in("awaiting_github");
    let again = life.tell(start()).unwrap();
    assert_eq!(
        (again.from.as_deref(), &*again.instance.state),
        (Some("awaiting_github"), "source_resolving")
    );
    assert_eq!(again.instance.attempt, 2);
    let names: Vec<&str> = again.events.iter().map(|recorded| recorded.event.name()).collect();
    assert_eq!(names, ["lifecycle.restarted", "lifecycle.transitioned"]);
}

#[test]
fn a_pause_state_is_no_end() {
    let life = Life::standing_in("awaiting_github");
    assert!(!life.machine.is_terminal("awaiting_github"));
    let ends: Vec<&str> =
        life.machine.states().map(|(name, _)| name).filter(|name| life.machine.is_terminal(name)).collect();
    assert_eq!(ends, ["live", "failed"], "these two and no other");
}

#[test]
fn nothing_leads_out_of_a_pause_state_but_a_start() {
    let mut life = Life::standing_in("awaiting_github");
    let refused = life.tell(to("source_resolving")).unwrap_err();
    assert!(matches!(refused, Refused::WaitsForStart { .. }), "{refused}");
    assert!(refused.to_string().contains("start"));
}

#[test]
fn nothing_changes_an_end() {
    for end in ["live", "failed"] {
        let mut life = Life::standing_in(end);
        let before = life.stands().clone();
        for input in
            [start(), to("source_resolving"), to("live"), fail("internal"), to("nowhere"), fail("odd")]
        {
            let refused = life.tell(input).unwrap_err();
            assert_eq!(refused, Refused::Ended { state: end.into() });
            assert!(refused.to_string().starts_with("no non-terminal row to transition"), "{refused}");
        }
        assert_eq!(*life.stands(), before);
    }
}

#[test]
fn the_first_correlation_id_wins() {
    let mut life = Life::of(machine());
    life.tell(start_as("first")).unwrap();
    life.tell(start_as("second")).unwrap();
    assert_eq!(life.stands().given.correlation_id.as_deref(), Some("first"));
}

#[test]
fn later_correlation_id_is_kept_if_none_exists() {
    let mut life = Life::of(machine());
    life.tell(start()).unwrap();
    life.tell(start_as("second")).unwrap();
    life.tell(start_as("third")).unwrap();
    assert_eq!(life.stands().given.correlation_id.as_deref(), Some("second"));
}

#[test]
fn the_newest_input_counts() {
    let input =
        |text: &str| Input::Start(Given { correlation_id: None, input: Some(Payload::parse(text).unwrap()) });
    let mut life = Life::of(machine());
    life.tell(input("1")).unwrap();
    life.tell(input("2")).unwrap();
    life.tell(start()).unwrap();
    assert_eq!(life.stands().given.input.as_ref().unwrap().as_str(), "2");
}

#[test]
fn a_failure_is_kept_with_its_kind() {
    for kind in ["github_api", "vercel_api", "no_github_token", "quota_exceeded", "internal"] {
        let mut life = Life::standing_in("vercel_creating");
        let failed = life.tell(fail(kind)).unwrap();
        let failure = Failure { kind: kind.to_owned(), message: "it broke".to_owned() };
        assert_eq!((&*failed.instance.state, failed.instance.failure), ("failed", Some(failure)));
    }
}

#[test]
fn only_states_that_can_fail_do() {
    for state in ["source_resolved", "vercel_created", "hook_created", "awaiting_github"] {
        let mut life = Life::standing_in(state);
        assert_eq!(life.tell(fail("internal")).unwrap_err(), Refused::CannotFail { from: state.into() });
        assert!(matches!(life.tell(to("failed")).unwrap_err(), Refused::NoEdge { .. }));
    }
    for state in ["requested", "source_resolving", "vercel_creating", "hook_creating"] {
        assert_eq!(&*Life::standing_in(state).tell(fail("internal")).unwrap().instance.state, "failed");
    }
}

#[test]
fn a_transition_to_failed_leaves_the_error_as_it_is() {
    let mut life = Life::standing_in("hook_creating");
    let failed = life.tell(to("failed")).unwrap();
    assert_eq!((&*failed.instance.state, failed.instance.failure), ("failed", None));
    assert!(matches!(failed.events[0].event, Event::Transitioned { .. }));
}

#[test]
fn an_unknown_kind_is_refused_by_name() {
    let refused = Life::standing_in("requested").tell(fail("weather")).unwrap_err();
    assert_eq!(refused, Refused::UnknownErrorKind("weather".to_owned()));
}

#[test]
fn undeclared_state_is_refused_with_the_declared_ones() {
    let mut life = Life::standing_in("source_resolving");
    let refused = life.tell(to("live")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "nothing leads from `source_resolving` to `live`: choose from awaiting_github, failed, source_resolved"
    );
    assert_eq!(life.tell(to("moon")).unwrap_err(), Refused::UnknownState("moon".to_owned()));
}

#[test]
fn transition_to_the_current_state_is_refused() {
    let mut life = Life::standing_in("vercel_created");
    let refused = life.tell(to("vercel_created")).unwrap_err();
    assert_eq!(refused, Refused::SameState { state: "vercel_created".into() });
}

#[test]
fn nothing_moves_that_was_never_started() {
    for input in [to("source_resolving"), fail("internal")] {
        assert_eq!(Life::of(machine()).tell(input).unwrap_err(), Refused::NeverStarted);
    }
}

#[test]
fn transition_data_is_in_the_log() {
    let mut life = Life::standing_in("requested");
    let data = Payload::parse("{\"repo\":\"docs\"}").unwrap();
    let moved = Input::Transition { to: "source_resolving".to_owned(), data: Some(data.clone()) };
    let decision = life.tell(moved).unwrap();
    let Event::Transitioned { data: kept, .. } = &decision.events[0].event else { panic!("no transition") };
    assert_eq!(kept.as_ref(), Some(&data));
}

#[test]
fn a_clock_that_goes_back_does_not_turn_the_log_around() {
    let mut life = Life::standing_in("vercel_created");
    life.now = -100;
    let moved = life.tell(to("hook_creating")).unwrap();
    assert!(moved.events[0].at >= at(1));
    assert!(backstitch_kernel::lifecycle::audit(&life.machine, &life.log).is_empty());
}
