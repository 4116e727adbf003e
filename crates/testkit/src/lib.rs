//! Test support.

pub mod oracle;
pub mod postgres;
pub mod simulate;
