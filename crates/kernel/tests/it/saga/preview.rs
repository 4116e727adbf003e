//! Previews of a cancel.

use crate::saga::support::{Change, Play, SAGA, graph, sequence};
use backstitch_kernel::saga::{Preview, preview};
use backstitch_kernel::{ErrorKind, StepId};

fn said(saga: &Play) -> Preview {
    preview(&saga.definition, SAGA, &saga.state).unwrap_or_else(|| panic!("it can be cancelled"))
}

fn told(preview: &Preview) -> [String; 3] {
    let names = |steps: &[StepId]| steps.iter().map(StepId::as_str).collect::<Vec<_>>().join(" ");
    [names(&preview.awaited), names(&preview.undone), names(&preview.kept)]
}

#[test]
fn preview_undoes_in_reverse_and_awaits_running_steps() {
    let mut saga = Play::start(sequence(&["a", "b", "c", "d"]));
    assert_eq!(told(&said(&saga)), ["a", "a", ""]);
    saga.done("a");
    saga.done("b");
    assert_eq!(told(&said(&saga)), ["c", "c b a", ""]);
}

#[test]
fn a_long_or_wide_saga_is_previewed_to_its_first_step() {
    let names: Vec<String> = (0..30).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut saga = Play::start(sequence(&names));
    for name in &names[..29] {
        saga.done(name);
    }
    let backwards: Vec<&str> = names.iter().rev().copied().collect();
    assert_eq!(told(&said(&saga)), ["s29".to_owned(), backwards.join(" "), String::new()]);
    let wide: Vec<(&str, &[&str])> = names.iter().map(|name| (*name, &[] as &[&str])).collect();
    let all = said(&Play::start(graph(&wide)));
    assert_eq!((all.awaited.len(), all.undone.len()), (30, 30), "each is awaited and then undone");
}

#[test]
fn step_without_compensation_is_kept() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]).without_undo("b").without_undo("c"));
    saga.done("a");
    saga.done("b");
    assert_eq!(told(&said(&saga)), ["c", "a", "b c"]);
}

#[test]
fn branches_are_undone_by_end_and_dependency() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b"])];
    let mut saga = Play::start(graph(steps));
    saga.done("a");
    saga.done("c");
    saga.done("b");
    assert_eq!(told(&said(&saga)), ["d", "d b c a", ""]);
}

#[test]
fn a_failed_attempt_that_waits_to_be_repeated_is_not_awaited() {
    let mut saga = Play::start(sequence(&["a", "b"]).retrying("b", 3));
    saga.done("a");
    saga.fails("b", ErrorKind::Failed);
    assert_eq!(told(&said(&saga)), ["", "a", ""], "it has done nothing");
}

#[test]
fn step_in_doubt_is_undone_too() {
    let mut saga = Play::start(sequence(&["a", "b"]).retrying("b", 3));
    saga.done("a");
    saga.fails("b", ErrorKind::InDoubt);
    assert_eq!(told(&said(&saga)), ["", "b a", ""]);
}

#[test]
fn one_that_is_paused_is_previewed_as_if_it_went_on() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]));
    saga.done("a");
    saga.pause();
    saga.done("b");
    assert_eq!(told(&said(&saga)), ["", "b a", ""]);
}

#[test]
fn ended_or_compensating_saga_has_no_preview() {
    let mut saga = Play::start(sequence(&["a"]));
    saga.cancel();
    assert_eq!(preview(&saga.definition, SAGA, &saga.state), None);
    let mut over = Play::start(sequence(&["a"]));
    over.done("a");
    assert_eq!(preview(&over.definition, SAGA, &over.state), None);
}
