//! Test support.

pub mod postgres;
