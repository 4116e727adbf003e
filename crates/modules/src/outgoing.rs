//! What every client that calls somebody holds itself to.

use std::sync::Arc;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// A client that goes where it is told: it follows no redirect and no proxy of the environment, and repeats nothing by
/// itself. These certificates are trusted beside those that the machine trusts.
pub(crate) fn client(trusted: Vec<CertificateDer<'static>>) -> Result<ClientBuilder, rustls::Error> {
    let client = Client::builder()
        .tls_backend_preconfigured(tls(trusted)?)
        .redirect(Policy::none())
        .no_proxy()
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .user_agent(concat!("backstitch/", env!("CARGO_PKG_VERSION")));
    Ok(client)
}

fn tls(trusted: Vec<CertificateDer<'static>>) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in trusted {
        roots.add(certificate)?;
    }
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
