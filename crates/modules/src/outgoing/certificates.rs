//! Certificates that the operator trusts beside those the machine trusts.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The certificates in a file; none without one.
pub(crate) fn in_file(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
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
