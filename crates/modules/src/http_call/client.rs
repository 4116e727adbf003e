//! The client that calls are made with.

use std::sync::Arc;
use std::time::Duration;

use crate::outgoing::reach::Anywhere;
use crate::outgoing::{Client, Connections};

/// What calls hold themselves to.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls of actions to one host at once, and as many of compensations; more wait for room.
    pub calls_per_host: usize,
    /// The longest answer that is read, in bytes.
    pub answer_bytes: usize,
    /// How deep the JSON of an answer may be nested.
    pub answer_depth: usize,
    /// How long a connection may take to be made.
    pub connect_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_per_host: 256,
            answer_bytes: 1 << 20,
            answer_depth: 64,
            connect_within: Duration::from_secs(10),
        }
    }
}

/// Calls cannot be made on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// TLS cannot be used.
    #[error("TLS cannot be used for calls: {0}")]
    Tls(#[from] rustls::Error),
}

pub(super) fn client(limits: &Limits) -> Result<Client, SetupError> {
    let connections = Connections {
        made_within: limits.connect_within,
        kept_per_host: limits.calls_per_host,
        trusted: Vec::new(),
        reach: Arc::new(Anywhere),
    };
    Ok(connections.client()?)
}
