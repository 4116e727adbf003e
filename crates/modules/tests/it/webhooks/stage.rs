//! Webhooks in a database of their own, on both kinds, where time stands still until it is moved.

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::{Clock as _, ManualClock};
use backstitch::delivery::limiter::{Limiter, LimiterSettings};
use backstitch::delivery::membership::MembershipSettings;
use backstitch::kernel::delivery::Status;
use backstitch::retention::Retention;
use backstitch::store::Store;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::sqlite::{SqliteStore, allow_guarded_writes};
use backstitch::{Engine, Options, Payload, Timestamp};
use backstitch_modules::randomness::SystemRandomness;
use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::vault::Vault;
use backstitch_modules::webhooks::{
    self, Accepted, Answered, Ask, Dispatch, Leased, Membership, NewEvent, Registrar, Report, Saga,
    Subscription, Terms, Webhooks, membership,
};
use backstitch_testkit::shelf::Shelf;
use backstitch_testkit::{obstacle, postgres, reopen, unguarded};
use tokio_postgres::{Client, NoTls};

pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// The first wait of [`Stage::subscribe`].
pub(crate) const BASE: Duration = Duration::from_secs(5);

/// Takes the place of the schema's own clock, which goes by the server's. Every role may look at it.
const CLOCK: &str = "
    create table backstitch.test_clock (micros bigint not null);
    insert into backstitch.test_clock values (0);
    create or replace function backstitch.clock() returns timestamptz
    language sql stable security definer set search_path = backstitch as $$
        select timestamptz 'epoch' + micros * interval '1 microsecond' from backstitch.test_clock
    $$;
";

/// Where the tables are.
pub(crate) enum Place {
    Sqlite(tempfile::TempDir),
    Postgres { address: String, session: Client },
}

/// Webhooks, and their database, which goes last.
pub(crate) struct Stage {
    pub(crate) webhooks: Webhooks,
    pub(crate) membership: Arc<Membership>,
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<ManualClock>,
    /// What was exported since the engine was opened.
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) place: Place,
}

impl Stage {
    /// On each database.
    pub(crate) async fn each() -> [Self; 2] {
        [Self::sqlite().await, Self::postgres().await]
    }

    pub(crate) async fn sqlite() -> Self {
        let clock = some_day();
        let folder = tempfile::tempdir().unwrap();
        let store = open_file(&folder, &clock).await;
        Self::on(store, clock, Place::Sqlite(folder)).await
    }

    pub(crate) async fn postgres() -> Self {
        let clock = some_day();
        let address = postgres::migrated_database(&[&webhooks::SCHEMA]).await;
        let store = PostgresStore::connect_with(&address, &[&webhooks::SCHEMA]).await.unwrap();
        let session = session(&address).await;
        session.batch_execute(CLOCK).await.unwrap();
        show_time(&session, &clock).await;
        Self::on(Arc::new(store), clock, Place::Postgres { address, session }).await
    }

    async fn on(store: Arc<dyn Store>, clock: Arc<ManualClock>, place: Place) -> Self {
        let shelf = Arc::new(Shelf::default());
        let retention = Retention { archive: Some(shelf.clone()), ..Retention::default() };
        // The database's clock is read once only: it is moved a moment after this one.
        let lease = Duration::from_secs(24 * 3600);
        let options = Options { clock: clock.clone(), retention, lease, ..Options::default() };
        let engine = Engine::on_store(store, options).await.unwrap();
        if let Place::Postgres { session, .. } = &place {
            // From here on the engine says nothing more: its lease is long.
            let silent = "select from backstitch.nodes where answers_written_until is null";
            while !session.query(silent, &[]).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let webhooks = Webhooks::open(&engine).await.unwrap();
        let membership = Arc::new(membership(&webhooks.jobs, MembershipSettings::default()));
        Self { webhooks, membership, engine, clock, shelf, place }
    }

    /// As after a crash: nothing in memory is left, and somebody else takes over.
    pub(crate) async fn crash(self) -> Self {
        let Self { webhooks, membership, engine, clock, place, .. } = self;
        let store = Arc::downgrade(engine.store());
        drop((webhooks, membership));
        engine.shutdown().await.unwrap();
        // What still writes lets go once it has seen that nobody asks any more.
        while store.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        match place {
            Place::Sqlite(folder) => {
                let store = open_file(&folder, &clock).await;
                Self::on(store, clock, Place::Sqlite(folder)).await
            }
            Place::Postgres { address, session } => {
                let store = PostgresStore::connect_with(&address, &[&webhooks::SCHEMA]).await.unwrap();
                Self::on(Arc::new(store), clock, Place::Postgres { address, session }).await
            }
        }
    }

    /// More of the same parts on the same database, as on another node.
    pub(crate) async fn another(&self) -> Webhooks {
        Webhooks::open(&self.engine).await.unwrap()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets time pass.
    pub(crate) async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.show_time().await;
    }

    async fn show_time(&self) {
        if let Place::Postgres { session, .. } = &self.place {
            show_time(session, &self.clock).await;
            // As a node does that has written everything.
            session.execute("update backstitch.nodes set answers_written_until = null", &[]).await.unwrap();
        }
    }

    /// Runs a statement that both dialects understand, with all rights and as Backstitch itself would; how many rows it
    /// changed, or why it was refused.
    pub(crate) async fn execute(&self, statement: &str) -> Result<u64, String> {
        match &self.place {
            Place::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(folder.path().join("hooks.db")).unwrap();
                connection.busy_timeout(backstitch_testkit::PATIENCE).unwrap();
                allow_guarded_writes(&connection).unwrap();
                connection.execute(statement, []).map(|rows| rows as u64).map_err(|why| why.to_string())
            }
            Place::Postgres { session, .. } => {
                let refused = |why: tokio_postgres::Error| why.as_db_error().unwrap().message().to_owned();
                session.execute(statement, &[]).await.map_err(refused)
            }
        }
    }

    /// Has the database reject an event of the rows that meet a condition.
    pub(crate) async fn obstruct(&self, table: &str, event: &str, condition: &str) {
        let sql = match &self.place {
            Place::Sqlite(_) => obstacle::on_sqlite(table, event, condition),
            Place::Postgres { .. } => obstacle::on_postgres(table, event, condition),
        };
        self.execute(&sql).await.unwrap();
    }

    pub(crate) async fn clear(&self, table: &str) {
        let sql = match &self.place {
            Place::Sqlite(_) => obstacle::gone_on_sqlite(table),
            Place::Postgres { .. } => obstacle::gone_on_postgres(table),
        };
        self.execute(&sql).await.unwrap();
    }

    /// The same for statements on a table whose guards are off, for rows as a defect could have left them.
    pub(crate) async fn execute_unguarded(&self, table: &str, sql: &str) {
        match &self.place {
            Place::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(folder.path().join("hooks.db")).unwrap();
                connection.busy_timeout(backstitch_testkit::PATIENCE).unwrap();
                unguarded::on_sqlite(&connection, table, sql).unwrap();
            }
            Place::Postgres { session, .. } => {
                session.batch_execute(&unguarded::on_postgres(table, sql)).await.unwrap();
            }
        }
    }

    /// The one number that a statement gives.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        match &self.place {
            Place::Sqlite(folder) => {
                let connection = rusqlite::Connection::open(folder.path().join("hooks.db")).unwrap();
                connection.query_row(statement, [], |row| row.get(0)).unwrap()
            }
            Place::Postgres { session, .. } => session.query_one(statement, &[]).await.unwrap().get(0),
        }
    }

    /// Somebody who wants events of these types, tried `limit` times.
    pub(crate) async fn subscribe(&self, types: &[&str], limit: u32) -> Subscription {
        let types = types.iter().map(|&name| name.to_owned()).collect();
        let terms = Terms {
            max_retry_limit: limit,
            base_delay: BASE,
            ..Terms::to("https://example.com/hooks", types)
        };
        self.registrar_to(Egress::default()).create(&terms, &[], None).await.unwrap().0
    }

    /// Makes subscriptions that lead where this egress lets them.
    pub(crate) fn registrar_to(&self, egress: Egress) -> Registrar {
        let (subscriptions, randomness) = (self.webhooks.subscriptions.clone(), Arc::new(SystemRandomness));
        Registrar::new(subscriptions, egress, vault(), randomness)
    }

    /// Hands out what waits, by the usual limits.
    pub(crate) fn dispatch(&self) -> Arc<Dispatch> {
        self.dispatch_within(Limiter::new(LimiterSettings::default()))
    }

    /// Hands out what waits, as far as this limiter has places.
    pub(crate) fn dispatch_within(&self, limiter: Limiter<i64>) -> Arc<Dispatch> {
        self.dispatch_as(self.membership.clone(), &self.webhooks, limiter)
    }

    /// The same on another node.
    pub(crate) fn dispatch_as(
        &self,
        membership: Arc<Membership>,
        node: &Webhooks,
        limiter: Limiter<i64>,
    ) -> Arc<Dispatch> {
        Arc::new(Dispatch::new(node.jobs.clone(), membership, limiter, vault(), self.clock.clone()))
    }

    /// Tells of an order.
    pub(crate) async fn tell(&self, id: &str) -> Accepted {
        self.webhooks.ingest.accept(order_created(id)).await.unwrap()
    }

    /// Decides what there is to decide.
    pub(crate) async fn decide(&self) -> webhooks::Progress {
        self.webhooks.orchestrator.settle().await.unwrap()
    }

    /// The delivery of an event that went to one subscription.
    pub(crate) async fn saga_of(&self, event: i64) -> Saga {
        let filter = webhooks::Filter { event_id: Some(event), ..webhooks::Filter::default() };
        let mut page = self.webhooks.deliveries.list(&filter, 10, None).await.unwrap();
        assert_eq!(page.items.len(), 1);
        page.items.remove(0)
    }

    pub(crate) async fn saga(&self, id: i64) -> Saga {
        self.webhooks.deliveries.get(id).await.unwrap()
    }

    /// Leases all there is in every lane.
    pub(crate) async fn lease(&self) -> Vec<Leased> {
        let lanes = self.webhooks.jobs.lanes(0, 100).await.unwrap();
        let lanes: Vec<_> = lanes.open.iter().map(|lane| (lane.id, 100)).collect();
        self.webhooks.jobs.lease(&asks(&lanes)).await.unwrap()
    }

    pub(crate) async fn lease_one(&self) -> Leased {
        let mut leased = self.lease().await;
        assert_eq!(leased.len(), 1);
        leased.remove(0)
    }

    /// Reports that an attempt arrived.
    pub(crate) async fn arrived(&self, leased: &Leased) -> Answered {
        self.webhooks.jobs.report(success(leased)).await.unwrap()
    }

    /// Reports that an attempt failed.
    pub(crate) async fn failed(&self, leased: &Leased, code: &str) -> Answered {
        self.webhooks.jobs.report(failure(leased, code)).await.unwrap()
    }

    /// Fails attempts until the delivery is given up.
    pub(crate) async fn exhaust(&self, delivery: i64) {
        loop {
            self.decide().await;
            let saga = self.saga(delivery).await;
            match saga.status {
                Status::DeadLettered => return,
                Status::PendingRetry => self.advance(saga.next_attempt_at.since(self.now())).await,
                _ => {
                    for leased in self.lease().await {
                        self.failed(&leased, "http_500").await;
                    }
                }
            }
        }
    }

    /// A delivery of a new event to a new subscription, given up after its only attempt.
    pub(crate) async fn dead_letter(&self, id: &str) -> Saga {
        self.subscribe(&["order.created"], 1).await;
        let event = self.tell(id).await.event;
        let saga = self.saga_of(event).await;
        self.exhaust(saga.id).await;
        self.saga(saga.id).await
    }
}

pub(crate) async fn session(address: &str) -> Client {
    let (session, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    session.batch_execute("set search_path = backstitch").await.unwrap();
    session
}

async fn show_time(session: &Client, clock: &ManualClock) {
    let now = clock.now().as_micros();
    session.execute("update backstitch.test_clock set micros = $1", &[&now]).await.unwrap();
}

async fn open_file(folder: &tempfile::TempDir, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    let path = folder.path().join("hooks.db");
    Arc::new(reopen(async || Ok(SqliteStore::open_with(&path, clock.clone(), &[&webhooks::SCHEMA])?)).await)
}

fn some_day() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_micros(1_767_225_600_000_000)))
}

pub(crate) fn order_created(id: &str) -> NewEvent {
    let payload = Payload::parse(format!("{{\"order\" : \"{id}\"}}")).unwrap();
    NewEvent { id: Some(id.to_owned()), kind: "order.created".to_owned(), payload }
}

pub(crate) fn success(leased: &Leased) -> Report {
    Report { job: leased.job, token: leased.token, response_code: Some(204), ..Report::default() }
}

pub(crate) fn failure(leased: &Leased, code: &str) -> Report {
    Report { error_code: Some(code.to_owned()), response_code: Some(500), ..success(leased) }
}

fn vault() -> Vault {
    Vault::new(&[7; 32]).unwrap()
}

/// So many of each lane, for the usual time.
pub(crate) fn asks(lanes: &[(i64, usize)]) -> Vec<Ask> {
    lanes.iter().map(|&(lane, most)| Ask { lane, most, lease: LEASE, as_of: Timestamp::default() }).collect()
}
