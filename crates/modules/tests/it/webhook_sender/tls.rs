//! Webhooks over TLS.

use std::sync::Arc;

use backstitch::kernel::delivery::Outcome;
use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::sender::{Sender, Settings};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::webhook_sender::stage::{loopback, request, sender_with};
use backstitch_testkit::service::{Reply, Service};

/// A receiver behind TLS, its address and its certificate.
async fn receiver() -> (Service, String, CertificateDer<'static>) {
    let service = Service::always(|| Reply::http(200, "in private")).await;
    let plain = service.url()["http://".len()..].trim_end_matches("/call").to_owned();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .unwrap();
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, plain) = (acceptor.clone(), plain.clone());
            tokio::spawn(async move {
                let Ok(mut private) = acceptor.accept(stream).await else { return };
                let mut plain = TcpStream::connect(plain).await.unwrap();
                let _ = copy_bidirectional(&mut private, &mut plain).await;
            });
        }
    });
    (service, format!("https://localhost:{port}/hook"), cert.der().clone())
}

fn trusting(certificate: &CertificateDer<'static>) -> Sender {
    let egress = Egress::allowing(&["127.0.0.0/8", "::1"]).unwrap();
    sender_with(egress, Settings { trusted: vec![certificate.clone()], ..Settings::default() })
}

#[tokio::test]
async fn a_receiver_with_a_certificate_that_is_trusted_is_called() {
    let (service, url, certificate) = receiver().await;
    let exchange = trusting(&certificate).send(request(&url)).await;
    assert_eq!((exchange.outcome, exchange.body_start.as_str()), (Outcome::Arrived, "in private"));
    assert_eq!(service.heard()[0].headers["webhook-id"], "msg_1");
}

#[tokio::test]
async fn a_certificate_that_nobody_trusts_or_for_another_name_is_refused() {
    let (service, url, certificate) = receiver().await;
    let exchange = sender_with(loopback(), Settings::default()).send(request(&url)).await;
    assert_eq!(exchange.error_code(), Some("tls_failed"), "{exchange:?}");
    let other_name = url.replace("localhost", "127.0.0.1");
    let exchange = trusting(&certificate).send(request(&other_name)).await;
    assert_eq!(exchange.error_code(), Some("tls_failed"), "{exchange:?}");
    assert!(service.heard().is_empty(), "nothing was sent");
}
