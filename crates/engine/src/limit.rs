//! Limits on how many attempts run at once: those of one step, or the calls of one host.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on attempts that run at once. Clones share their room.
#[derive(Clone)]
pub struct Limit(Arc<Inner>);

struct Inner {
    scope: LimitScope,
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

/// Room for one attempt; dropping it gives it back.
#[derive(Debug)]
pub struct LimitPermit(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

impl Limit {
    /// A limit of this many at once, at least one.
    #[must_use]
    pub fn new(scope: LimitScope, room: usize) -> Self {
        let room = room.clamp(1, Semaphore::MAX_PERMITS);
        let size = Mutex::new(Size { room, too_many: 0 });
        Self(Arc::new(Inner { scope, permits: Arc::new(Semaphore::new(room)), size }))
    }

    /// What it counts.
    #[must_use]
    pub fn scope(&self) -> &LimitScope {
        &self.0.scope
    }

    /// Whether another clone of this limit is in use.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Whether there is no room now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.permits.available_permits() == 0
    }

    /// Tells limits apart.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// What runs already runs on, be the room smaller from now on.
    pub(crate) fn resize(&self, room: u32) {
        let room = room as usize;
        let mut size = self.size();
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
        let mut size = self.size();
        if size.too_many == 0 {
            return Some(LimitPermit(permit));
        }
        size.too_many -= 1;
        permit.forget();
        None
    }

    fn size(&self) -> MutexGuard<'_, Size> {
        self.0.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit").field("scope", self.scope()).finish_non_exhaustive()
    }
}
