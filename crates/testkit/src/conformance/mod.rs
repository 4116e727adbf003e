//! The contract of stores. `tests/conformance.rs` runs each case on each store.
//!
//! A case is an async function that takes an empty store and panics if the store is wrong. No case sleeps:
//! [`Fixture::advance`] moves the time.

#![expect(clippy::missing_panics_doc, reason = "a case fails by panicking")]

pub mod adoption;
pub mod atomicity;
pub mod claims;
pub mod commit_and_fence;
pub mod definitions;
mod fixture;
pub mod health;
pub mod inbox;
pub mod jobs;
pub mod listing;
pub mod make;
pub mod messages;
pub mod nodes;
pub mod old_sagas;
pub mod ordering;
pub mod outbox;
mod postgres_fixture;
pub mod retention;
pub mod rules;
pub mod survey;
pub mod unreadable;
pub mod work;

pub use fixture::{Fixture, SqlFixture, SqliteFixture};
pub use postgres_fixture::PostgresFixture;
