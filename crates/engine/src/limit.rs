//! How many attempts of a step run at once, which another version of its saga may change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// The room of one step, shared by all versions of its saga.
#[derive(Clone)]
pub(crate) struct Limit(Arc<Inner>);

struct Inner {
    permits: Arc<Semaphore>,
    size: Mutex<Size>,
}

struct Size {
    room: usize,
    /// Permits there are beyond the room: they were in use when it became smaller.
    too_many: usize,
}

impl Limit {
    pub(crate) fn of(room: u32) -> Self {
        let room = room as usize;
        let size = Mutex::new(Size { room, too_many: 0 });
        Self(Arc::new(Inner { permits: Arc::new(Semaphore::new(room)), size }))
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

    pub(crate) async fn acquire_owned(self) -> Result<OwnedSemaphorePermit, AcquireError> {
        loop {
            let permit = self.0.permits.clone().acquire_owned().await?;
            let mut size = self.size();
            if size.too_many == 0 {
                return Ok(permit);
            }
            // It was given back by one of those that were too many.
            size.too_many -= 1;
            permit.forget();
        }
    }

    fn size(&self) -> MutexGuard<'_, Size> {
        self.0.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
