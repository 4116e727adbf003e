//! How many calls a host gets at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// Hosts kept in mind before those that nobody calls are forgotten.
const KEPT: usize = 1024;

/// Room for calls, host by host, so that a slow one holds up no other.
pub(super) struct Hosts {
    room: usize,
    known: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Hosts {
    pub(super) fn with_room(room: usize) -> Self {
        Self { room: room.clamp(1, Semaphore::MAX_PERMITS), known: Mutex::default() }
    }

    /// The room of a host; the same for all who ask while somebody holds it.
    pub(super) fn room_of(&self, host: &str) -> Room {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = known.get(host) {
            return Room(room.clone());
        }
        if known.len() >= KEPT {
            // Whoever may call a host keeps a second reference.
            known.retain(|_, room| Arc::strong_count(room) > 1);
        }
        let room = Arc::new(Semaphore::new(self.room));
        known.insert(host.to_owned(), room.clone());
        Room(room)
    }
}

/// One host's room.
pub(super) struct Room(Arc<Semaphore>);

impl Room {
    /// Waits for a place until then; the host counts as called until the place is dropped.
    pub(super) async fn enter(&self, until: Instant) -> Option<SemaphorePermit<'_>> {
        // Mostly there is room, and no timer is needed.
        if let Ok(place) = self.0.try_acquire() {
            return Some(place);
        }
        timeout_at(until, self.0.acquire()).await.ok()?.ok()
    }

    /// Waits for a place however long it takes. Places are given in the order they were asked for, and nobody holds one
    /// for longer than its attempt's time.
    pub(super) async fn enter_in_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_host_keeps_nobody_from_another() {
        let hosts = Hosts::with_room(1);
        let (one, other) = (hosts.room_of("a:80"), hosts.room_of("b:80"));
        let first = one.enter(soon()).await;
        assert!(hosts.room_of("a:80").enter(soon()).await.is_none());
        assert!(other.enter(soon()).await.is_some());
        drop(first);
        assert!(one.enter(soon()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_the_place_that_becomes_free() {
        let hosts = Hosts::with_room(1);
        let room = hosts.room_of("a:80");
        let first = room.enter(soon()).await;
        let (second, ()) = tokio::join!(room.enter(soon()), async { drop(first) });
        assert!(second.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_that_nobody_calls_are_forgotten() {
        let hosts = Hosts::with_room(1);
        let held = hosts.room_of("held:80");
        let place = held.enter(soon()).await;
        for number in 0..3 * KEPT {
            hosts.room_of(&format!("{number}:80"));
        }
        assert!(hosts.known.lock().unwrap_or_else(PoisonError::into_inner).len() <= KEPT);
        assert!(hosts.room_of("held:80").enter(soon()).await.is_none(), "who is being called is remembered");
        drop(place);
    }
}
