//! Test support.

use std::time::Duration;

pub mod browser;
pub mod chaos;
pub mod conformance;
pub mod nats;
pub mod obstacle;
pub mod oracle;
pub mod pgbouncer;
pub mod postgres;
mod reopen;
pub mod scale;
pub mod service;
pub mod shelf;
pub mod simulate;
pub mod smtp;
pub mod sql;
mod throwaway;
pub mod unguarded;
pub mod webhook;

pub use reopen::{is_in_use, reopen, reopen_while};

/// How long a test waits for something that must happen, however busy the machine is. Only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(120);
