//! How a name becomes addresses.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Questions under way at once. They share the process's threads for whatever blocks with reads of a SQLite file, and a
/// silent name server keeps each for many seconds: so they get an eighth of these threads, of which Tokio has 512. Half of
/// them are for names that were found the last time, so that those that nobody answers for hold up no other.
const AT_ONCE: usize = 64;
/// Which names were found is forgotten when there are more than this.
const MANY_NAMES: usize = 10_000;

/// Finds the addresses of a name. What it finds is judged by others.
pub trait Lookup: Send + Sync + 'static {
    /// All of them, or why there are none.
    fn addresses(&self, name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, Arc<io::Error>>>;
}

type Found = Result<Vec<IpAddr>, Arc<io::Error>>;
type Asking = Shared<BoxFuture<'static, Found>>;
/// Asks, and blocks until there is an answer.
type Ask = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The machine's own way, `/etc/hosts` included.
///
/// A question occupies one of the machine's threads, for as long as a silent name server lets it wait, and cannot be
/// taken back. So all who ask for the same name at a time wait for one answer, and a name that nobody answers for takes
/// one thread from the others. Of many such names the later ones wait for their turn, and whoever asks for them as long as
/// they like: what nobody waits for any more is not asked. Names that were found the last time have turns of their own. An
/// answer is not kept: the machine's resolver knows best how
/// long it is good for.
#[derive(Clone)]
pub struct SystemLookup {
    ask: Arc<Ask>,
    turns: Arc<Turns>,
    asking: Arc<Mutex<HashMap<String, Asking>>>,
}

/// Who may ask at a time.
struct Turns {
    /// Names that were found the last time.
    found: Mutex<HashSet<String>>,
    of_found: Semaphore,
    of_others: Semaphore,
}

impl Turns {
    fn of(&self, name: &str) -> &Semaphore {
        if self.found().contains(name) { &self.of_found } else { &self.of_others }
    }

    fn remember(&self, name: String, is_found: bool) {
        let mut found = self.found();
        if !is_found {
            found.remove(&name);
            return;
        }
        if found.len() >= MANY_NAMES {
            found.clear();
        }
        found.insert(name);
    }

    fn found(&self) -> MutexGuard<'_, HashSet<String>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SystemLookup {
    fn default() -> Self {
        Self::by(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl SystemLookup {
    fn by(ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        let half = || Semaphore::new(AT_ONCE / 2);
        let turns = Turns { found: Mutex::default(), of_found: half(), of_others: half() };
        Self { ask: Arc::new(ask), turns: Arc::new(turns), asking: Arc::default() }
    }

    fn begin(&self, name: &str) -> BoxFuture<'static, Found> {
        let (lookup, name) = (self.clone(), name.to_owned());
        // In a task of its own: it ends although whoever began it has gone, and then the name can be asked for anew.
        let asked = tokio::spawn(async move { lookup.ask_in_turn(name).await.map_err(Arc::new) });
        asked.map(|ended| ended.unwrap_or_else(|why| Err(Arc::new(io::Error::other(why))))).boxed()
    }

    async fn ask_in_turn(&self, name: String) -> io::Result<Vec<IpAddr>> {
        let _turn = self.turns.of(&name).acquire().await.map_err(io::Error::other)?;
        if self.is_forgotten(&name) {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        let (ask, asked) = (self.ask.clone(), name.clone());
        let found = spawn_blocking(move || ask(&asked)).await.map_err(io::Error::other).flatten();
        self.lock().remove(&name);
        self.turns.remember(name, found.is_ok());
        found
    }

    /// Whether nobody waits for this name any more, who then has to ask for it anew.
    fn is_forgotten(&self, name: &str) -> bool {
        let mut asking = self.lock();
        // One of those who hold it is the list itself.
        let is_forgotten = asking.get(name).and_then(Shared::strong_count).is_none_or(|holders| holders <= 1);
        if is_forgotten {
            asking.remove(name);
        }
        is_forgotten
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Asking>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lookup for SystemLookup {
    fn addresses(&self, name: &str) -> BoxFuture<'static, Found> {
        let mut asking = self.lock();
        if let Some(asked) = asking.get(name) {
            return asked.clone().boxed();
        }
        let asked = self.begin(name).shared();
        asking.insert(name.to_owned(), asked.clone());
        asked.boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc;
    use std::time::Duration;

    use backstitch::Engine;
    use tokio::runtime;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_name_is_found_and_one_that_is_none_is_not() {
        let lookup = SystemLookup::default();
        let found = lookup.addresses("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(lookup.addresses("nowhere.invalid").await.is_err());
        assert!(lookup.lock().is_empty(), "nothing is kept");
    }

    #[tokio::test]
    async fn all_who_ask_for_a_name_at_a_time_wait_for_one_answer() {
        let lookup = SystemLookup::default();
        let asked: Vec<_> = (0..100).map(|_| lookup.addresses("localhost")).collect();
        assert_eq!(lookup.lock().len(), 1);
        for found in asked {
            assert!(found.await.is_ok());
        }
        drop(lookup.addresses("localhost"));
        assert!(lookup.addresses("localhost").await.is_ok(), "whoever leaves takes nothing from the others");
    }

    #[test]
    fn silent_name_servers_leave_threads_for_reads_of_a_file_and_are_not_asked_in_vain() {
        let threads = runtime::Builder::new_multi_thread()
            .max_blocking_threads(AT_ONCE + 2)
            .enable_all()
            .build()
            .unwrap();
        // Dropped before the threads are, which wait for it.
        let (open, gate) = mpsc::channel::<()>();
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let gate = Mutex::new(gate);
        let lookup = SystemLookup::by(move |name| {
            let _ = begun.send(name.to_owned());
            if name.starts_with("silent") {
                let _ = gate.lock().unwrap().recv();
            }
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        });
        threads.block_on(async move {
            let folder = tempfile::tempdir().unwrap();
            let file = format!("sqlite:{}", folder.path().join("sagas.db").display());
            let engine = Engine::open(&file).await.unwrap();
            timeout(LONG, lookup.addresses("known")).await.unwrap().unwrap();
            begins.recv().await.unwrap();
            let silent: Vec<_> =
                (0..AT_ONCE * 10).map(|nth| lookup.addresses(&format!("silent-{nth}"))).collect();
            for _ in 0..AT_ONCE / 2 {
                timeout(LONG, begins.recv()).await.unwrap().unwrap();
            }
            timeout(LONG, engine.message(1)).await.expect("a read goes on meanwhile").unwrap();
            let late = timeout(Duration::from_millis(50), lookup.addresses("late")).await;
            assert!(late.is_err(), "it waits for its turn, for as long as whoever asks likes");
            timeout(LONG, lookup.addresses("known")).await.expect("what was found before is found").unwrap();
            begins.recv().await.unwrap();
            drop((silent, open));
            timeout(LONG, lookup.addresses("in-time")).await.unwrap().unwrap();
            assert_eq!(begins.try_recv().as_deref(), Ok("in-time"), "nobody waits for the others any more");
            assert!(begins.try_recv().is_err());
            engine.shutdown().await.unwrap();
        });
    }
}
