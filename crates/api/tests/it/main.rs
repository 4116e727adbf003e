//! Requests as other crates define them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod requests;
