//! Messages to the world: what waits, what arrived, what was given up.

pub(super) mod list;
pub(super) mod message;
