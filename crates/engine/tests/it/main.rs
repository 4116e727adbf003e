//! The engine as its users see it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delivery;
mod library;
mod runtime;
mod step_failures;
mod testing_sagas;
