//! Calls over HTTP against services that behave, and services that do not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod identity;
mod limits;
mod losses;
mod stage;
