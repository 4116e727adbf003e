//! Limits on how much runs at once under one key, such as the attempts of one step or the calls of one host.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on how much runs at once within one scope. Clones share their room.
pub struct Limit<S = LimitScope>(Arc<Inner<S>>);

struct Inner<S> {
    scope: S,
    permits: Arc<Semaphore>,
    size: Mutex<Size>,
}

struct Size {
    room: usize,
    /// Permits there are beyond the room: they were in use when it became smaller.
    too_many: usize,
}

/// What a limit counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitScope {
    /// Calls to one host, named with its port.
    Host(Arc<str>),
    /// Attempts of one step's action, in all versions of its definition.
    Step {
        /// The definition's name.
        definition: Arc<str>,
        /// The step.
        step: Arc<str>,
    },
    /// Sagas whose attempts run at once in this process; see [`Options::max_active`](crate::Options::max_active).
    Slots,
}

impl fmt::Display for LimitScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "host `{host}`"),
            Self::Step { definition, step } => write!(f, "step `{step}` of `{definition}`"),
            Self::Slots => f.write_str("run slots"),
        }
    }
}

/// Room for one; dropping it gives it back.
#[derive(Debug)]
pub struct LimitPermit(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

impl<S> Limit<S> {
    /// A limit of this many at once, at least one.
    #[must_use]
    pub fn new(scope: S, room: usize) -> Self {
        let room = room.clamp(1, Semaphore::MAX_PERMITS);
        let size = Mutex::new(Size { room, too_many: 0 });
        Self(Arc::new(Inner { scope, permits: Arc::new(Semaphore::new(room)), size }))
    }

    /// What it counts.
    #[must_use]
    pub fn scope(&self) -> &S {
        &self.0.scope
    }

    /// Whether there is no room now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free() == 0
    }

    /// How many may have room at once.
    #[must_use]
    pub fn room(&self) -> usize {
        self.state().room
    }

    /// How much room there is now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.permits.available_permits()
    }

    /// How many have room now.
    #[must_use]
    pub fn held(&self) -> usize {
        let size = self.state();
        (size.room + size.too_many).saturating_sub(self.free())
    }

    /// Tells limits apart.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// What runs already runs on, be the room smaller from now on.
    pub(crate) fn resize(&self, room: u32) {
        let room = room as usize;
        let mut size = self.state();
        if let Some(less) = size.room.checked_sub(room) {
            size.too_many += less - self.0.permits.forget_permits(less);
        } else {
            let more = room - size.room;
            let kept = more.min(size.too_many);
            size.too_many -= kept;
            self.0.permits.add_permits(more - kept);
        }
        size.room = room;
    }

    /// Takes room if some is free and no other attempt waits for it.
    #[must_use]
    pub fn try_acquire(&self) -> Option<LimitPermit> {
        loop {
            let permit = self.0.permits.clone().try_acquire_owned().ok()?;
            if let Some(permit) = self.counted(permit) {
                return Some(permit);
            }
        }
    }

    /// Waits for room; it is given in the order it was asked for.
    pub async fn acquire(&self) -> LimitPermit {
        loop {
            let Ok(permit) = self.0.permits.clone().acquire_owned().await else {
                // The semaphore is never closed.
                return std::future::pending().await;
            };
            if let Some(permit) = self.counted(permit) {
                return permit;
            }
        }
    }

    /// The permit, unless it was given back by one of those that were too many.
    fn counted(&self, permit: OwnedSemaphorePermit) -> Option<LimitPermit> {
        let mut size = self.state();
        if size.too_many == 0 {
            return Some(LimitPermit(permit));
        }
        size.too_many -= 1;
        permit.forget();
        None
    }

    fn state(&self) -> MutexGuard<'_, Size> {
        self.0.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Clone for Limit<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: fmt::Debug> fmt::Debug for Limit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit").field("scope", self.scope()).finish_non_exhaustive()
    }
}

/// Limits that are kept before those that are not in use are forgotten.
const KEPT: usize = 1024;

/// A limit for each key, which is made when it is first asked for.
pub struct KeyedLimits<K>(Mutex<HashMap<K, Limit<K>>>);

impl<K> Default for KeyedLimits<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> KeyedLimits<K> {
    /// The limit of this key; one that is made now has this room. While it is in use, all who ask get the same.
    #[must_use]
    pub fn get(&self, key: &K, room: usize) -> Limit<K> {
        let mut known = self.known();
        if let Some(limit) = known.get(key) {
            return limit.clone();
        }
        if known.len() >= KEPT {
            known.retain(|_, limit| Arc::strong_count(&limit.0) > 1 || limit.held() > 0);
        }
        let limit = Limit::new(key.clone(), room);
        known.insert(key.clone(), limit.clone());
        limit
    }

    /// All that are kept.
    #[must_use]
    pub fn all(&self) -> Vec<Limit<K>> {
        self.known().values().cloned().collect()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<K, Limit<K>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_key_keeps_no_other_from_room() {
        let limits = KeyedLimits::default();
        let (one, other) = (limits.get(&"a", 1), limits.get(&"b", 1));
        let first = one.try_acquire().unwrap();
        assert!(limits.get(&"a", 1).try_acquire().is_none(), "all who ask share it");
        assert!(other.try_acquire().is_some());
        assert_eq!((one.held(), one.free(), other.held()), (1, 0, 0));
        drop(first);
        assert!(one.try_acquire().is_some());
    }

    #[tokio::test]
    async fn waiter_gets_the_room_that_becomes_free() {
        let limit = KeyedLimits::default().get(&"a", 1);
        let first = limit.try_acquire();
        let (_second, ()) = tokio::join!(limit.acquire(), async { drop(first) });
        assert!(limit.is_full());
    }

    #[test]
    fn unused_limits_are_forgotten_and_used_ones_kept() {
        let limits = KeyedLimits::default();
        let room = limits.get(&usize::MAX, 1).try_acquire();
        let in_use = limits.get(&(usize::MAX - 1), 1);
        for key in 0..3 * KEPT {
            drop(limits.get(&key, 1));
        }
        assert!(limits.all().len() <= KEPT);
        assert!(limits.get(&usize::MAX, 1).try_acquire().is_none(), "it has given room away");
        assert_eq!(limits.get(&(usize::MAX - 1), 1).id(), in_use.id());
        drop(room);
    }

    #[test]
    fn permits_of_a_limit_that_shrank_are_still_held() {
        let limit = Limit::new("a", 3);
        let permits = [limit.try_acquire(), limit.try_acquire()];
        limit.resize(1);
        assert_eq!((limit.held(), limit.free()), (2, 0));
        drop(permits);
        assert_eq!((limit.held(), limit.is_full()), (0, false));
    }
}
