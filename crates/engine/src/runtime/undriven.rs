//! Sagas that are ours and cannot be driven, and why: their owner lives, so nobody else would tell of them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstitch_kernel::{SagaId, Timestamp};

/// A saga that this process owns and cannot drive. It is tried again every few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undriven {
    /// The saga.
    pub saga: SagaId,
    /// What keeps it from being driven.
    pub why: String,
    /// Since when.
    pub since: Timestamp,
}

/// All of them.
#[derive(Default)]
pub(crate) struct UndrivenSagas {
    /// Whether there are any: every decision asks, and there hardly ever are.
    any: AtomicBool,
    sagas: Mutex<HashMap<SagaId, Kept>>,
}

struct Kept {
    undriven: Undriven,
    /// It is driven now, and has not come any further yet: taking it up is not what could not be done.
    driven: bool,
}

impl UndrivenSagas {
    /// This saga cannot be driven. Since when stays as it is until it has come further.
    pub(crate) fn note(&self, saga: SagaId, why: String, now: Timestamp) {
        let mut sagas = self.sagas();
        let since = sagas.get(&saga).map_or(now, |before| before.undriven.since);
        sagas.insert(saga, Kept { undriven: Undriven { saga, why, since }, driven: false });
        self.any.store(true, Ordering::Release);
    }

    /// This saga is driven.
    pub(crate) fn driven(&self, saga: SagaId) {
        if self.any.load(Ordering::Acquire)
            && let Some(kept) = self.sagas().get_mut(&saga)
        {
            kept.driven = true;
        }
    }

    /// This saga has come further: whatever kept it is over.
    pub(crate) fn moved(&self, saga: SagaId) {
        if self.any.load(Ordering::Acquire) {
            let mut sagas = self.sagas();
            sagas.remove(&saga);
            self.any.store(!sagas.is_empty(), Ordering::Release);
        }
    }

    /// Forgets all but those that are ours.
    pub(crate) fn keep(&self, ours: &HashSet<SagaId>) {
        if self.any.load(Ordering::Acquire) {
            let mut sagas = self.sagas();
            sagas.retain(|saga, _| ours.contains(saga));
            self.any.store(!sagas.is_empty(), Ordering::Release);
        }
    }

    /// Up to `limit` of them, longest first.
    pub(crate) fn first(&self, limit: usize) -> Vec<Undriven> {
        let sagas = self.sagas();
        let mut all: Vec<Undriven> =
            sagas.values().filter(|kept| !kept.driven).map(|kept| kept.undriven.clone()).collect();
        drop(sagas);
        all.sort_unstable_by_key(|undriven| (undriven.since, undriven.saga));
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
    fn since_when_a_saga_cannot_be_driven_stays_until_it_could_be() {
        let (all, at) = (UndrivenSagas::default(), Timestamp::from_micros);
        let saga = |number| SagaId(uuid::Uuid::from_u128(number));
        let told = || -> Vec<_> {
            all.first(2).into_iter().map(|it| (it.saga, it.why, it.since.as_micros())).collect()
        };
        all.note(saga(2), "broken".to_owned(), at(1));
        all.note(saga(1), "broken".to_owned(), at(2));
        all.note(saga(2), "still broken".to_owned(), at(3));
        assert_eq!(
            told(),
            [(saga(2), "still broken".to_owned(), 1), (saga(1), "broken".to_owned(), 2)],
            "the longest comes first"
        );
        all.driven(saga(2));
        assert_eq!(told(), [(saga(1), "broken".to_owned(), 2)]);
        all.note(saga(2), "as soon as it was taken up".to_owned(), at(4));
        assert_eq!(told()[0], (saga(2), "as soon as it was taken up".to_owned(), 1));
        all.driven(saga(2));
        all.moved(saga(2));
        all.note(saga(2), "again".to_owned(), at(4));
        all.note(saga(3), "broken".to_owned(), at(5));
        assert_eq!(told(), [(saga(1), "broken".to_owned(), 2), (saga(2), "again".to_owned(), 4)]);
        all.keep(&HashSet::from([saga(3)]));
        assert_eq!(told(), [(saga(3), "broken".to_owned(), 5)]);
        all.moved(saga(3));
        assert_eq!(told(), []);
    }
}
