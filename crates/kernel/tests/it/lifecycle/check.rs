//! Invalid machines and their errors.

use std::time::Duration;

use backstitch_kernel::lifecycle::draft::{Allowed, MAX_EDGES, MAX_ERROR_KINDS, MAX_STATES};
use backstitch_kernel::lifecycle::{Draft, DraftAction};
use backstitch_kernel::{Performer, Retry};

use crate::lifecycle::support::{call, driven_site, site};

fn problems(change: impl FnOnce(&mut Draft)) -> Vec<String> {
    let mut draft = site();
    change(&mut draft);
    told(draft)
}

fn told(draft: Draft) -> Vec<String> {
    let found = draft.check().err().map(|problems| problems.0).unwrap_or_default();
    found.into_iter().map(|problem| format!("{}: {}", problem.place, problem.message)).collect()
}

#[track_caller]
fn assert_told(problems: &[String], expected: &[&str]) {
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.contains(expected), "{problem:?} does not say {expected:?}");
    }
}

fn edge(from: &str, to: &str) -> (String, String) {
    (from.to_owned(), to.to_owned())
}

#[test]
fn the_machines_of_the_seed_make_sense() {
    assert!(told(site()).is_empty());
    assert!(told(driven_site()).is_empty());
}

#[test]
fn absent_fields_have_defaults() {
    let draft: Draft = serde_json::from_str(
        r#"{"name": "m", "states": ["a", "b"], "initial": "a", "terminal": ["b"], "edges": [["a", "b"]],
            "actions": {"a": {"next": {"ok": "b"}}}}"#,
    )
    .unwrap();
    assert_eq!((draft.version, draft.actions["a"].timeout), (1, Duration::from_secs(60)));
    assert_eq!(draft.actions["a"].retry, Retry::fixed(2, Duration::from_secs(5)));
}

#[test]
fn only_a_pause_state_has_a_pause_that_expires() {
    let hour = Allowed(Duration::from_secs(3600));
    let found = problems(|draft| {
        for state in ["nowhere", "live", "requested", "awaiting_github"] {
            draft.pause_expires.insert(state.to_owned(), hour);
        }
        draft.pause_expires.insert("hook_created".to_owned(), Allowed(Duration::ZERO));
    });
    let expected = [
        "pause_expires.hook_created: `hook_created` is no pause state: add it to `pause`",
        "pause_expires.hook_created: is zero",
        "pause_expires.live: `live` is no pause state",
        "pause_expires.nowhere: `nowhere` is no state",
        "pause_expires.requested: `requested` is no pause state",
    ];
    assert_told(&found, &expected);
}

#[test]
fn a_machine_is_known_by_its_name_version_and_topics() {
    let mut draft = site();
    draft.version = 7;
    let machine = draft.check().unwrap();
    assert_eq!((machine.name(), machine.version()), ("site-provisioning", 7));
    assert_eq!(machine.topic("live"), "lifecycles.site-provisioning.live");
    let draft = Draft { subject: Some("sites.made".to_owned()), ..site() };
    assert_eq!(draft.check().unwrap().topic("live"), "sites.made.live");
}

#[test]
fn all_errors_are_reported_together() {
    let found = problems(|draft| {
        draft.name = "site provisioning".to_owned();
        draft.version = 0;
        draft.initial = "nowhere".to_owned();
        draft.terminal.push("heaven".to_owned());
        draft.edges.push(edge("live", "moon"));
        draft.can_fail.push("mars".to_owned());
        draft.error_kinds.push("ok".to_owned());
        draft.pause.insert("venus".to_owned(), "pluto".to_owned());
        draft.actions.insert("saturn".to_owned(), DraftAction::passing_to("live"));
        draft.stuck_after.insert("uranus".to_owned(), Allowed(Duration::from_secs(1)));
    });
    let expected = [
        "name: contains ' '",
        "version: versions count from 1",
        "initial: `nowhere` is no state",
        "terminal[1]: `heaven` is no state",
        "can_fail[4]: `mars` is no state",
        "pause.venus: `venus` is no state",
        "pause.venus: `pluto` is no state",
        "edges[8]: `moon` is no state",
        "edges[8]: leads out of `live`, which is terminal: leave it out",
        "error_kinds[5]: `ok` is what an answer without an error is called",
        "actions.saturn: `saturn` is no state",
        "stuck_after.uranus: `uranus` is no state",
    ];
    assert_told(&found, &expected);
}

#[test]
fn unreachable_and_dead_end_states_are_named() {
    let found = problems(|draft| {
        draft.states.extend(["island", "pit"].map(str::to_owned));
        draft.edges.push(edge("island", "live"));
        draft.edges.push(edge("requested", "pit"));
    });
    assert_told(
        &found,
        &["states[9]: nothing leads to `island`", "states[10]: `pit` leads to no terminal state"],
    );
}

#[test]
fn a_ring_without_a_way_out_is_a_dead_end() {
    let found = problems(|draft| {
        draft.states.extend(["a", "b"].map(str::to_owned));
        draft.edges.extend([edge("requested", "a"), edge("a", "b"), edge("b", "a")]);
    });
    assert_told(&found, &["`a` leads to no terminal state", "`b` leads to no terminal state"]);
}

#[test]
fn names_are_listed_once() {
    let found = problems(|draft| {
        draft.states.push("live".to_owned());
        draft.terminal.push("live".to_owned());
        draft.can_fail.push("requested".to_owned());
        draft.edges.push(edge("requested", "source_resolving"));
        draft.error_kinds.push("internal".to_owned());
    });
    let expected = ["states[9]: `live`", "terminal[1]", "can_fail[4]", "edges[8]", "error_kinds[5]"];
    assert_told(&found, &expected);
}

#[test]
fn ends_stay_ends() {
    let found = problems(|draft| {
        draft.edges.push(edge("failed", "requested"));
        draft.can_fail.push("live".to_owned());
        draft.pause.insert("live".to_owned(), "requested".to_owned());
        draft.actions.insert("failed".to_owned(), DraftAction::passing_to("requested"));
        draft.stuck_after.insert("live".to_owned(), Allowed(Duration::from_secs(1)));
    });
    let expected = [
        "can_fail[4]: `live` is terminal",
        "pause.live: `live` is terminal",
        "edges[8]: leads out of `failed`",
        "actions.failed: `failed` is terminal",
        "stuck_after.live: `live` is terminal",
    ];
    assert_told(&found, &expected);
}

#[test]
fn initial_state_is_neither_terminal_nor_a_pause() {
    assert_told(&problems(|draft| draft.initial = "live".to_owned()), &["initial: `live` is terminal"]);
    let paused = problems(|draft| draft.initial = "awaiting_github".to_owned());
    assert_told(&paused, &["initial: `awaiting_github` is a pause state"]);
}

#[test]
fn pause_continues_in_another_state() {
    let to = |again: &'static str| {
        problems(|draft| drop(draft.pause.insert("awaiting_github".to_owned(), again.to_owned())))
    };
    assert_told(&to("awaiting_github"), &["a start would wait again"]);
    assert_told(&to("live"), &["a start would end the instance"]);
}

#[test]
fn an_edge_leads_to_another_state() {
    let found = problems(|draft| draft.edges.push(edge("requested", "requested")));
    assert_told(&found, &["edges[8]: leads from `requested` to itself"]);
}

#[test]
fn topics_end_in_a_state_so_a_state_has_no_dot() {
    let found = problems(|draft| {
        draft.states.push("a.b".to_owned());
        draft.edges.extend([edge("requested", "a.b"), edge("a.b", "live")]);
        draft.subject = Some("sites..x".to_owned());
    });
    assert_told(&found, &["subject: has an empty part", "states[9]: contains '.'"]);
}

#[test]
fn a_subject_is_none_of_the_engines_topics() {
    for subject in ["backstitch", "backstitch.alerts"] {
        let found = problems(|draft| draft.subject = Some(subject.to_owned()));
        assert_told(&found, &["subject: begins with `backstitch`"]);
    }
}

#[test]
fn an_action_says_where_its_answers_lead() {
    let found = problems(|draft| {
        let mut silent = DraftAction::performed_by(call(), "source_resolved");
        silent.next.clear();
        draft.actions.insert("source_resolving".to_owned(), silent);
        let odd = DraftAction::performed_by(call(), "live").on_error("weather", "vercel_created");
        draft.actions.insert("vercel_creating".to_owned(), odd);
        let passing = DraftAction::passing_to("source_resolving").on_error("internal", "failed");
        draft.actions.insert("requested".to_owned(), passing);
        draft.actions.insert("awaiting_github".to_owned(), DraftAction::passing_to("source_resolving"));
    });
    let expected = [
        "actions.awaiting_github: `awaiting_github` waits for a start",
        "actions.awaiting_github.next.ok: nothing leads from `awaiting_github` to `source_resolving`",
        "actions.requested.next.internal: nothing is done in this state",
        "actions.source_resolving.next: says nothing of `ok`",
        "actions.vercel_creating.next.ok: nothing leads from `vercel_creating` to `live`",
        "actions.vercel_creating.next.weather: `weather` is no error kind",
    ];
    assert_told(&found, &expected);
}

#[test]
fn action_with_undeclared_errors_needs_a_state_that_can_fail() {
    let found = problems(|draft| {
        let action = DraftAction::performed_by(call(), "vercel_creating").on_error("internal", "failed");
        draft.actions.insert("source_resolved".to_owned(), action);
    });
    let expected = [
        "actions.source_resolved.next.internal: nothing leads from `source_resolved` to `failed`: add it to `can_fail`",
        "actions.source_resolved: an error of the kind `github_api` leads to `failed`, and `source_resolved` cannot fail",
    ];
    assert_told(&found, &expected);
}

#[test]
fn every_kind_led_elsewhere_needs_no_failure() {
    let found = problems(|draft| {
        draft.edges.push(edge("source_resolved", "requested"));
        let mut action = DraftAction::performed_by(call(), "vercel_creating");
        for kind in &draft.error_kinds {
            action = action.on_error(kind, "requested");
        }
        draft.actions.insert("source_resolved".to_owned(), action);
    });
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn passed_states_form_no_cycle() {
    let found = problems(|draft| {
        draft.edges.push(edge("source_resolving", "requested"));
        draft.actions.insert("requested".to_owned(), DraftAction::passing_to("source_resolving"));
        draft.actions.insert("source_resolving".to_owned(), DraftAction::passing_to("requested"));
    });
    assert_told(
        &found,
        &["actions: go round in a circle without anything being done (`requested` → `source_resolving`"],
    );
}

#[test]
fn a_ring_with_something_to_do_in_it_is_none() {
    let found = problems(|draft| {
        draft.edges.push(edge("source_resolving", "requested"));
        draft.actions.insert("requested".to_owned(), DraftAction::passing_to("source_resolving"));
        draft.actions.insert("source_resolving".to_owned(), DraftAction::performed_by(call(), "requested"));
    });
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn times_and_queues_are_looked_at() {
    let found = problems(|draft| {
        let mut action =
            DraftAction::performed_by(Performer::Worker { queue: String::new() }, "source_resolved");
        action.timeout = Duration::ZERO;
        action.retry = Retry::fixed(5000, Duration::from_secs(1));
        draft.actions.insert("source_resolving".to_owned(), action);
        draft.stuck_after.insert("requested".to_owned(), Allowed(Duration::ZERO));
    });
    let expected = [
        "actions.source_resolving.worker.queue: is empty",
        "actions.source_resolving.timeout: is zero",
        "actions.source_resolving.retry.count: is 5000",
        "stuck_after.requested: is zero",
    ];
    assert_told(&found, &expected);
}

#[test]
fn sizes_have_limits() {
    let found = problems(|draft| {
        draft.states.extend((0..300).map(|number| format!("s{number}")));
        draft.edges.extend((0..3000).map(|number| edge("requested", &format!("s{}", number % 300))));
        draft.error_kinds.extend((0..200).map(|number| format!("k{number}")));
    });
    for limit in ["states: has 309 states; the limit is 200", "edges: has 3008", "error_kinds: has 205"] {
        assert!(found.iter().any(|problem| problem.contains(limit)), "nothing says {limit:?}");
    }
}

#[test]
fn as_much_as_the_limits_say_is_not_too_much() {
    let found = problems(|draft| {
        let fill = |all: &mut Vec<String>, what: &str, most: usize| {
            all.extend((all.len()..most).map(|number| format!("{what}{number}")));
        };
        fill(&mut draft.states, "s", MAX_STATES);
        fill(&mut draft.error_kinds, "e", MAX_ERROR_KINDS);
        let pairs = (0..MAX_STATES).flat_map(|one| (0..MAX_STATES).map(move |other| (one, other)));
        let pairs = pairs.filter(|(one, other)| one != other && *one > 20 && *other > 20);
        let edges = pairs.map(|(one, other)| edge(&format!("s{one}"), &format!("s{other}")));
        draft.edges.extend(edges.take(MAX_EDGES - draft.edges.len()));
        assert_eq!((draft.states.len(), draft.error_kinds.len()), (MAX_STATES, MAX_ERROR_KINDS));
        assert_eq!(draft.edges.len(), MAX_EDGES);
    });
    assert!(found.iter().all(|problem| !problem.contains("the limit is")), "{found:#?}");
}

#[test]
fn a_machine_without_states_is_none() {
    let mut draft = Draft::new("empty", "");
    draft.states.clear();
    assert_told(&told(draft), &["states: is empty", "initial: `` is no state"]);
}

#[test]
fn unknown_state_of_a_loop_is_reported_once() {
    let found = problems(|draft| draft.edges.push(edge("moon", "moon")));
    let reported = found.iter().filter(|problem| problem.contains("`moon` is no state")).count();
    assert_eq!(reported, 1, "{found:#?}");
}
