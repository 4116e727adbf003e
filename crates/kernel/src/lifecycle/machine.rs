//! A machine that makes sense: what may follow what, worked out.

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

/// What is known of a state.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) name: Arc<str>,
    pub(super) kind: Kind,
    /// What may follow, [`FAILED`] included.
    pub(super) next: BTreeSet<Arc<str>>,
}

/// What can become of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something follows.
    Passing,
    /// It waits for somebody to start again, and goes on there.
    Pause(Arc<str>),
    /// Nothing follows.
    Terminal,
}

impl Machine {
    /// As it was written.
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

    /// The topic of the message that tells of a state.
    #[must_use]
    pub fn topic(&self, state: &str) -> String {
        match &self.draft.subject {
            Some(subject) => format!("{subject}.{state}"),
            None => format!("lifecycles.{}.{state}", self.draft.name),
        }
    }

    /// What can become of a state; nothing where there is no such state.
    #[must_use]
    pub fn kind(&self, state: &str) -> Option<&Kind> {
        self.states.get(state).map(|state| &state.kind)
    }

    /// Whether nothing follows this state.
    #[must_use]
    pub fn is_terminal(&self, state: &str) -> bool {
        self.kind(state) == Some(&Kind::Terminal)
    }

    /// Its states in the order they are written, each with what can become of it.
    pub fn states(&self) -> impl Iterator<Item = (&str, &Kind)> {
        let written = self.draft.states.iter().map(String::as_str);
        let failed =
            std::iter::once(FAILED).filter(|name| !self.draft.states.iter().any(|state| state == name));
        written
            .chain(failed)
            .filter_map(|name| self.states.get(name).map(|state| (&*state.name, &state.kind)))
    }

    /// What may follow a state by somebody's wish.
    pub fn follows(&self, state: &str) -> impl Iterator<Item = &str> {
        self.states.get(state).into_iter().flat_map(|state| state.next.iter().map(|next| &**next))
    }

    /// What is done in a state, if anything is.
    #[must_use]
    pub fn action(&self, state: &str) -> Option<&DraftAction> {
        self.draft.actions.get(state)
    }

    /// The queue that an outside worker takes the action of this state from, and how long one attempt may take.
    #[must_use]
    pub fn outside(&self, state: &str) -> Option<(&str, Duration)> {
        let action = self.action(state)?;
        Some((action.performer.as_ref().and_then(Performer::queue)?, action.timeout))
    }

    /// How long a state may last.
    #[must_use]
    pub fn stuck_after(&self, state: &str) -> Option<Duration> {
        self.draft.stuck_after.get(state).map(|allowed| allowed.0)
    }

    /// How long a pause state may last before its instance is abandoned; none where it may last for ever.
    #[must_use]
    pub fn pause_expires(&self, state: &str) -> Option<Duration> {
        self.draft.pause_expires.get(state).map(|allowed| allowed.0)
    }

    /// Whether errors of this kind are told apart here.
    #[must_use]
    pub fn knows_error(&self, kind: &str) -> bool {
        kind == INTERNAL || self.draft.error_kinds.iter().any(|known| known == kind)
    }

    /// Whether it can fail in this state.
    #[must_use]
    pub fn can_fail(&self, state: &str) -> bool {
        self.states.get(state).is_some_and(|state| state.next.contains(FAILED))
    }

    /// What an action's error is here: its code is the kind, where there is such a kind.
    pub(super) fn failure(&self, error: StepError) -> Failure {
        let (kind, message) = match error.code {
            Some(code) if self.knows_error(&code) => (code, error.message),
            // A code that says nothing here may still say something to people.
            Some(code) => (INTERNAL.to_owned(), format!("{code}: {}", error.message)),
            None => (INTERNAL.to_owned(), error.message),
        };
        Failure { kind, message: readable(&message) }
    }

    /// The state of this name, as it is kept.
    pub(super) fn named(&self, state: &str) -> Arc<str> {
        self.states.get(state).map_or_else(|| state.into(), |state| state.name.clone())
    }
}

/// Somebody else's words as they are kept: not all of them where there are many, and none that cannot be seen.
fn readable(message: &str) -> String {
    let kept = message.char_indices().take_while(|(place, _)| *place < MAX_MESSAGE).map(|(_, letter)| letter);
    kept.map(|letter| if letter == '\0' { '\u{fffd}' } else { letter }).collect()
}

/// Where an answer without an error leads.
pub(super) fn after_success(action: &DraftAction) -> &str {
    action.next.get(OK).map_or(FAILED, String::as_str)
}

/// Where an error of this kind leads.
pub(super) fn after_error<'a>(action: &'a DraftAction, kind: &str) -> &'a str {
    action.next.get(kind).map_or(FAILED, String::as_str)
}
