//! How many calls a host gets at once.

use backstitch::{KeyedLimits, Limit, LimitScope};

/// Limits of calls, host by host, so that a slow one holds up no other.
pub(super) struct Hosts {
    room: usize,
    limits: KeyedLimits<LimitScope>,
}

impl Hosts {
    pub(super) fn with_room(room: usize) -> Self {
        Self { room, limits: KeyedLimits::default() }
    }

    /// The limit of a host; all callers share one while any of them holds it.
    pub(super) fn limit_of(&self, host: &str) -> Limit {
        self.limits.get(&LimitScope::Host(host.into()), self.room)
    }
}
