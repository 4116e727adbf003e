//! The outbox against its requirements, section by section: the real binary over real HTTP, with a broker that can be told
//! how to behave, on `SQLite` and `PostgreSQL`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other tests use the rest")]
mod support;

mod broker;
mod desk;

mod crashes;
mod observability;
mod requests;
mod saga_events;
mod sending;
mod tables;
mod together;
