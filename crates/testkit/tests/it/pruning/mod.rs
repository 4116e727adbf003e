//! Retention of an engine: what is deleted, kept and exported, and its cost for others.

mod export;
mod removal;
mod room;
pub(crate) mod stage;
