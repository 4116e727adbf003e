//! How hosts are found, and which of them connections may go to.

use std::error::Error;
use std::future::ready;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::Uri;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

type Failure = Box<dyn Error + Send + Sync>;

/// Finds hosts, and says whether connections may go there.
pub(crate) trait Reach: Send + Sync + 'static {
    /// The addresses of a host, only those that connections may go to.
    fn find(&self, host: Name) -> BoxFuture<'static, Result<Vec<IpAddr>, Failure>>;

    /// Whether a connection may go to an address that was written as one, and so is found without asking.
    fn admit(&self, address: IpAddr) -> Result<(), Failure>;
}

/// Every host that the machine can find.
pub(crate) struct Anywhere;

impl Reach for Anywhere {
    fn find(&self, host: Name) -> BoxFuture<'static, Result<Vec<IpAddr>, Failure>> {
        let found = GaiResolver::new().call(host);
        found.map_ok(|found| found.map(|address| address.ip()).collect()).map_err(Into::into).boxed()
    }

    fn admit(&self, _address: IpAddr) -> Result<(), Failure> {
        Ok(())
    }
}

/// The address that a host was written as, if it was.
pub(crate) fn literal(uri: &Uri) -> Option<IpAddr> {
    let host = uri.host()?;
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// A reach in the form in which a connector asks for addresses.
#[derive(Clone)]
pub(crate) struct Names(pub(super) Arc<dyn Reach>);

impl Service<Name> for Names {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Self::Response, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, host: Name) -> Self::Future {
        // The connector puts the port in the place of 0.
        let with_port = |address| SocketAddr::new(address, 0);
        let found = self.0.find(host);
        found
            .and_then(move |found| {
                ready(Ok(found.into_iter().map(with_port).collect::<Vec<_>>().into_iter()))
            })
            .boxed()
    }
}
