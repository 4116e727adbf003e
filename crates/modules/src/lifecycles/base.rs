//! What all parts of lifecycles stand on.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use backstitch::clock::{Clock, Ids};
use backstitch::kernel::lifecycle::{Draft, Machine, Recorded};
use backstitch::outbox::Routes;
use backstitch::store::postgres::{Acting, PostgresStore};
use backstitch::store::product::Database;
use backstitch::store::sqlite::SqliteStore;
use backstitch::store::{self, Store, Writers};
use backstitch::watch::{Broadcast, Watchers};
use backstitch::{ArrivingAnswers, Engine, Timestamp, WorkerWaker};

use super::error::Error;
use super::instance_event::InstanceEvent;
use super::seats::Seats;
use super::standing::{Moved, Standing};
use crate::question::{Record, Statement, Value, answered, borrowed, on_file};

/// Batches that a server works on at the same time: one while another waits for the disk.
const WRITERS: usize = 2;
/// How many events a subscriber of everything can be behind.
const BUFFERED_EVENTS: usize = 4096;

/// What the parts share.
pub(super) struct Base {
    store: Arc<dyn Store>,
    /// Connections for transactions; none on a file.
    acting: Option<Acting>,
    /// What people call this process.
    pub(super) node: String,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    known: Known,
    pub(super) seats: Seats,
    /// Where its messages go.
    pub(super) routes: Routes,
    /// Readers of the logs of instances.
    pub(super) watchers: Arc<Watchers<Recorded>>,
    pub(super) events: Broadcast<Arc<InstanceEvent>>,
    /// Answers of outside workers that are being written.
    pub(super) arriving: ArrivingAnswers,
    wakers: EngineWakers,
}

/// What is woken in the engine after a commit.
struct EngineWakers {
    workers: WorkerWaker,
    relay: backstitch::outbox::RelayWaker,
}

/// The database.
pub(super) enum Side<'a> {
    Sqlite(&'a SqliteStore),
    Postgres(&'a PostgresStore, &'a Acting),
}

impl Base {
    pub(super) fn of(engine: &Engine) -> Result<Self, Error> {
        let acting = match engine.database() {
            Database::Sqlite(_) => None,
            Database::Postgres(server) => Some(server.acting_as(None, WRITERS + 1)?),
        };
        Ok(Self {
            store: engine.store().clone(),
            acting,
            node: engine.node().to_owned(),
            clock: engine.clock().clone(),
            ids: engine.ids().clone(),
            known: Known::default(),
            seats: Seats::default(),
            routes: engine.routes().clone(),
            watchers: engine.watchers(),
            events: Broadcast::new(BUFFERED_EVENTS),
            arriving: engine.arriving_answers(),
            wakers: EngineWakers { workers: engine.worker_waker(), relay: engine.relay() },
        })
    }

    pub(super) fn side(&self) -> Result<Side<'_>, store::Error> {
        match (self.store.database(), &self.acting) {
            (Database::Sqlite(file), _) => Ok(Side::Sqlite(file)),
            (Database::Postgres(server), Some(acting)) => Ok(Side::Postgres(server, acting)),
            _ => Err(store::Error::Refused("lifecycles have no database".to_owned())),
        }
    }

    /// Whether other processes may work on the same database.
    pub(super) fn is_shared(&self) -> bool {
        self.acting.is_some()
    }

    /// How decisions are written: a server takes several batches at the same time.
    pub(super) fn writers(&self) -> Writers {
        if self.is_shared() { Writers::Tasks(WRITERS) } else { self.store.writers() }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What a question calls the time now, with the values that takes: a server goes by its own clock.
    pub(super) fn clock_in_sql(&self) -> (&'static str, Vec<Value>) {
        if self.is_shared() { ("clock()", Vec::new()) } else { ("$1", vec![self.now().into()]) }
    }

    pub(super) fn new_id(&self) -> backstitch::SagaId {
        self.ids.next(self.clock.now())
    }

    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Asks what changes nothing.
    pub(super) async fn read(
        &self,
        statement: Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, store::Error> {
        self.ask(statement.sqlite.into(), statement.postgres, values).await
    }

    /// Asks with a text that both dialects understand but for the marks of its values.
    pub(super) async fn read_text(
        &self,
        sql: String,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, store::Error> {
        // A file would number `$1` by where it stands.
        self.ask(sql.replace('$', "?").into(), &sql, values).await
    }

    async fn ask(
        &self,
        sqlite: Cow<'static, str>,
        postgres: &str,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, store::Error> {
        match self.side()? {
            Side::Sqlite(file) => {
                file.read_product(move |connection| on_file(connection, &sqlite, &values)).await
            }
            Side::Postgres(server, _) => answered(&server.read_product(postgres, &borrowed(&values)).await?),
        }
    }

    /// Changes something, and says what it gave.
    pub(super) async fn change(
        &self,
        statement: Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, store::Error> {
        match self.side()? {
            Side::Sqlite(file) => {
                file.write_product(move |transaction| on_file(transaction, statement.sqlite, &values)).await
            }
            Side::Postgres(server, _) => {
                answered(&server.write_product(statement.postgres, &borrowed(&values)).await?)
            }
        }
    }

    /// Passes on events that are on disk.
    pub(super) fn publish(&self, moved: &Moved) {
        let Standing { id, machine, key, .. } = &moved.standing;
        self.watchers.notify(*id, &moved.events);
        for recorded in &moved.events {
            self.events.publish(machine, recorded.event.name(), || {
                let (machine, key) = (machine.clone(), key.clone());
                Some(Arc::new(InstanceEvent { id: *id, machine, key, recorded: recorded.clone() }))
            });
        }
    }

    /// Wakes the relay for messages, and workers for jobs.
    pub(super) fn wake(&self, has_messages: bool, has_jobs: bool) {
        if has_messages {
            self.wakers.relay.wake();
        }
        if has_jobs {
            self.wakers.workers.wake();
        }
    }
}

/// Machines that were read once. A version never changes.
#[derive(Default)]
pub(super) struct Known(RwLock<HashMap<(String, u32), Arc<Machine>>>);

impl Known {
    pub(super) fn get(&self, name: &str, version: u32) -> Option<Arc<Machine>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&(name.to_owned(), version)).cloned()
    }

    /// Reads a machine as it is kept.
    pub(super) fn read(&self, name: &str, version: u32, body: &str) -> Result<Arc<Machine>, store::Error> {
        let unreadable = |why: String| {
            store::Error::Refused(format!("version {version} of the machine `{name}` cannot be read: {why}"))
        };
        let draft: Draft = serde_json::from_str(body).map_err(|why| unreadable(why.to_string()))?;
        let machine = Arc::new(draft.check().map_err(|why| unreadable(why.to_string()))?);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Ok(known.entry((name.to_owned(), version)).or_insert(machine).clone())
    }
}
