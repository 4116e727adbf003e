//! Tests of the kernel's decisions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lifecycle;
mod saga;
