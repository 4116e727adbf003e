//! The client that calls are made with.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

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

/// A client that goes where it is told: it follows no redirect and no proxy of the environment, and repeats nothing by
/// itself.
pub(super) fn client(limits: &Limits) -> Result<Client, SetupError> {
    let client = Client::builder()
        .tls_backend_preconfigured(tls()?)
        .redirect(Policy::none())
        .no_proxy()
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(limits.connect_within)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(limits.calls_per_host)
        .tcp_nodelay(true)
        .http1_only()
        .user_agent(concat!("backstitch/", env!("CARGO_PKG_VERSION")));
    Ok(client.build()?)
}

fn tls() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        tracing::warn!(
            "this machine trusts no certificate: calls over https will fail; install ca-certificates"
        );
    }
    // The provider is named here, so that no other part of the program decides for us.
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = versions.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
