//! A validated machine with its computed transitions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::draft::{Draft, DraftAction, FAILED, INTERNAL, MAX_MESSAGE, OK};
use super::instance::Failure;
use crate::error::StepError;
use crate::performer::Performer;

/// A checked machine. Made by [`Draft::check`].
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) draft: Draft,
    pub(super) states: HashMap<Arc<str>, State>,
}

/// Facts about a state.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) name: Arc<str>,
    pub(super) kind: Kind,
    /// The possible next states, [`FAILED`] included.
    pub(super) next: BTreeSet<Arc<str>>,
}

/// The kind of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Other states follow.
    Passing,
    /// It waits for a start, which leads to this state.
    Pause(Arc<str>),
    /// A terminal state.
    Terminal,
}

impl Machine {
    /// The draft that it was made from.
    #[must_use]
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.draft.name
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.draft.version
    }

    /// The topic of the messages about a state.
    #[must_use]
    pub fn topic(&self, state: &str) -> String {
        match &self.draft.subject {
            Some(subject) => format!("{subject}.{state}"),
            None => format!("lifecycles.{}.{state}", self.draft.name),
        }
    }

    /// The kind of a state; none if it does not exist.
    #[must_use]
    pub fn kind(&self, state: &str) -> Option<&Kind> {
        self.states.get(state).map(|state| &state.kind)
    }

    /// Whether the state is terminal.
    #[must_use]
    pub fn is_terminal(&self, state: &str) -> bool {
        self.kind(state) == Some(&Kind::Terminal)
    }

    /// Its states in declared order, each with its kind.
    pub fn states(&self) -> impl Iterator<Item = (&str, &Kind)> {
        let written = self.draft.states.iter().map(String::as_str);
        let failed =
            std::iter::once(FAILED).filter(|name| !self.draft.states.iter().any(|state| state == name));
        written
            .chain(failed)
            .filter_map(|name| self.states.get(name).map(|state| (&*state.name, &state.kind)))
    }

    /// The states that a request may move to.
    pub fn follows(&self, state: &str) -> impl Iterator<Item = &str> {
        self.states.get(state).into_iter().flat_map(|state| state.next.iter().map(|next| &**next))
    }

    /// The action of a state, if it has one.
    #[must_use]
    pub fn action(&self, state: &str) -> Option<&DraftAction> {
        self.draft.actions.get(state)
    }

    /// The queue of an outside worker's action, and the time limit of one attempt.
    #[must_use]
    pub fn outside(&self, state: &str) -> Option<(&str, Duration)> {
        let action = self.action(state)?;
        Some((action.performer.as_ref().and_then(Performer::queue)?, action.timeout))
    }

    /// How long an instance may stay in a state before it counts as stuck.
    #[must_use]
    pub fn stuck_after(&self, state: &str) -> Option<Duration> {
        self.draft.stuck_after.get(state).map(|allowed| allowed.0)
    }

    /// The time limit of a pause state; none means no limit.
    #[must_use]
    pub fn pause_expires(&self, state: &str) -> Option<Duration> {
        self.draft.pause_expires.get(state).map(|allowed| allowed.0)
    }

    /// Whether the machine declares this kind of error.
    #[must_use]
    pub fn knows_error(&self, kind: &str) -> bool {
        kind == INTERNAL || self.draft.error_kinds.iter().any(|known| known == kind)
    }

    /// Whether it can fail in this state.
    #[must_use]
    pub fn can_fail(&self, state: &str) -> bool {
        self.states.get(state).is_some_and(|state| state.next.contains(FAILED))
    }

    /// Maps an action's error to a failure: its code is the kind, if the machine declares it.
    pub(super) fn failure(&self, error: StepError) -> Failure {
        let (kind, message) = match error.code {
            Some(code) if self.knows_error(&code) => (code, error.message),
            // An undeclared code is kept in the message.
            Some(code) => (INTERNAL.to_owned(), format!("{code}: {}", error.message)),
            None => (INTERNAL.to_owned(), error.message),
        };
        Failure { kind, message: readable(&message) }
    }

    /// The shared text of a state's name.
    pub(super) fn named(&self, state: &str) -> Arc<str> {
        self.states.get(state).map_or_else(|| state.into(), |state| state.name.clone())
    }
}

/// Shortens a message from another system and removes invisible characters.
fn readable(message: &str) -> String {
    let kept = message.char_indices().take_while(|(place, _)| *place < MAX_MESSAGE).map(|(_, letter)| letter);
    kept.map(|letter| if letter == '\0' { '\u{fffd}' } else { letter }).collect()
}

/// The next state after a success.
pub(super) fn after_success(action: &DraftAction) -> &str {
    action.next.get(OK).map_or(FAILED, String::as_str)
}

/// The next state after an error of this kind.
pub(super) fn after_error<'a>(action: &'a DraftAction, kind: &str) -> &'a str {
    action.next.get(kind).map_or(FAILED, String::as_str)
}
