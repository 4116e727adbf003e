//! TLS to the server, and what a server has to prove before it is talked to.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::Error;

/// What a server's certificate has to prove.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Nothing: what is sent cannot be read on the way, but anybody may be at the other end.
    None,
    /// That somebody trusted has signed it.
    Signed(Roots),
    /// That somebody trusted has signed it for the name in the address.
    SignedForItsName(Roots),
}

/// Whose signature is trusted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// Theirs whom the operating system trusts.
    System,
    /// Theirs whose certificates are in this file.
    File(PathBuf),
}

/// What connections are made with.
pub(super) fn connector(proof: &Proof) -> Result<MakeRustlsConnect, Error> {
    // Named here, so that no other part of the program decides for us.
    let provider = Arc::new(crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|why| Error::Refused(format!("TLS cannot be used: {why}")))?;
    let unnamed = |roots| Arc::new(Unnamed { roots, provider });
    let checked = match proof {
        Proof::None => versions.dangerous().with_custom_certificate_verifier(unnamed(None)),
        Proof::Signed(roots) => {
            versions.dangerous().with_custom_certificate_verifier(unnamed(Some(roots.read()?)))
        }
        Proof::SignedForItsName(roots) => versions.with_root_certificates(roots.read()?),
    };
    let mut config = checked.with_no_client_auth();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

impl Roots {
    fn read(&self) -> Result<RootCertStore, Error> {
        match self {
            Self::System => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(Error::Refused(
                        "sslrootcert=system: this machine trusts no certificate at all; install the package \
                         ca-certificates, or name a file with sslrootcert=PATH"
                            .to_owned(),
                    ));
                }
                Ok(roots)
            }
            Self::File(path) => certificates(path).map_err(|why| {
                Error::Refused(format!(
                    "sslrootcert={}: {why}; name a readable file with the certificate, in PEM form, of the \
                     authority that signed the server's",
                    path.display()
                ))
            }),
        }
    }
}

fn certificates(path: &std::path::Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|why| why.to_string())? {
        let certificate = certificate.map_err(|why| why.to_string())?;
        roots.add(certificate).map_err(|why| why.to_string())?;
    }
    if roots.is_empty() { Err("it holds no certificate".to_owned()) } else { Ok(roots) }
}

/// Looks at who signed, if at anything, and never at the name. The server must have the certificate's key all the
/// same, since passwords are bound to the certificate.
#[derive(Debug)]
struct Unnamed {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unnamed {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let known = self.provider.signature_verification_algorithms.all;
            let certificate = ParsedCertificate::try_from(certificate)?;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, known)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether it was the TLS of a connection that failed. The driver says so in words only.
pub(super) fn is_why(error: &tokio_postgres::Error) -> bool {
    error.to_string() == "error performing TLS handshake"
}

/// What to do about TLS that failed.
pub(super) fn advice(error: &tokio_postgres::Error) -> String {
    let Some(cause) = error.source() else {
        return error.to_string();
    };
    let carried = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match carried.and_then(|carried| carried.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => format!(
            "the server's certificate is not for this host ({cause}): use the name that stands in it among the \
             subject's alternative names, or sslmode=verify-ca where the name does not matter"
        ),
        Some(rustls::Error::InvalidCertificate(_)) => format!(
            "the server's certificate is not accepted ({cause}): check that sslrootcert names the certificate of \
             the authority that signed it, and that it has not expired"
        ),
        _ if cause.to_string() == "server does not support TLS" => {
            "the server speaks no TLS, and the address asks for it: set `ssl = on` there, or use \
             sslmode=disable on a network you trust"
                .to_owned()
        }
        _ => format!("TLS failed: {cause}"),
    }
}
