//! What every client that calls somebody holds itself to.

mod address;
mod body;
pub(crate) mod certificates;
pub(crate) mod header;
pub(crate) mod nats;
pub(crate) mod reach;
pub(crate) mod retry_after;

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

pub(crate) use address::Address;
pub(crate) use body::{Body, quoted};

use self::reach::{Names, Reach};

/// Who is calling.
pub(crate) const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("backstitch/", env!("CARGO_PKG_VERSION")));

/// How often a silent host is asked whether it is there, and how many answers may be missing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
const SIGNS_MISSED: u32 = 3;
/// How long a connection that nobody uses is kept: shorter than the five seconds after which common servers close one, so
/// that few calls are sent into one that is being closed.
const KEPT_FOR: Duration = Duration::from_secs(4);

/// A client that goes where it is told: it follows no redirect and no proxy of the environment, unpacks nothing, and
/// sends nothing twice.
pub(crate) type Client = legacy::Client<Connector, Full<Bytes>>;

/// How connections are made and kept.
pub(crate) struct Connections {
    /// How long one may take to be made, TLS included.
    pub(crate) made_within: Duration,
    /// How many that nobody uses are kept for each host.
    pub(crate) kept_per_host: usize,
    /// Certificates trusted beside those that the machine trusts.
    pub(crate) trusted: Vec<CertificateDer<'static>>,
    /// Where they may go.
    pub(crate) reach: Arc<dyn Reach>,
}

impl Connections {
    pub(crate) fn client(self) -> Result<Client, rustls::Error> {
        let mut http = HttpConnector::new_with_resolver(Names(self.reach.clone()));
        http.enforce_http(false);
        http.set_nodelay(true);
        // Divided between the addresses of a host: one that leads nowhere must not use up the time of the others.
        http.set_connect_timeout(Some(self.made_within));
        // An answer may take hours, and a host that is gone must not be waited for as long.
        http.set_keepalive(Some(SIGN_OF_LIFE));
        http.set_keepalive_interval(Some(SIGN_OF_LIFE));
        http.set_keepalive_retries(Some(SIGNS_MISSED));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls(self.trusted)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Ok(legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEPT_FOR)
            .pool_max_idle_per_host(self.kept_per_host)
            .build(Connector { https, reach: self.reach, within: self.made_within }))
    }
}

/// Makes connections, each to where it may go and within its time.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<HttpConnector<Names>>,
    reach: Arc<dyn Reach>,
    within: Duration,
}

/// No connection was made in time.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {0:?}")]
pub(crate) struct Late(Duration);

impl Service<Uri> for Connector {
    type Response = <HttpsConnector<HttpConnector<Names>> as Service<Uri>>::Response;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // Nobody is asked where an address is, so that no resolver could say no.
        if let Some(Err(why)) = reach::literal(&uri).map(|address| self.reach.admit(address)) {
            return Box::pin(std::future::ready(Err(why)));
        }
        let (connecting, within) = (self.https.call(uri), self.within);
        Box::pin(async move { tokio::time::timeout(within, connecting).await.map_err(|_| Late(within))? })
    }
}

/// An error's causes, without the address, which may hold secrets.
pub(crate) fn reason(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let told: Vec<String> = causes.map(ToString::to_string).collect();
    if told.is_empty() { "no reason given".to_owned() } else { told.join(": ") }
}

/// TLS that trusts whom the machine trusts, and these.
pub(crate) fn tls(trusted: Vec<CertificateDer<'static>>) -> Result<ClientConfig, rustls::Error> {
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
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}
