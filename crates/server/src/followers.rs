//! Who follows one lifecycle. What happens is sorted once for all, so that ten thousand followers of others cost nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstitch::SagaId;
use tokio::sync::watch::{Receiver, Sender};

/// Followers by what they follow. They are told that something happened; what it was is in the log.
#[derive(Default)]
pub(crate) struct Followers(Mutex<HashMap<SagaId, Sender<()>>>);

impl Followers {
    /// Tells whenever something happens to this one from now on.
    pub(crate) fn follow(&self, id: SagaId) -> Receiver<()> {
        let mut followed = self.followed();
        // Now and then, those whose last follower has left.
        if followed.len().is_power_of_two() {
            followed.retain(|_, tell| tell.receiver_count() > 0);
        }
        followed.entry(id).or_insert_with(|| Sender::new(())).subscribe()
    }

    pub(crate) fn tell(&self, id: SagaId) {
        if let Some(tell) = self.followed().get(&id) {
            tell.send_replace(());
        }
    }

    /// Something was missed, and nobody knows whose it was.
    pub(crate) fn tell_all(&self) {
        for tell in self.followed().values() {
            tell.send_replace(());
        }
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<SagaId, Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use backstitch::Timestamp;
    use backstitch::clock::{Ids, RandomIds};

    use super::*;

    fn ids<const N: usize>() -> [SagaId; N] {
        let random = RandomIds::default();
        std::array::from_fn(|_| random.next(Timestamp::from_micros(0)))
    }

    #[test]
    fn a_follower_is_told_of_what_it_follows_and_of_nothing_else() {
        let (followers, [one, other]) = (Followers::default(), ids());
        let follower = followers.follow(one);
        followers.tell(other);
        assert!(!follower.has_changed().unwrap());
        followers.tell(one);
        assert!(follower.has_changed().unwrap());
    }

    #[test]
    fn whoever_may_have_missed_something_looks() {
        let (followers, [one, other]) = (Followers::default(), ids());
        let both = [followers.follow(one), followers.follow(other)];
        followers.tell_all();
        assert!(both.iter().all(|follower| follower.has_changed().unwrap()));
    }

    #[test]
    fn what_nobody_follows_any_more_is_forgotten() {
        let (followers, [kept]) = (Followers::default(), ids());
        let _kept = followers.follow(kept);
        for id in ids::<1000>() {
            drop(followers.follow(id));
        }
        assert!(followers.followed().len() <= 3, "{}", followers.followed().len());
    }
}
