//! Lifecycles against seed 004, statement by statement: the real binary over real HTTP, with services that can be told how to
//! behave, on `SQLite` and `PostgreSQL`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod support;

mod services;
mod stage;

mod bad_input;
mod broker;
mod crashes;
mod driven;
mod errors;
mod machines;
mod observability;
mod roles;
mod starts;
mod states;
mod streams;
mod tables;
mod transitions;
