//! Orders on a real engine, on both databases.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod amounts;
mod retention;
mod settings;
mod stage;
mod view;
