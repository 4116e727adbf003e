//! How many actions this process performs at once, and how many of them of one machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of the places in all, no machine has more than this part: one whose service hangs leaves room for the others.
const SHARE: (usize, usize) = (3, 4);

/// A place among those that are performed. It is free again once nobody holds it.
pub(super) type Seat = Arc<Taken>;

/// Places for actions; none until somebody performs them.
#[derive(Clone, Default)]
pub(super) struct Seats(Arc<Mutex<Places>>);

#[derive(Default)]
struct Places {
    all: usize,
    taken: usize,
    by_machine: HashMap<Arc<str>, usize>,
    closed: bool,
}

/// Frees its place when it goes.
pub(super) struct Taken {
    seats: Seats,
    machine: Arc<str>,
}

impl Seats {
    /// Somebody performs so many at once from now on.
    pub(super) fn open(&self, seats: usize) {
        self.places().all = seats;
    }

    /// Nobody begins anything any more.
    pub(super) fn close(&self) {
        self.places().closed = true;
    }

    pub(super) fn are_closed(&self) -> bool {
        self.places().closed
    }

    pub(super) fn are_all_free(&self) -> bool {
        self.places().taken == 0
    }

    pub(super) fn free(&self) -> usize {
        let places = self.places();
        if places.closed { 0 } else { places.all.saturating_sub(places.taken) }
    }

    /// The machines that have their whole part.
    pub(super) fn full_machines(&self) -> Vec<Arc<str>> {
        let places = self.places();
        let most = places.most_of_one();
        places.by_machine.iter().filter(|(_, taken)| **taken >= most).map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn take(&self, machine: &Arc<str>) -> Option<Seat> {
        let mut places = self.places();
        let most = places.most_of_one();
        if places.closed || places.taken >= places.all {
            return None;
        }
        let taken = places.by_machine.entry(machine.clone()).or_default();
        if *taken >= most {
            return None;
        }
        *taken += 1;
        places.taken += 1;
        drop(places);
        Some(Arc::new(Taken { seats: self.clone(), machine: machine.clone() }))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn most_of_one(&self) -> usize {
        (self.all * SHARE.0 / SHARE.1).max(1)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut places = self.seats.places();
        places.taken -= 1;
        if let Some(taken) = places.by_machine.get_mut(&self.machine) {
            *taken -= 1;
            if *taken == 0 {
                places.by_machine.remove(&self.machine);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sits_before_somebody_performs_or_after_it_was_closed() {
        let seats = Seats::default();
        assert!(seats.take(&"m".into()).is_none());
        seats.open(4);
        let seat = seats.take(&"m".into()).unwrap();
        seats.close();
        assert!(seats.take(&"n".into()).is_none() && seats.free() == 0 && !seats.are_all_free());
        drop(seat);
        assert!(seats.are_all_free());
    }

    #[test]
    fn one_machine_leaves_room_for_the_others() {
        let seats = Seats::default();
        seats.open(8);
        let (busy, other): (Arc<str>, Arc<str>) = ("busy".into(), "other".into());
        let mut taken: Vec<Seat> = std::iter::from_fn(|| seats.take(&busy)).collect();
        assert_eq!((taken.len(), seats.full_machines()), (6, vec![busy.clone()]));
        let others: Vec<Seat> = std::iter::from_fn(|| seats.take(&other)).collect();
        assert_eq!((others.len(), seats.free()), (2, 0));
        taken.pop();
        assert!(seats.full_machines().is_empty() && seats.take(&other).is_some());
    }
}
