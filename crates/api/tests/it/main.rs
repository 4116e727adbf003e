//! Tests of what this crate offers to others.

mod requests;
