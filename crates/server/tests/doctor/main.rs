//! The doctor: every finding provoked for real, on the real binary over real HTTP, on `SQLite` and `PostgreSQL`; and silence
//! where all is well.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other tests use the rest")]
mod support;

mod stage;

mod advice;
mod answers;
mod database;
mod messages;
mod products;
mod retention;
mod room;
mod sagas;
mod well;
mod writes;
