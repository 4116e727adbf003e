//! Orders on a real engine, on both databases.

mod amounts;
mod failover;
mod retention;
mod settings;
pub(crate) mod stage;
mod view;
