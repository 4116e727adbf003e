//! Lifecycle machines as people write them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod forms;
mod mistakes;
mod properties;
mod support;
