//! Test support.

pub mod chaos;
pub mod oracle;
pub mod postgres;
pub mod simulate;
