//! A database of each kind, services to call, and what both of them know.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use backstitch_server::demo::services::{Behaviour, Call, Phase, Service, Services};
use backstitch_testkit::postgres::fresh_database;
use futures::FutureExt;
use rusqlite::types::ValueRef;
use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::shop::Shop;
use crate::support::{Program, within};

/// A process that is killed is missed soon.
pub(crate) const MISSED_SOON: [(&str, &str); 2] =
    [("BACKSTITCH_SAGAS_LEASE", "2s"), ("BACKSTITCH_SAGAS_TICK", "100ms")];

/// A database, empty at first, that servers can be started on one after the other, and the services they call.
pub(crate) struct Stage {
    store: Store,
    pub(crate) services: Services,
}

enum Store {
    Sqlite(TempDir),
    Postgres(String),
}

/// Plays a scene on each kind of database, both at the same time.
pub(crate) async fn on_both_stores(scene: impl AsyncFn(Stage)) {
    let sqlite = Stage::on(Store::Sqlite(tempfile::tempdir().unwrap())).await;
    let postgres = Stage::on(Store::Postgres(fresh_database().await)).await;
    let play = async |name: &str, stage: Stage| {
        if let Err(panic) = AssertUnwindSafe(Box::pin(scene(stage))).catch_unwind().await {
            eprintln!("on {name}");
            resume_unwind(panic);
        }
    };
    tokio::join!(play("SQLite", sqlite), play("PostgreSQL", postgres));
}

impl Stage {
    async fn on(store: Store) -> Self {
        Self { store, services: Services::start(Behaviour::Succeed).await.unwrap() }
    }

    pub(crate) fn db(&self) -> String {
        match &self.store {
            Store::Sqlite(folder) => format!("sqlite:{}", folder.path().join("orders.db").display()),
            Store::Postgres(address) => address.clone(),
        }
    }

    /// Whether several processes can work on it at once.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.store, Store::Postgres(_))
    }

    /// A server that knows where the services are.
    pub(crate) async fn open(&self) -> Shop {
        self.open_with(&[]).await
    }

    /// The same with other settings.
    pub(crate) async fn open_with(&self, settings: &[(&str, &str)]) -> Shop {
        let url = |service, phase| self.services.url(service, phase);
        let places = Service::ALL.map(|service| {
            let name = service.name().to_uppercase();
            [
                (format!("BACKSTITCH_ORDERS_{name}_URL"), url(service, Phase::Do)),
                (format!("BACKSTITCH_ORDERS_{name}_ROLLBACK_URL"), url(service, Phase::Undo)),
            ]
        });
        let places: Vec<_> = places.as_flattened().iter().map(|(name, url)| (&**name, &**url)).collect();
        self.serve(&[&places, settings].concat()).await
    }

    /// A server that nobody has told where the services are.
    pub(crate) async fn open_unconfigured(&self) -> Shop {
        self.serve(&[]).await
    }

    async fn serve(&self, settings: &[(&str, &str)]) -> Shop {
        let usual = [("BACKSTITCH_LOG_LEVEL", "error"), ("BACKSTITCH_ORDERS_ROLLBACK_DELAY", "1ms")];
        let program = Program::serve(&self.db(), &[&usual, settings].concat()).await;
        Shop { client: program.client.clone(), program }
    }

    /// Waits for the first call of an order that is `wanted`.
    pub(crate) async fn called(&self, order: &str, wanted: impl Fn(&Call) -> bool) -> Call {
        within(self.services.heard(|call| call.saga == order && wanted(call))).await
    }

    /// Waits until a service was asked to do its part for an order.
    pub(crate) async fn asked_to_do(&self, order: &str, service: Service) -> Call {
        self.called(order, |call| call.service == service && call.phase == Phase::Do).await
    }

    /// Waits until a service was asked to undo its part for an order.
    pub(crate) async fn asked_to_undo(&self, order: &str, service: Service) -> Call {
        self.called(order, |call| call.service == service && call.phase == Phase::Undo).await
    }

    /// Every call for an order, in the order they came.
    pub(crate) fn calls(&self, order: &str) -> Vec<Call> {
        self.services.calls().into_iter().filter(|call| call.saga == order).collect()
    }

    /// The same in words: `do payment`.
    pub(crate) fn called_so_far(&self, order: &str) -> Vec<String> {
        let words = |call: &Call| format!("{} {}", call.phase.as_str(), call.service.name());
        self.calls(order).iter().map(words).collect()
    }

    /// What was done for an order and not undone. Nothing is ever done twice.
    pub(crate) fn in_effect(&self, order: &str) -> Vec<&'static str> {
        let applied = self.services.applied().into_iter().filter(|applied| applied.saga == order);
        applied
            .inspect(|applied| assert_eq!(applied.times, 1))
            .map(|applied| applied.service.name())
            .collect()
    }

    /// Asks the database itself.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        match &self.store {
            Store::Sqlite(_) => self.sqlite_rows(sql).unwrap(),
            Store::Postgres(address) => postgres_rows(address, sql).await.unwrap(),
        }
    }

    /// Asks the database itself for what it has to refuse, and gives its reason.
    pub(crate) async fn refusal(&self, sql: &str) -> String {
        match &self.store {
            Store::Sqlite(_) => self.sqlite_rows(sql).unwrap_err().to_string(),
            Store::Postgres(address) => {
                let refused = postgres_rows(address, sql).await.unwrap_err();
                refused.as_db_error().unwrap().message().to_owned()
            }
        }
    }

    /// An id in SQL as plain text, without hyphens.
    pub(crate) fn id(&self, column: &str) -> String {
        match self.store {
            Store::Sqlite(_) => format!("lower(hex({column}))"),
            Store::Postgres(_) => format!("replace({column}::text, '-', '')"),
        }
    }

    /// The view `transaction_log` of an order: number, service, status and error.
    pub(crate) async fn view(&self, order: &str) -> Vec<Vec<Option<String>>> {
        let (id, order) = (self.id("tx_id"), order.replace('-', ""));
        let sql = format!(
            "select seq, service, status, error from transaction_log where {id} = '{order}' order by seq"
        );
        self.rows(&sql).await
    }

    fn sqlite_rows(&self, sql: &str) -> rusqlite::Result<Vec<Vec<Option<String>>>> {
        let db = self.db();
        let connection = rusqlite::Connection::open(db.strip_prefix("sqlite:").unwrap())?;
        connection.busy_timeout(Duration::from_secs(20))?;
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| {
            let texts = (0..columns).map(|column| row.get_ref(column).map(as_text));
            texts.collect::<rusqlite::Result<Vec<_>>>()
        };
        statement.query_map([], read)?.collect()
    }
}

fn as_text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
        ValueRef::Real(_) | ValueRef::Blob(_) => panic!("ask for text"),
    }
}

async fn postgres_rows(address: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    let _connection = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
    client.batch_execute("set search_path = backstitch").await?;
    let said = client.simple_query(sql).await?;
    let row = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
        }
        _ => None,
    };
    Ok(said.into_iter().filter_map(row).collect())
}
