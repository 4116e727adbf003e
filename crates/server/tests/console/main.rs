//! The console as a browser sees it: the real binary over real HTTP, on `SQLite` and `PostgreSQL`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other tests use the rest")]
mod support;

mod audit;
mod back;
mod browser;
mod services;
mod stage;

mod configuration;
mod finding;
mod forms;
mod ids;
mod lifecycles;
mod live;
mod markup;
mod messages;
mod overview;
mod plans;
mod roles;
mod sagas;
mod signing_in;
mod webhooks;
