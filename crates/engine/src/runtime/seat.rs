//! A saga's place among those under way, given back whatever becomes of whoever holds it.

use std::sync::Arc;

use backstitch_kernel::SagaId;

use super::Shared;
use crate::live::{End, Live};

/// Held by whoever drives a saga. Dropped without a word, as by a panic or a caller who went away, it counts as let
/// go; the sweep then finds the saga if it is ours.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    saga: SagaId,
    live: Arc<Live>,
    end: Option<End>,
}

impl Seat {
    /// Takes the place; `None` if somebody in this process has it.
    pub(crate) fn take(shared: &Arc<Shared>, saga: SagaId) -> Option<Self> {
        let live = shared.live.enter(saga)?;
        Some(Self { shared: shared.clone(), saga, live, end: None })
    }

    pub(crate) fn saga(&self) -> SagaId {
        self.saga
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Gives the place back because the saga is at its end.
    pub(crate) fn leave_for_good(mut self, end: End) {
        self.end = Some(end);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.live.leave(self.saga, self.end.take().unwrap_or(End::LetGo));
    }
}
