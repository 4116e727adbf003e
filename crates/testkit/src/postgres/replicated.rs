//! A primary with a synchronous standby, for failover tests.

use backstitch::store::postgres::PostgresStore;
use backstitch::store::product::Schema;
use tokio::task::JoinHandle;

use super::{POLL_INTERVAL, Session, ThrowawayPostgres};
use crate::PATIENCE;

/// Part of the statement that confirms a lookup.
pub const CONFIRM: &str = "pg_logical_emit_message";

/// A primary, its synchronous standby, and a migrated database of both.
#[derive(Debug)]
pub struct Replicated {
    /// The primary.
    pub primary: ThrowawayPostgres,
    /// The standby.
    pub standby: ThrowawayPostgres,
    /// The database on the primary.
    pub address: String,
}

/// A test fails by panicking.
fn done<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|why| panic!("{what}: {why}"))
}

impl Replicated {
    /// Starts both, with the tables of these products.
    ///
    /// # Panics
    ///
    /// When a server does not start, or refuses the tables.
    pub async fn start(products: &[&Schema]) -> Self {
        let primary = done("the primary", ThrowawayPostgres::start());
        let address = done("its database", primary.create_database().await);
        done("its tables", PostgresStore::connect_with(&address, products).await);
        let standby = done("the standby", primary.start_standby().await);
        Self { primary, standby, address }
    }

    /// Waits until a statement with these words waits for the standby, and returns its process id. The request that
    /// sent it must not
    /// end before.
    ///
    /// # Panics
    ///
    /// When the request ends, or no such statement waits.
    pub async fn until_waiting<T>(&self, words: &str, request: &JoinHandle<T>) -> i32 {
        let pid = self.primary.until_waiting_for_standby(words, PATIENCE);
        let ends = async {
            while !request.is_finished() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::select! {
            pid = pid => done(words, pid),
            () = ends => panic!("it was answered before the standby had it"),
        }
    }

    /// Ends a process's wait with a function of the server, such as `pg_terminate_backend`.
    ///
    /// # Panics
    ///
    /// When the server refuses.
    pub async fn end(&self, how: &str, pid: i32) {
        let session = done("a session", Session::open(&self.address).await);
        let ended = session.client.query_one(&format!("select {how}($1)"), &[&pid]).await;
        assert!(done(how, ended).get::<_, bool>(0), "the fault did not strike");
        session.close().await;
    }

    /// The primary crashes and recovers: it then shows rows that only it has committed.
    ///
    /// # Panics
    ///
    /// When it does not start again.
    pub fn crash_primary(&mut self) {
        done("the primary's crash", self.primary.stop_immediate());
        done("the primary's recovery", self.primary.start_again());
    }

    /// The primary is lost, and the standby is promoted. Returns the address of the same database there.
    ///
    /// # Panics
    ///
    /// When the standby is not promoted.
    pub async fn fail_over(&mut self) -> String {
        done("the primary's end", self.primary.stop_immediate());
        if self.standby.pid().is_none() {
            done("the standby", self.standby.start_again());
        }
        done("its promotion", self.standby.promote().await);
        let database = self.address.rsplit_once('/').map_or("", |(_, database)| database);
        self.standby.url(database)
    }

    /// Awaits a request.
    ///
    /// # Panics
    ///
    /// When it does not finish.
    pub async fn answer<T>(request: JoinHandle<T>) -> T {
        done("the request", done("no answer", tokio::time::timeout(PATIENCE, request).await))
    }
}
