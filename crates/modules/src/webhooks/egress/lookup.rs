//! How a name becomes addresses.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

/// Finds the addresses of a name. What it finds is judged by others.
pub trait Lookup: Send + Sync + 'static {
    /// All of them, or why there are none.
    fn addresses(&self, name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, Arc<io::Error>>>;
}

type Asking = Shared<BoxFuture<'static, Result<Vec<IpAddr>, Arc<io::Error>>>>;

/// The machine's own way, `/etc/hosts` included.
///
/// A question occupies one of the machine's threads, for as long as a silent name server lets it wait, and cannot be
/// taken back. So all who ask for the same name at a time wait for one answer, and a name that nobody answers for takes
/// one thread from the others. An answer is not kept: the machine's resolver knows best how long it is good for.
#[derive(Clone, Default)]
pub struct SystemLookup(Arc<Mutex<HashMap<String, Asking>>>);

impl SystemLookup {
    fn ask(&self, name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, Arc<io::Error>>> {
        let (asking, name) = (self.0.clone(), name.to_owned());
        // In a task of its own: it ends although whoever began it has gone, and then the name can be asked for anew.
        let asked = tokio::spawn(async move {
            let found = match name.parse::<Name>() {
                Ok(host) => GaiResolver::new().call(host).await,
                Err(why) => Err(io::Error::other(why)),
            };
            asking.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            found.map(|found| found.map(|address| address.ip()).collect()).map_err(Arc::new)
        });
        asked.map(|ended| ended.unwrap_or_else(|why| Err(Arc::new(io::Error::other(why))))).boxed()
    }
}

impl Lookup for SystemLookup {
    fn addresses(&self, name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, Arc<io::Error>>> {
        let mut asking = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asked) = asking.get(name) {
            return asked.clone().boxed();
        }
        let asked = self.ask(name).shared();
        asking.insert(name.to_owned(), asked.clone());
        asked.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_found_and_one_that_is_none_is_not() {
        let lookup = SystemLookup::default();
        let found = lookup.addresses("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(lookup.addresses("nowhere.invalid").await.is_err());
        assert!(lookup.0.lock().unwrap().is_empty(), "nothing is kept");
    }

    #[tokio::test]
    async fn all_who_ask_for_a_name_at_a_time_wait_for_one_answer() {
        let lookup = SystemLookup::default();
        let asked: Vec<_> = (0..100).map(|_| lookup.addresses("localhost")).collect();
        assert_eq!(lookup.0.lock().unwrap().len(), 1);
        for found in asked {
            assert!(found.await.is_ok());
        }
        drop(lookup.addresses("localhost"));
        assert!(lookup.addresses("localhost").await.is_ok(), "whoever leaves takes nothing from the others");
    }
}
