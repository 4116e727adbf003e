//! The client that calls are made with.

use std::time::Duration;

use reqwest::Client;

use crate::outgoing;

/// Shorter than the five seconds after which common servers close an idle connection, so that few calls are sent into
/// one that is being closed.
const IDLE: Duration = Duration::from_secs(4);

/// What calls hold themselves to.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls to one host at once; more wait for room.
    pub calls_per_host: usize,
    /// The longest answer that is read, in bytes.
    pub answer_bytes: usize,
    /// How long a connection may take to be made.
    pub connect_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { calls_per_host: 256, answer_bytes: 1 << 20, connect_within: Duration::from_secs(10) }
    }
}

/// Calls cannot be made on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// TLS cannot be used.
    #[error("TLS cannot be used for calls: {0}")]
    Tls(#[from] rustls::Error),
    /// The client cannot be made.
    #[error("calls cannot be made: {0}")]
    Client(#[from] reqwest::Error),
}

pub(super) fn client(limits: &Limits) -> Result<Client, SetupError> {
    let client = outgoing::client(Vec::new())?
        .connect_timeout(limits.connect_within)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(limits.calls_per_host)
        .tcp_nodelay(true);
    Ok(client.build()?)
}
