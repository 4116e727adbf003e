//! Webhooks against their requirements, section by section: the real binary over real HTTP, with receivers that can be told
//! how to behave, on `SQLite` and `PostgreSQL`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other tests use the rest")]
mod support;

mod receiver;
mod stage;

mod bad_input;
mod crashes;
mod dead_letters;
mod endpoints;
mod events;
mod limits;
mod retries;
mod signatures;
mod subscriptions;
mod workers;
