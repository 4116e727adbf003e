//! Test support.

pub mod chaos;
pub mod conformance;
pub mod oracle;
pub mod postgres;
pub mod simulate;
pub mod smtp;
pub mod webhook;
