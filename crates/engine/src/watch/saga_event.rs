//! An event of a saga with its saga's record, as readers of all events get it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Recorded, State};

use crate::registry::Registered;
use crate::view::SagaState;

/// An event of a saga, as it happens.
#[derive(Clone)]
pub struct SagaEvent {
    /// The saga.
    pub saga: SagaId,
    /// The definition's name.
    pub definition: Arc<str>,
    /// What happened.
    pub recorded: Recorded,
    commit: Arc<CommittedEvents>,
}

impl SagaEvent {
    pub(super) fn of(commit: &Arc<CommittedEvents>, recorded: &Recorded) -> Self {
        Self {
            saga: commit.saga,
            definition: commit.definition.name.clone(),
            recorded: recorded.clone(),
            commit: commit.clone(),
        }
    }

    /// Everything about the saga as of the commit that wrote the event. Events that are written together have the same
    /// record.
    #[must_use]
    pub fn record(&self) -> &SagaState {
        let CommittedEvents { saga, definition, state, record, .. } = &*self.commit;
        record.get_or_init(|| SagaState::of(*saga, &definition.definition, state))
    }
}

impl fmt::Debug for SagaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { saga, definition, recorded, .. } = self;
        f.debug_struct("SagaEvent")
            .field("saga", saga)
            .field("definition", definition)
            .field("recorded", recorded)
            .finish_non_exhaustive()
    }
}

/// Events that a reader of live events cannot get any more: retention removed their saga before the reader came to them, the
/// engine ended, or the reader is a million commits behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// How many events are missing.
    pub missed: u64,
}

/// The events of one commit.
pub(super) struct CommittedEvents {
    pub(super) saga: SagaId,
    pub(super) definition: Arc<Registered>,
    /// The saga after all of them.
    state: Arc<State>,
    pub(super) events: Vec<Recorded>,
    /// Made when it is first asked for.
    record: OnceLock<SagaState>,
}

impl CommittedEvents {
    pub(super) fn new(
        saga: SagaId,
        definition: Arc<Registered>,
        state: Arc<State>,
        events: Vec<Recorded>,
    ) -> Self {
        Self { saga, definition, state, events, record: OnceLock::new() }
    }
}
