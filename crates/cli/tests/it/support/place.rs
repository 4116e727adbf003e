//! A database of each kind, for several servers in turn.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use backstitch::clock::{Clock, SystemClock};
use backstitch::store::sqlite::allow_guarded_writes;
use backstitch_server::{Config, admin};
use backstitch_testkit::unguarded;
use futures::FutureExt;
use rusqlite::types::ValueRef;
use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// A database, without data at first.
pub(crate) enum Place {
    Sqlite(TempDir),
    Postgres(String),
}

/// Plays a scene on each kind of database, both at the same time.
pub(crate) async fn on_both(scene: impl AsyncFn(Place)) {
    let sqlite = Place::Sqlite(tempfile::tempdir().unwrap());
    let postgres = Place::Postgres(fresh_database().await);
    let play = async |name: &str, place: Place| {
        if let Err(panic) = AssertUnwindSafe(Box::pin(scene(place))).catch_unwind().await {
            eprintln!("on {name}");
            resume_unwind(panic);
        }
    };
    tokio::join!(play("SQLite", sqlite), play("PostgreSQL", postgres));
}

/// A `PostgreSQL` database with the tables of the engine, of its products and of the server.
pub(crate) async fn fresh_database() -> String {
    backstitch_testkit::postgres::database_from("server", migrate).await
}

async fn migrate(db: &str) {
    let config = Config { db: db.to_owned(), ..Config::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    admin::migrate(&config, &clock).await.unwrap();
}

impl Place {
    /// Its address.
    pub(crate) fn db(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("backstitch.db").display()),
            Self::Postgres(address) => address.clone(),
        }
    }

    /// Creates the tables of the engine, of its products and of the server.
    pub(crate) async fn migrate(&self) {
        migrate(&self.db()).await;
    }

    /// Whether several processes can work on it at once.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Asks the database itself, as Backstitch would.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        match self {
            Self::Sqlite(_) => {
                let connection = self.sqlite().unwrap();
                allow_guarded_writes(&connection).unwrap();
                sqlite_rows(&connection, sql).unwrap()
            }
            Self::Postgres(address) => postgres_rows(address, sql).await.unwrap(),
        }
    }

    /// Asks the database itself for what it has to refuse to other programs, and gives its reason.
    pub(crate) async fn refusal(&self, sql: &str) -> String {
        match self {
            Self::Sqlite(_) => sqlite_rows(&self.sqlite().unwrap(), sql).unwrap_err().to_string(),
            Self::Postgres(address) => {
                let refused = postgres_rows(address, sql).await.unwrap_err();
                refused.as_db_error().unwrap().message().to_owned()
            }
        }
    }

    /// Runs a statement on a table whose guards are off, for rows as a defect could have left them.
    pub(crate) async fn unguarded(&self, table: &str, sql: &str) {
        match self {
            Self::Sqlite(_) => {
                let connection = self.sqlite().unwrap();
                unguarded::on_sqlite(&connection, table, sql).unwrap();
            }
            Self::Postgres(address) => {
                postgres_rows(address, &unguarded::on_postgres(table, sql)).await.unwrap();
            }
        }
    }

    /// An id in SQL as plain text, without hyphens.
    pub(crate) fn id(&self, column: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("lower(hex({column}))"),
            Self::Postgres(_) => format!("replace({column}::text, '-', '')"),
        }
    }

    fn sqlite(&self) -> rusqlite::Result<rusqlite::Connection> {
        let db = self.db();
        let connection = rusqlite::Connection::open(db.strip_prefix("sqlite:").unwrap())?;
        connection.busy_timeout(backstitch_testkit::PATIENCE)?;
        Ok(connection)
    }
}

fn sqlite_rows(connection: &rusqlite::Connection, sql: &str) -> rusqlite::Result<Vec<Vec<Option<String>>>> {
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| {
        let texts = (0..columns).map(|column| row.get_ref(column).map(as_text));
        texts.collect::<rusqlite::Result<Vec<_>>>()
    };
    statement.query_map([], read)?.collect()
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
