//! How many actions this process performs at once, and how many of them of one machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use backstitch::{KeyedLimits, Limit, LimitPermit};

/// Of the places in all, no machine has more than this part: one whose service hangs leaves room for the others.
const SHARE: (usize, usize) = (3, 4);

/// A permit to perform an action, released on drop.
pub(super) type Seat = Arc<(LimitPermit, LimitPermit)>;

/// Places for actions; none until they are opened.
#[derive(Clone, Default)]
pub(super) struct Seats(Arc<Places>);

#[derive(Default)]
struct Places {
    all: OnceLock<Limit<AllMachines>>,
    by_machine: KeyedLimits<Arc<str>>,
    closed: AtomicBool,
}

#[derive(Debug)]
struct AllMachines;

impl Seats {
    /// Actions are performed from now on, so many at once.
    pub(super) fn open(&self, seats: usize) {
        if seats > 0 {
            self.0.all.get_or_init(|| Limit::new(AllMachines, seats));
        }
    }

    /// No action begins any more.
    pub(super) fn close(&self) {
        self.0.closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn are_closed(&self) -> bool {
        self.0.closed.load(Ordering::SeqCst)
    }

    pub(super) fn are_all_free(&self) -> bool {
        self.0.all.get().is_none_or(|all| all.held() == 0)
    }

    pub(super) fn free(&self) -> usize {
        if self.are_closed() { 0 } else { self.0.all.get().map_or(0, Limit::free) }
    }

    /// The machines that have their whole part.
    pub(super) fn full_machines(&self) -> Vec<Arc<str>> {
        let full = self.0.by_machine.all().into_iter().filter(Limit::is_full);
        full.map(|limit| limit.scope().clone()).collect()
    }

    pub(super) fn take(&self, machine: &Arc<str>) -> Option<Seat> {
        let all = self.0.all.get()?;
        let share = all.room() * SHARE.0 / SHARE.1;
        let seat = (all.try_acquire()?, self.0.by_machine.get(machine, share).try_acquire()?);
        // Checked last: a shutdown must not find all permits free before one is taken.
        (!self.are_closed()).then(|| Arc::new(seat))
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
