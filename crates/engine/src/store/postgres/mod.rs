//! Sagas in `PostgreSQL`, which any number of nodes share.
//!
//! Everything lives in one schema, `backstitch` by default. A batch of decisions is one statement; leases and due times are
//! judged by the database's clock, so that no node has to trust another's.

mod acting;
mod address;
mod batch;
mod commit;
mod commit_statement;
mod diagnostics;
mod dial;
mod documents;
mod durability;
mod fault;
mod hosts;
mod inbox;
mod jobs;
mod list;
mod listen;
mod messages;
mod nodes;
mod outbox;
mod ownership;
mod parked;
mod pooler;
mod qualified;
mod retention;
mod sagas;
mod schema;
mod session;
mod settle;
mod tls;
mod trial;
mod values;

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::migrations::ENGINE;
use super::product::{Database, Schema};
use super::sealed::Sealed;
use super::{Backend, Error, SchemaName, Writers};
use nodes::KnownProducts;
use session::{Sessions, change, read};

pub use acting::{Acting, Unit};
pub use durability::confirm;
pub use schema::migrate;
pub use session::{WRITER_SETTINGS, WRITERS, check_sessions, pool_at, pool_in};
pub(crate) use values::{get, get_time, is_text, limit, micros, millis, readable};
pub use values::{time, timestamp};

/// A statement of a file in `sql/postgres`.
macro_rules! sql {
    ($file:ident :: $name:ident) => {
        $crate::sql!(postgres / $file::$name)
    };
    ($name:literal) => {
        include_str!(concat!("../../../queries/postgres/", $name, ".sql"))
    };
}
use sql;

/// A `PostgreSQL` database.
pub struct PostgresStore {
    sessions: Sessions,
    products: KnownProducts,
}

impl PostgresStore {
    /// Connects to `postgres://USER@HOST/DATABASE` and brings its schema up to date.
    ///
    /// The address is one of libpq's, with `sslmode` (`disable`, `prefer`, `require`, `verify-ca`, `verify-full`) and
    /// `sslrootcert` (a file, or `system`) in their meaning there.
    ///
    /// # Errors
    /// When the address is none, the server cannot be reached or trusted, or a newer program has changed its schema.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, &[]).await
    }

    /// The same with the tables of these products.
    ///
    /// # Errors
    /// The same, and when a product's tables cannot be brought up to date.
    pub async fn connect_with(url: &str, products: &[&Schema]) -> Result<Self, Error> {
        Self::connect_in(url, &SchemaName::default(), products).await
    }

    /// The same in this schema of the database. Engines in different schemas share nothing.
    ///
    /// # Errors
    /// The same.
    pub async fn connect_in(url: &str, schema: &SchemaName, products: &[&Schema]) -> Result<Self, Error> {
        let sessions = Sessions::at(url, schema)?;
        pooler::refuse_transaction_pooling(sessions.dialler()).await?;
        let found = read!(sessions, |session| schema::versions(session, sessions.schema()))?;
        let areas = std::iter::once(&ENGINE).chain(products.iter().copied());
        for area in areas.filter(|area| found.get(area.product) != Some(&area.newest())) {
            schema::migrate(&mut sessions.to_migrate().await?, schema, area).await?;
        }
        let known = products.iter().map(|product| (product.product, product.newest()));
        Ok(Self { sessions, products: known.collect() })
    }

    /// The schema that everything lives in.
    #[must_use]
    pub fn schema(&self) -> &SchemaName {
        self.sessions.schema()
    }

    /// Tables that the program brings up to date itself, and whose versions its node knows
    /// ([`migrate`]).
    #[must_use]
    pub fn knowing(mut self, others: &[&Schema]) -> Self {
        self.products.extend(others.iter().map(|other| (other.product, other.newest())));
        self
    }

    /// Gives up a question after this long, together with its connection; 40 s unless told. The server gives up
    /// after 30 s by itself, so this is for servers and networks that have fallen silent.
    #[must_use]
    pub fn answering_within(mut self, limit: Duration) -> Self {
        self.sessions.answer_within(limit);
        self
    }
}

/// For products that keep tables of their own in the database.
impl PostgresStore {
    /// Asks what changes nothing; a connection that was lost is replaced once.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn read_product(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        read!(self.sessions, |session| session.query(sql, values))
    }

    /// Changes something with one statement, which is on disk when this returns.
    ///
    /// # Errors
    /// When the database cannot be written. Nobody knows what became of a change that was not answered.
    pub async fn write_product(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        change!(self.sessions.to_ask(), |session| session.query(sql, values))
    }
}

impl Sealed for PostgresStore {}

#[async_trait]
impl Backend for PostgresStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn database(&self) -> Database<'_> {
        Database::Postgres(self)
    }

    fn writers(&self) -> Writers {
        Writers::Tasks(WRITERS)
    }

    async fn clock(&self) -> Result<Option<Timestamp>, Error> {
        read!(self.sessions, |session| nodes::clock(session)).map(Some)
    }

    async fn probe(&self, commits: bool) -> Result<(), Error> {
        durability::probe(&self.sessions, commits).await
    }
}
