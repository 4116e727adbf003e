//! Definitions as people write them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod diffs;
mod documents;
mod forms;
mod mistakes;
mod plans;
mod properties;
mod support;
