//! Connections that act under one role of the database, for the parts of a product that may not touch each other's
//! tables.

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::time::timeout_at;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::session::{Session, change, late};
use super::values::get;
use crate::store::Error;

/// On servers of version 16 and later a member of a role may lack the right to become it.
const MAY_BECOME: &str = "
    select coalesce(
        (
            select pg_has_role(
                oid,
                case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end
            )
            -- One that was made and never given its rights is of no use.
            and has_schema_privilege(oid, current_schema(), 'usage')
            from pg_roles
            where rolname = $1
        ),
        false
    ) as may";

impl PostgresStore {
    /// Whether there is such a role and the store's own one may act as it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn may_act_as(&self, role: &str) -> Result<bool, Error> {
        let rows = self.read_product(MAY_BECOME, &[&role]).await?;
        rows.first().map_or(Ok(false), |row| get(row, "may"))
    }

    /// At most so many connections that act under this role, or under the store's own; nothing is connected yet.
    ///
    /// # Errors
    /// When the pool cannot be made.
    pub fn acting_as(&self, role: Option<&str>, at_most: usize) -> Result<Acting, Error> {
        let (pool, within) = self.sessions.acting_as(role, at_most)?;
        Ok(Acting { pool, within })
    }
}

/// Connections under one role.
#[derive(Clone)]
pub struct Acting {
    pool: Pool,
    within: Duration,
}

impl Acting {
    /// Asks or changes something with one statement; a change is on disk when this returns.
    ///
    /// # Errors
    /// When the database cannot be asked. Nobody knows what became of a change that was not answered.
    pub async fn query(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        change!(self.lent(), |session| session.query(sql, values))
    }

    /// The same for what is of no use later than this. The connection of a question that was given up is never used again.
    ///
    /// # Errors
    /// When the database cannot be asked, or has not answered by then.
    pub async fn query_within(
        &self,
        within: Duration,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        change!(Session::lent_by(&self.pool, within, within), |session| session.query(sql, values))
    }

    /// Begins a transaction. Whatever is not committed is undone.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn begin(&self) -> Result<Unit, Error> {
        let unit = Unit { session: Some(self.lent().await?), within: self.within };
        unit.query("begin", &[]).await?;
        Ok(unit)
    }

    pub(super) async fn lent(&self) -> Result<Session, Error> {
        Session::lent_by(&self.pool, self.within, self.within).await
    }
}

/// A transaction under way.
pub struct Unit {
    session: Option<Session>,
    within: Duration,
}

impl Unit {
    /// Asks or changes something.
    ///
    /// # Errors
    /// When it cannot be done; the transaction is to be dropped then.
    pub async fn query(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        let over = || Error::Unavailable("the transaction is over".to_owned());
        let session = self.session.as_ref().ok_or_else(over)?;
        let answer = timeout_at(session.deadline(), session.query(sql, values)).await;
        answer.unwrap_or_else(|_| Err(late(self.within)))
    }

    /// Everything is durable when this returns.
    ///
    /// # Errors
    /// When the database cannot be asked; nobody knows then what became of it.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.query("commit", &[]).await?;
        // Its connection is as it was, and goes back.
        drop(self.session.take());
        Ok(())
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // The server undoes what its client leaves open.
        if let Some(session) = self.session.take() {
            session.hang_up();
        }
    }
}
