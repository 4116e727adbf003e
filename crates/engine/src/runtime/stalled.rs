//! Sagas that this node owns and cannot execute, each with its reason. Their owner is alive, so no other node reports them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstitch_kernel::{SagaId, Timestamp};

/// A saga that this process owns and cannot execute. It is tried again every few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalledSaga {
    /// The saga.
    pub saga: SagaId,
    /// Why it cannot be executed.
    pub why: String,
    /// Since when.
    pub since: Timestamp,
}

/// All stalled sagas of this process.
#[derive(Default)]
pub(crate) struct StalledSagas {
    /// Whether there are any: every decision asks, and there are hardly ever any.
    any: AtomicBool,
    sagas: Mutex<HashMap<SagaId, Kept>>,
}

struct Kept {
    stalled: StalledSaga,
    /// It is executed now and has not progressed yet: loading it is not what failed.
    is_executed: bool,
}

impl StalledSagas {
    /// This saga cannot be executed. Its first time stays until it has progressed.
    pub(crate) fn note(&self, saga: SagaId, why: String, now: Timestamp) {
        let mut sagas = self.sagas();
        let since = sagas.get(&saga).map_or(now, |before| before.stalled.since);
        sagas.insert(saga, Kept { stalled: StalledSaga { saga, why, since }, is_executed: false });
        self.any.store(true, Ordering::Release);
    }

    /// This saga is executed.
    pub(crate) fn executed(&self, saga: SagaId) {
        if self.any.load(Ordering::Acquire)
            && let Some(kept) = self.sagas().get_mut(&saga)
        {
            kept.is_executed = true;
        }
    }

    /// This saga has progressed: it is not stalled any more.
    pub(crate) fn progressed(&self, saga: SagaId) {
        if self.any.load(Ordering::Acquire) {
            let mut sagas = self.sagas();
            sagas.remove(&saga);
            self.any.store(!sagas.is_empty(), Ordering::Release);
        }
    }

    /// Forgets all but those that this node owns.
    pub(crate) fn keep(&self, owned: &HashSet<SagaId>) {
        if self.any.load(Ordering::Acquire) {
            let mut sagas = self.sagas();
            sagas.retain(|saga, _| owned.contains(saga));
            self.any.store(!sagas.is_empty(), Ordering::Release);
        }
    }

    /// Up to `limit` of them, longest first.
    pub(crate) fn first(&self, limit: usize) -> Vec<StalledSaga> {
        let sagas = self.sagas();
        let mut all: Vec<StalledSaga> =
            sagas.values().filter(|kept| !kept.is_executed).map(|kept| kept.stalled.clone()).collect();
        drop(sagas);
        all.sort_unstable_by_key(|stalled| (stalled.since, stalled.saga));
        all.truncate(limit);
        all
    }

    fn sagas(&self) -> MutexGuard<'_, HashMap<SagaId, Kept>> {
        self.sagas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalled_since_stays_until_the_saga_progresses() {
        let (all, at) = (StalledSagas::default(), Timestamp::from_micros);
        let saga = |number| SagaId(uuid::Uuid::from_u128(number));
        let listed = || -> Vec<_> {
            all.first(2).into_iter().map(|it| (it.saga, it.why, it.since.as_micros())).collect()
        };
        all.note(saga(2), "broken".to_owned(), at(1));
        all.note(saga(1), "broken".to_owned(), at(2));
        all.note(saga(2), "still broken".to_owned(), at(3));
        assert_eq!(
            listed(),
            [(saga(2), "still broken".to_owned(), 1), (saga(1), "broken".to_owned(), 2)],
            "the longest comes first"
        );
        all.executed(saga(2));
        assert_eq!(listed(), [(saga(1), "broken".to_owned(), 2)]);
        all.note(saga(2), "as soon as it was taken up".to_owned(), at(4));
        assert_eq!(listed()[0], (saga(2), "as soon as it was taken up".to_owned(), 1));
        all.executed(saga(2));
        all.progressed(saga(2));
        all.note(saga(2), "again".to_owned(), at(4));
        all.note(saga(3), "broken".to_owned(), at(5));
        assert_eq!(listed(), [(saga(1), "broken".to_owned(), 2), (saga(2), "again".to_owned(), 4)]);
        all.keep(&HashSet::from([saga(3)]));
        assert_eq!(listed(), [(saga(3), "broken".to_owned(), 5)]);
        all.progressed(saga(3));
        assert_eq!(listed(), []);
    }
}
