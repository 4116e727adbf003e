//! Whom the other side of a connection has to be vouched for by.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// TLS for requests: whom the machine trusts, and those in this file.
pub(super) fn config(root_certificate: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in certificates(root_certificate)? {
        roots.add(certificate).map_err(|why| format!("root_certificate: {why}"))?;
    }
    if roots.is_empty() {
        tracing::warn!(
            "this machine trusts no certificate: alerts over TLS will fail; install ca-certificates"
        );
    }
    // Named here, so that no other part of the program decides for us.
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| format!("url: TLS cannot be used: {why}"))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// The certificates in a file; none without one.
pub(super) fn certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    let Some(path) = file else {
        return Ok(Vec::new());
    };
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|why| why.to_string()).and_then(|found| {
        if found.is_empty() { Err("it holds no certificate".to_owned()) } else { Ok(found) }
    });
    certificates.map_err(|why| {
        format!(
            "root_certificate: `{}`: {why}; name a readable file with certificates in PEM form",
            path.display()
        )
    })
}
