//! What stands between a name and a connection.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;

use super::{Egress, Forbidden, Lookup};
use crate::outgoing::reach::Reach;

/// Lets connections go only where they may. A name is judged by the very addresses that are then connected to, so it
/// cannot lead one way while it is looked at and another way afterwards.
pub(in crate::webhooks) struct Guard {
    pub(in crate::webhooks) egress: Arc<Egress>,
    pub(in crate::webhooks) lookup: Arc<dyn Lookup>,
}

/// A name has no address.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` cannot be found: {why}")]
pub(in crate::webhooks) struct Unresolved {
    name: String,
    why: String,
}

impl Reach for Guard {
    fn find(&self, host: Name) -> BoxFuture<'static, Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>>> {
        let (egress, found) = (self.egress.clone(), self.lookup.addresses(host.as_str()));
        async move {
            let name = host.as_str();
            let unresolved = |why: String| Unresolved { name: name.to_owned(), why };
            let found = found.await.map_err(|why| unresolved(why.to_string()))?;
            let (open, closed) = judge(&egress, found);
            match (open.is_empty(), closed) {
                (false, _) => Ok(open),
                (true, Some(forbidden)) => {
                    Err(Forbidden { place: format!("{name} ({})", forbidden.place), ..forbidden }.into())
                }
                (true, None) => Err(unresolved("it has no address".to_owned()).into()),
            }
        }
        .boxed()
    }

    fn admit(&self, address: IpAddr) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.egress.admit(address)?)
    }
}

/// The addresses that are open, and the first that is not.
fn judge(egress: &Egress, found: Vec<IpAddr>) -> (Vec<IpAddr>, Option<Forbidden>) {
    let mut closed = None;
    let open = found
        .into_iter()
        .filter(|address| match egress.admit(*address) {
            Ok(()) => true,
            Err(why) => {
                closed.get_or_insert(why);
                false
            }
        })
        .collect();
    (open, closed)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Every name leads here.
    struct Here(Vec<&'static str>);

    impl Lookup for Here {
        fn addresses(&self, _: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, Arc<io::Error>>> {
            let found = self.0.iter().map(|address| address.parse().unwrap()).collect();
            std::future::ready(Ok(found)).boxed()
        }
    }

    async fn find(addresses: &[&'static str]) -> Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>> {
        let guard = Guard { egress: Arc::default(), lookup: Arc::new(Here(addresses.to_vec())) };
        guard.find("hooks.example.com".parse().unwrap()).await
    }

    #[tokio::test]
    async fn of_a_hosts_addresses_only_those_that_are_open_are_connected_to() {
        let found = find(&["10.0.0.1", "8.8.8.8", "::1", "2606:4700::1111"]).await.unwrap();
        assert_eq!(found, ["8.8.8.8", "2606:4700::1111"].map(|it| it.parse::<IpAddr>().unwrap()));
    }

    #[tokio::test]
    async fn a_host_whose_addresses_are_all_closed_is_closed_and_one_without_any_is_unknown() {
        let why = find(&["10.0.0.1", "127.0.0.1"]).await.unwrap_err();
        let forbidden = why.downcast_ref::<Forbidden>().unwrap();
        assert_eq!((forbidden.place.as_str(), forbidden.what), ("hooks.example.com (10.0.0.1)", "private"));
        assert!(find(&[]).await.unwrap_err().downcast_ref::<Unresolved>().is_some());
    }
}
