//! What all parts of webhooks stand on: the database under each part's own role, the clock, and who is woken by whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstitch::clock::{Clock, Ids};
use backstitch::group_commit::Pace;
use backstitch::store::postgres::{Acting, PostgresStore};
use backstitch::store::product::Database;
use backstitch::store::sqlite::SqliteStore;
use backstitch::store::{self, Store};
use backstitch::{ArrivingAnswers, Engine, SchemaName, Timestamp, WorkerWaker};
use tokio::sync::Notify;

use super::error::Error;
use super::subscription::RetryDefaults;
use crate::question::Value;

/// The longest interval between the starts of two transactions of one loop on a server.
const LONGEST_INTERVAL: Duration = Duration::from_millis(5);

/// A part of the product. Each touches only what is its own; on `PostgreSQL` the database sees to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Ingest,
    Orchestrator,
    Worker,
    DeadLetter,
    Subscriptions,
    Retention,
    /// Whoever only looks.
    Reading,
}

impl Part {
    const ALL: [Self; 7] = [
        Self::Ingest,
        Self::Orchestrator,
        Self::Worker,
        Self::DeadLetter,
        Self::Subscriptions,
        Self::Retention,
        Self::Reading,
    ];

    /// Roles belong to the whole server, so their names begin with that of the schema.
    fn role(self, schema: &SchemaName) -> Option<String> {
        let part = match self {
            Self::Ingest => "ingest",
            Self::Orchestrator => "orchestrator",
            Self::Worker => "worker",
            Self::DeadLetter => "dead_letter",
            Self::Subscriptions => "subscriptions",
            Self::Retention => "retention",
            Self::Reading => return None,
        };
        Some(format!("{schema}_{part}"))
    }

    /// Connections it needs at most: those who work in batches need few.
    fn connections(self) -> usize {
        match self {
            Self::Ingest | Self::Orchestrator | Self::Subscriptions | Self::Reading => 2,
            Self::Worker => 4,
            Self::DeadLetter | Self::Retention => 1,
        }
    }
}

/// Whether the database has the role of a part for us.
async fn usable(server: &PostgresStore, role: &str) -> Result<bool, Error> {
    let is_usable = server.may_act_as(role).await?;
    if !is_usable {
        tracing::warn!(
            role,
            "the database has no such role for us: this part of webhooks runs with all our rights; create the role, grant \
             it to our user and call {}.grant_webhook_roles()",
            server.schema()
        );
    }
    Ok(is_usable)
}

/// What the parts share.
pub(super) struct Base {
    store: Arc<dyn Store>,
    /// What people call this process.
    pub(super) node: String,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    /// Retries of subscriptions that do not say.
    pub(super) defaults: RetryDefaults,
    /// One for each part, in their order; none on a file, which has no roles.
    acting: Vec<Acting>,
    /// Roles that the database lacks for us: their parts act with all our rights.
    missing_roles: Vec<String>,
    /// Deliveries may wait for an attempt to begin.
    pub(super) waiting: Notify,
    /// There may be results that nobody has taken in.
    pub(super) reported: Notify,
    /// There may be jobs to lease.
    pub(super) jobs: Notify,
    /// The same for outside workers.
    workers: WorkerWaker,
    /// Reports on attempts, and answers of outside workers, that are being written.
    pub(super) arriving: ArrivingAnswers,
    offered: AtomicU64,
}

/// The database of a part.
pub(super) enum Side<'a> {
    Sqlite(&'a SqliteStore),
    Postgres(&'a Acting),
}

impl Base {
    pub(super) async fn of(engine: &Engine, defaults: RetryDefaults) -> Result<Self, Error> {
        let (mut acting, mut missing_roles) = (Vec::new(), Vec::new());
        match engine.database() {
            Database::Sqlite(_) => {}
            Database::Postgres(server) => {
                for part in Part::ALL {
                    let mut role = part.role(server.schema());
                    if let Some(name) = &role
                        && !usable(server, name).await?
                    {
                        missing_roles.extend(role.take());
                    }
                    acting.push(server.acting_as(role.as_deref(), part.connections())?);
                }
            }
        }
        Ok(Self {
            store: engine.store().clone(),
            node: engine.node().to_owned(),
            clock: engine.clock().clone(),
            ids: engine.ids().clone(),
            defaults,
            acting,
            missing_roles,
            waiting: Notify::new(),
            reported: Notify::new(),
            jobs: Notify::new(),
            workers: engine.worker_waker(),
            arriving: engine.arriving_answers(),
            offered: AtomicU64::new(0),
        })
    }

    /// Roles that the database lacked for us when it was opened.
    pub(super) fn missing_roles(&self) -> &[String] {
        &self.missing_roles
    }

    /// The database, as this part may use it.
    pub(super) fn side(&self, part: Part) -> Result<Side<'_>, store::Error> {
        match self.store.database() {
            Database::Sqlite(file) => Ok(Side::Sqlite(file)),
            Database::Postgres(_) => self
                .acting
                .get(part as usize)
                .map(Side::Postgres)
                .ok_or_else(|| store::Error::Refused("webhooks have no database".to_owned())),
        }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The time as a question's only value: a server goes by its own clock.
    pub(super) fn now_in_file(&self) -> Vec<Value> {
        if self.acting.is_empty() { vec![self.now().into()] } else { Vec::new() }
    }

    /// Batches that are worth writing at the same time: a server works on one while another waits for the disk.
    pub(super) fn writers(&self) -> usize {
        if self.acting.is_empty() { 1 } else { 2 }
    }

    /// The pace of one loop's transactions. Only a server has to be spared.
    pub(super) fn pace(&self) -> Pace {
        if self.acting.is_empty() { Pace::unlimited() } else { Pace::new(LONGEST_INTERVAL) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Wakes the orchestrator for deliveries that wait.
    pub(super) fn begin_soon(&self) {
        self.waiting.notify_one();
    }

    /// Wakes the orchestrator for what came of attempts.
    pub(super) fn take_in_soon(&self) {
        self.reported.notify_one();
    }

    /// How often whoever makes attempts was woken.
    pub(super) fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }

    /// Wakes whoever makes attempts.
    pub(super) fn work_soon(&self) {
        self.offered.fetch_add(1, Ordering::Relaxed);
        self.jobs.notify_one();
        self.workers.wake();
    }
}
