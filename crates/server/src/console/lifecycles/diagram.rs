//! A machine drawn: its states, what may follow what, and how many stand where.

use std::collections::BTreeSet;

use backstitch_modules::lifecycles::{Count, Kind, Machine};

use super::machine_place;
use crate::console::address::address;
use crate::console::drawing::{Drawing, Spot};
use crate::console::parts::{Mood, capped};

const TOLD: &str = "States and what may follow what; the table below says the same in words";

/// The state of what could not be done.
pub(super) const FAILED: &str = "failed";
/// Instances of a state that are counted; more are as many.
pub(super) const COUNTED: usize = 10_000;

/// The drawing; nothing where there are too many states to be seen. A state that is given is the one where something stands.
pub(super) fn drawn(machine: &Machine, counts: &[Count], here: Option<&str>) -> Option<Drawing> {
    let states: Vec<(&str, &Kind)> = machine.states().collect();
    let at = |state: &str| states.iter().position(|(known, _)| *known == state);
    // Nearly everything may fail: one line says so, and the states say it themselves.
    let last_to_fail = states.iter().rposition(|(state, _)| machine.can_fail(state));
    let mut edges = BTreeSet::new();
    for (from, (state, kind)) in states.iter().enumerate() {
        let follows = machine.follows(state).filter(|to| *to != FAILED || last_to_fail == Some(from));
        edges.extend(follows.filter_map(at).map(|to| (from, to)));
        if let Kind::Pause(again) = kind {
            edges.extend(at(again).map(|to| (from, to)));
        }
    }
    let spots = states.iter().map(|(state, kind)| spot(machine, state, kind, counts, here));
    Drawing::of(TOLD, spots.collect(), &edges.into_iter().collect::<Vec<_>>())
}

fn spot(machine: &Machine, state: &str, kind: &Kind, counts: &[Count], here: Option<&str>) -> Spot {
    let count = counts.iter().find(|count| count.state == state).map_or(0, |count| count.count);
    let (word, shape, mood) = look(kind, state);
    let word = if machine.can_fail(state) { "goes on, or fails" } else { word };
    let (word, mood) = match here {
        Some(here) if here == state => (format!("{word}, here"), Mood::Busy),
        None if count > 0 => (format!("{} · {word}", capped(count, COUNTED)), mood),
        Some(_) | None => (word.to_owned(), Mood::Quiet),
    };
    let place = address(&machine_place(machine.name()), &[("state", Some(state))]);
    Spot { name: state.to_owned(), word, shape, mood, place: here.is_none().then_some(place) }
}

/// What kind of state it is: a word, a shape, a mood.
pub(super) fn look(kind: &Kind, state: &str) -> (&'static str, &'static str, Mood) {
    match kind {
        Kind::Terminal if state == FAILED => ("given up", "✕", Mood::Bad),
        Kind::Terminal => ("end", "✓", Mood::Good),
        Kind::Pause(_) => ("waits for a start", "‖", Mood::Waiting),
        Kind::Passing => ("goes on", "▶", Mood::Busy),
    }
}
