//! Validation: turns a draft into a machine, or lists every error.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::draft::{Draft, DraftAction, FAILED, INTERNAL, MAX_EDGES, MAX_ERROR_KINDS, MAX_STATES, OK};
use super::machine::{Kind, Machine, State};
use crate::mistakes::{Mistakes, Problems};
use crate::topic;

impl Draft {
    /// Validates the whole machine and computes the transitions.
    ///
    /// # Errors
    /// All errors together with their paths.
    pub fn check(self) -> Result<Machine, Problems> {
        let mut check = Check { draft: &self, mistakes: Mistakes::default(), known: HashSet::new() };
        check.head();
        check.states();
        check.ends();
        check.edges();
        check.errors();
        check.actions();
        check.times();
        // An unknown name would only make other states look unreachable.
        if check.mistakes.is_empty() {
            check.ways();
        }
        check.mistakes.none()?;
        Ok(self.assemble())
    }

    fn assemble(self) -> Machine {
        let names: BTreeSet<&str> = self.states.iter().map(String::as_str).chain([FAILED]).collect();
        let names: HashMap<&str, Arc<str>> = names.into_iter().map(|name| (name, Arc::from(name))).collect();
        let kept = |name: &str| names.get(name).cloned().unwrap_or_else(|| name.into());
        let states = names
            .values()
            .map(|name| {
                let kind = if self.ends(name) {
                    Kind::Terminal
                } else if let Some(again) = self.pause.get(&**name) {
                    Kind::Pause(kept(again))
                } else {
                    Kind::Passing
                };
                let next = self.follows(name).into_iter().map(kept).collect();
                (name.clone(), State { name: name.clone(), kind, next })
            })
            .collect();
        Machine { draft: self, states }
    }

    fn ends(&self, state: &str) -> bool {
        state == FAILED || self.terminal.iter().any(|end| end == state)
    }

    /// The states that a request may move to.
    fn follows(&self, state: &str) -> BTreeSet<&str> {
        let edges = self.edges.iter().filter(|(from, _)| from == state).map(|(_, to)| to.as_str());
        let failed = self.can_fail.iter().any(|name| name == state).then_some(FAILED);
        edges.chain(failed).collect()
    }
}

struct Check<'a> {
    draft: &'a Draft,
    mistakes: Mistakes,
    known: HashSet<&'a str>,
}

impl Check<'_> {
    fn problem(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.mistakes.problem(place, message);
    }

    /// A name that becomes the last part of a topic, so it must not contain a dot.
    fn token(&mut self, place: &str, name: &str) {
        if name.contains('.') {
            self.problem(place, "contains '.': use letters, digits, `-` and `_`, since topics end in it");
        } else {
            self.mistakes.id(place, name);
        }
    }

    fn head(&mut self) {
        let Draft { name, version, title, subject, .. } = self.draft;
        self.mistakes.id("name", name);
        self.mistakes.title("title", title.as_deref());
        if *version == 0 {
            self.problem("version", "versions count from 1");
        }
        if let Some(subject) = subject {
            self.mistakes.id("subject", subject);
            if subject.split('.').any(str::is_empty) {
                self.problem("subject", "has an empty part: write it like `sites.provisioning`");
            }
            if topic::is_reserved(&format!("{subject}.")) {
                self.problem(
                    "subject",
                    "begins with `backstitch`, whose topics are the engine's: choose another name",
                );
            }
        }
    }

    fn states(&mut self) {
        let states = &self.draft.states;
        if states.is_empty() {
            self.problem("states", "is empty: a machine needs at least one state");
        }
        if states.len() > MAX_STATES {
            self.problem(
                "states",
                format!(
                    "has {} states; the limit is {MAX_STATES}: make several machines of it",
                    states.len()
                ),
            );
        }
        for (position, state) in states.iter().enumerate() {
            let place = format!("states[{position}]");
            self.token(&place, state);
            if !self.known.insert(state) {
                self.problem(place, format!("`{state}` is listed twice: list it once"));
            }
        }
        self.known.insert(FAILED);
        let initial = &self.draft.initial;
        if self.is_known("initial", initial) && self.draft.ends(initial) {
            self.problem(
                "initial",
                format!("`{initial}` is terminal, and everything would be over as it begins: begin in another state"),
            );
        } else if self.draft.pause.contains_key(initial) {
            self.problem("initial", format!("`{initial}` is a pause state: choose another initial state"));
        }
    }

    /// Whether the state exists; reports an error otherwise.
    fn is_known(&mut self, place: &str, state: &str) -> bool {
        let known = self.known.contains(state);
        if !known {
            self.problem(place, format!("`{state}` is no state: add it to `states`"));
        }
        known
    }

    fn listed_once(&mut self, place: &str, names: &[String]) {
        let mut seen = HashSet::new();
        for (position, name) in names.iter().enumerate() {
            if !seen.insert(name) {
                self.problem(
                    format!("{place}[{position}]"),
                    format!("`{name}` is listed twice: list it once"),
                );
            }
        }
    }

    fn ends(&mut self) {
        let draft = self.draft;
        self.listed_once("terminal", &draft.terminal);
        for (position, state) in draft.terminal.iter().enumerate() {
            self.is_known(&format!("terminal[{position}]"), state);
        }
        self.listed_once("can_fail", &draft.can_fail);
        for (position, state) in draft.can_fail.iter().enumerate() {
            let place = format!("can_fail[{position}]");
            if self.is_known(&place, state) && draft.ends(state) {
                self.problem(place, format!("`{state}` is terminal, and nothing follows it: leave it out"));
            }
        }
        for (state, again) in &draft.pause {
            let place = format!("pause.{state}");
            let is_known = self.is_known(&place, state);
            if is_known && draft.ends(state) {
                self.problem(&place, format!("`{state}` is terminal, and nothing follows it: leave it out"));
            }
            // Each unknown state is reported once.
            if if again == state { is_known } else { self.is_known(&place, again) } {
                if draft.pause.contains_key(again) {
                    self.problem(
                        &place,
                        format!("a start would wait again in `{again}`: name a state that is no pause state"),
                    );
                } else if draft.ends(again) {
                    self.problem(
                        &place,
                        format!("`{again}` is terminal, so a start would end the instance: name a state that is not terminal"),
                    );
                }
            }
        }
    }

    fn edges(&mut self) {
        let draft = self.draft;
        if draft.edges.len() > MAX_EDGES {
            self.problem(
                "edges",
                format!(
                    "has {} edges; the limit is {MAX_EDGES}: make several machines of it",
                    draft.edges.len()
                ),
            );
        }
        let mut seen = HashSet::new();
        for (position, edge) in draft.edges.iter().enumerate() {
            let (from, to) = edge;
            let place = format!("edges[{position}]");
            let known = [from, to].map(|state| self.is_known(&place, state));
            if from == to {
                self.problem(&place, format!("leads from `{from}` to itself: leave it out"));
            }
            if known[0] && draft.ends(from) {
                self.problem(&place, format!("leads out of `{from}`, which is terminal: leave it out"));
            }
            if !seen.insert(edge) {
                self.problem(&place, format!("`{from}` → `{to}` is listed twice: list it once"));
            }
        }
    }

    fn errors(&mut self) {
        let kinds = &self.draft.error_kinds;
        if kinds.len() > MAX_ERROR_KINDS {
            self.problem(
                "error_kinds",
                format!(
                    "has {}; the limit is {MAX_ERROR_KINDS}: use one kind for what is dealt with alike",
                    kinds.len()
                ),
            );
        }
        self.listed_once("error_kinds", kinds);
        for (position, kind) in kinds.iter().enumerate() {
            let place = format!("error_kinds[{position}]");
            self.mistakes.id(&place, kind);
            if kind == OK {
                self.problem(place, "`ok` is what an answer without an error is called: choose another name");
            }
        }
    }

    fn actions(&mut self) {
        let draft = self.draft;
        for (state, action) in &draft.actions {
            let place = format!("actions.{state}");
            if !self.is_known(&place, state) {
                continue;
            }
            if draft.ends(state) {
                self.problem(
                    &place,
                    format!("`{state}` is terminal, and nothing is done there: leave it out"),
                );
            } else if draft.pause.contains_key(state) {
                self.problem(
                    &place,
                    format!("`{state}` waits for a start, and nothing is done there: leave it out"),
                );
            }
            self.answers(&place, state, action);
            if let Some(performer) = &action.performer {
                self.mistakes.performer(&place, performer);
                self.mistakes.timeout(&format!("{place}.timeout"), action.timeout);
                self.mistakes.queue_timeout(&place, performer, action.queue_timeout);
                self.mistakes.retry(&format!("{place}.retry"), &action.retry);
            }
        }
    }

    fn answers(&mut self, place: &str, state: &str, action: &DraftAction) {
        let draft = self.draft;
        if !action.next.contains_key(OK) {
            self.problem(format!("{place}.next"), "says nothing of `ok`: name the state that follows");
        }
        for (answer, to) in &action.next {
            let place = format!("{place}.next.{answer}");
            let is_kind = answer == INTERNAL || draft.error_kinds.contains(answer);
            if answer != OK && !is_kind {
                self.problem(
                    &place,
                    format!("`{answer}` is no error kind: add it to `error_kinds`, or use `ok`"),
                );
            } else if answer != OK && action.performer.is_none() {
                self.problem(&place, "nothing is done in this state, so it has no errors: leave it out");
            }
            if self.is_known(&place, to) && !draft.follows(state).contains(&**to) {
                let what = if to == FAILED { "`can_fail`" } else { "`edges`" };
                self.problem(&place, format!("nothing leads from `{state}` to `{to}`: add it to {what}"));
            }
        }
        let kinds = draft.error_kinds.iter().map(String::as_str).chain([INTERNAL]);
        let kinds: BTreeSet<&str> = kinds.filter(|kind| !action.next.contains_key(*kind)).collect();
        if let Some(kind) = kinds.first()
            && action.performer.is_some()
            && !draft.follows(state).contains(FAILED)
        {
            let message = format!(
                "an error of the kind `{kind}` leads to `failed`, and `{state}` cannot fail: add it to `can_fail`, or \
                 name in `next` where every kind leads"
            );
            self.problem(place, message);
        }
    }

    fn times(&mut self) {
        let draft = self.draft;
        for (state, allowed) in &draft.pause_expires {
            let place = format!("pause_expires.{state}");
            if self.is_known(&place, state) && !draft.pause.contains_key(state) {
                self.problem(
                    &place,
                    format!("`{state}` is no pause state: add it to `pause`, or leave it out"),
                );
            }
            self.mistakes.timeout(&place, allowed.0);
        }
        for (state, allowed) in &draft.stuck_after {
            let place = format!("stuck_after.{state}");
            if self.is_known(&place, state) && draft.ends(state) {
                self.problem(&place, format!("`{state}` is terminal and lasts for ever: leave it out"));
            }
            self.mistakes.timeout(&place, allowed.0);
        }
    }

    /// Every state is reachable and leads to an end, and no cycle consists only of states without an action.
    fn ways(&mut self) {
        let draft = self.draft;
        let mut ahead: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut back: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for from in draft.states.iter().map(String::as_str) {
            let again = draft.pause.get(from).map(String::as_str);
            for to in draft.follows(from).into_iter().chain(again) {
                ahead.entry(from).or_default().insert(to);
                back.entry(to).or_default().insert(from);
            }
        }
        let reachable = reached(&ahead, [draft.initial.as_str()]);
        let ending = reached(&back, draft.terminal.iter().map(String::as_str).chain([FAILED]));
        for (position, state) in draft.states.iter().enumerate() {
            let place = format!("states[{position}]");
            if !reachable.contains(&**state) && state != FAILED {
                self.problem(
                    &place,
                    format!(
                        "nothing leads to `{state}` from `{}`: add an edge, or leave it out",
                        draft.initial
                    ),
                );
            }
            if !ending.contains(&**state) {
                self.problem(
                    &place,
                    format!(
                        "`{state}` leads to no terminal state: add an edge that does, or add it to `can_fail`"
                    ),
                );
            }
        }
        self.circles();
    }

    fn circles(&mut self) {
        let passes = |state: &str| {
            let action = self.draft.actions.get(state).filter(|action| action.performer.is_none())?;
            action.next.get(OK).map(String::as_str)
        };
        let mut told: HashSet<&str> = HashSet::new();
        let mut found = Vec::new();
        for state in self.draft.actions.keys() {
            let mut walk: Vec<&str> = vec![state];
            while let Some(next) = walk.last().and_then(|last| passes(last)) {
                if let Some(start) = walk.iter().position(|seen| *seen == next) {
                    let ring = &walk[start..];
                    if ring.iter().all(|state| told.insert(state)) {
                        let names: Vec<String> =
                            ring.iter().chain([&next]).map(|name| format!("`{name}`")).collect();
                        found.push(names.join(" → "));
                    }
                    break;
                }
                walk.push(next);
            }
        }
        for ring in found {
            self.problem("actions", format!("go round in a circle without anything being done ({ring}): let one of them act, or lead elsewhere"));
        }
    }
}

fn reached<'a>(
    ways: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    from: impl IntoIterator<Item = &'a str>,
) -> HashSet<&'a str> {
    let mut open: Vec<&str> = from.into_iter().collect();
    let mut seen = HashSet::new();
    while let Some(state) = open.pop() {
        if seen.insert(state) {
            open.extend(ways.get(state).into_iter().flatten());
        }
    }
    seen
}
