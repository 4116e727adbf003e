//! Test support.

pub mod browser;
pub mod chaos;
pub mod conformance;
pub mod nats;
pub mod oracle;
pub mod postgres;
pub mod service;
pub mod shelf;
pub mod simulate;
pub mod smtp;
mod throwaway;
pub mod webhook;
