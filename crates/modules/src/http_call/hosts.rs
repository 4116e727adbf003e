//! How many calls a host gets at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use backstitch::{Limit, LimitScope};

/// Hosts kept in mind before those that nobody calls are forgotten.
const KEPT: usize = 1024;

/// Limits of calls, host by host, so that a slow one holds up no other.
pub(super) struct Hosts {
    room: usize,
    known: Mutex<HashMap<String, Limit>>,
}

impl Hosts {
    pub(super) fn with_room(room: usize) -> Self {
        Self { room, known: Mutex::default() }
    }

    /// The limit of a host; all callers share one while any of them holds it.
    pub(super) fn limit_of(&self, host: &str) -> Limit {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = known.get(host) {
            return limit.clone();
        }
        if known.len() >= KEPT {
            known.retain(|_, limit| limit.is_shared());
        }
        let limit = Limit::new(LimitScope::Host(host.into()), self.room);
        known.insert(host.to_owned(), limit.clone());
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_host_keeps_nobody_from_another() {
        let hosts = Hosts::with_room(1);
        let (one, other) = (hosts.limit_of("a:80"), hosts.limit_of("b:80"));
        let first = one.try_acquire().unwrap();
        assert!(hosts.limit_of("a:80").try_acquire().is_none());
        assert!(other.try_acquire().is_some());
        drop(first);
        assert!(one.try_acquire().is_some());
    }

    #[tokio::test]
    async fn waiter_gets_the_room_that_becomes_free() {
        let hosts = Hosts::with_room(1);
        let limit = hosts.limit_of("a:80");
        let first = limit.try_acquire();
        let (_second, ()) = tokio::join!(limit.acquire(), async { drop(first) });
        assert!(limit.is_full());
    }

    #[test]
    fn hosts_that_nobody_calls_are_forgotten() {
        let hosts = Hosts::with_room(1);
        let held = hosts.limit_of("held:80");
        let room = held.try_acquire();
        for number in 0..3 * KEPT {
            hosts.limit_of(&format!("{number}:80"));
        }
        assert!(hosts.known.lock().unwrap_or_else(PoisonError::into_inner).len() <= KEPT);
        assert!(hosts.limit_of("held:80").try_acquire().is_none(), "the host in use is remembered");
        drop(room);
    }
}
