//! Decisions of the kernel, case by case.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lifecycle;
mod saga;
