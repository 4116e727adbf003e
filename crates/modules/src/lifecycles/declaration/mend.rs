//! The check of a machine of which a part could not be read. What only follows from the missing part is not told: the
//! author has not made that mistake.

use std::collections::HashSet;
use std::hash::Hash;
use std::iter::once;

use backstitch::kernel::lifecycle::{Draft, FAILED, INTERNAL, OK};
use backstitch::{Problem, Problems};

/// What makes no sense in what was read. The places of parts that were not read whole are told by `is_unread`.
pub(super) fn senseless(draft: &Draft, is_unread: impl Fn(&str) -> bool) -> Vec<Problem> {
    let mut mended = Mended { draft: draft.clone(), made_up: HashSet::new() };
    if is_unread("states") {
        mended.with_all_states();
    }
    if is_unread("pause") {
        mended.without_expiring_pauses();
    }
    if is_unread("error_kinds") {
        mended.with_all_error_kinds();
    }
    if is_unread("edges") {
        mended.with_all_edges();
    }
    if ["edges", "can_fail", "error_kinds", "actions"].into_iter().any(&is_unread) {
        mended.with_failures();
    }
    let mut found = mended.problems();
    // The kernel tells of an edge as a whole, also where one of its ends was not read.
    found.retain(|problem| !(problem.place.starts_with("edges[") && is_unread(&problem.place)));
    found
}

/// A machine with everything added that the rest of it presumes.
struct Mended {
    draft: Draft,
    /// Places that nobody has written.
    made_up: HashSet<String>,
}

impl Mended {
    fn with_all_states(&mut self) {
        let Draft { initial, terminal, can_fail, pause, edges, actions, stuck_after, pause_expires, .. } =
            &self.draft;
        let edges = edges.iter().flat_map(|(from, to)| [from, to]);
        let pauses = pause.iter().flat_map(|(state, again)| [state, again]);
        let actions = actions.iter().flat_map(|(state, action)| once(state).chain(action.next.values()));
        let ends = terminal.iter().chain(can_fail);
        let mentioned = once(initial).chain(ends).chain(edges).chain(pauses).chain(actions);
        let mentioned: Vec<String> =
            mentioned.chain(stuck_after.keys()).chain(pause_expires.keys()).cloned().collect();
        add("states", &mut self.draft.states, mentioned, &mut self.made_up);
    }

    /// Which states pause was not read, so nothing can be said about how long they do.
    fn without_expiring_pauses(&mut self) {
        let Draft { pause, pause_expires, .. } = &mut self.draft;
        pause_expires.retain(|state, _| pause.contains_key(state));
    }

    fn with_all_error_kinds(&mut self) {
        let answers = self.draft.actions.values().flat_map(|action| action.next.keys());
        let kinds = answers.filter(|answer| ![OK, INTERNAL].contains(&answer.as_str())).cloned();
        add("error_kinds", &mut self.draft.error_kinds, kinds, &mut self.made_up);
    }

    fn with_all_edges(&mut self) {
        let led = self.draft.actions.iter().flat_map(|(state, action)| {
            let others = action.next.values().filter(|next| *next != FAILED);
            others.map(|next| (state.clone(), next.clone()))
        });
        add("edges", &mut self.draft.edges, led, &mut self.made_up);
    }

    fn with_failures(&mut self) {
        let acting = self.draft.actions.keys().cloned();
        add("can_fail", &mut self.draft.can_fail, acting, &mut self.made_up);
    }

    fn problems(self) -> Vec<Problem> {
        // One mistake for certain: the kernel looks for ways through the machine only where there is none, and ways are
        // what a missing part takes away.
        let draft = Draft { version: 0, ..self.draft };
        let Err(Problems(mut found)) = draft.check() else { return Vec::new() };
        found.retain(|problem| problem.place != "version" && !self.made_up.contains(&problem.place));
        found
    }
}

fn add<T: Clone + Eq + Hash>(
    field: &str,
    list: &mut Vec<T>,
    more: impl IntoIterator<Item = T>,
    made_up: &mut HashSet<String>,
) {
    let mut known: HashSet<T> = list.iter().cloned().collect();
    for item in more {
        if known.insert(item.clone()) {
            made_up.insert(format!("{field}[{}]", list.len()));
            list.push(item);
        }
    }
}
