//! Confirms that rows which a session has read survive a failover to a synchronous standby.
//!
//! A commit that waits for the standby is invisible to others. It becomes visible before it is replicated when its
//! backend is terminated, its wait is cancelled, or the primary restarts. A later commit on the same server waits for
//! the standby too, and this wait covers every earlier position of the write-ahead log. So each lookup that is
//! reported as success ends with such a commit, on the session that made the lookup.

use tokio_postgres::error::DbError;
use tokio_postgres::types::ToSql;
use tokio_postgres::{GenericClient, Row};

use super::PostgresStore;
use super::acting::Acting;
use super::session::{Session, Sessions, ask, change};
use crate::store::Error;

/// A transactional message has a transaction id and writes to the log. A commit without either does not wait for the standby.
const CONFIRM: &str = "select pg_logical_emit_message(true, 'backstitch', ''::text)";

/// The function of the server that waits for the standby.
const STANDBY_WAIT: &str = "SyncRepWaitForLSN";

/// Returns once everything that this client has read so far is durable, also on a synchronous standby. In a
/// transaction, that is when the transaction has been committed.
///
/// # Errors
/// When the server does not answer: what was read may be lost in a failover.
pub async fn confirm(client: &impl GenericClient) -> Result<(), tokio_postgres::Error> {
    client.query(CONFIRM, &[]).await.map(|_| ())
}

/// Whether a notice says that a commit stopped waiting for the standby. The server then reports success, although the
/// commit may not be replicated. The text is translated; the name of the function is not.
pub(super) fn is_cancelled_wait(notice: &DbError) -> bool {
    notice.routine() == Some(STANDBY_WAIT)
}

/// Whether the server answers within a few seconds; with `commits`, whether a commit is durable by then.
pub(super) async fn probe(sessions: &Sessions, commits: bool) -> Result<(), Error> {
    let statement = if commits { CONFIRM } else { "select" };
    let mut answer = ask!(sessions.to_probe(), |session| session.query(statement, &[]));
    if answer.as_ref().is_err_and(|unanswered| unanswered.connection_lost) {
        // The server may have been restarted since the last probe.
        sessions.suspect_idle();
        answer = ask!(sessions.to_probe(), |session| session.query(statement, &[]));
    }
    answer.map(|_| ()).map_err(Error::from)
}

impl Session {
    /// Returns once everything that this session has read so far is durable, also on a synchronous standby.
    pub(super) async fn confirm(&self) -> Result<(), Error> {
        self.query(CONFIRM, &[]).await.map(|_| ())
    }

    /// Runs a statement, and confirms its result.
    pub(super) async fn query_durably(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let rows = self.query(statement, values).await?;
        self.confirm().await?;
        Ok(rows)
    }
}

impl PostgresStore {
    /// Runs one statement. Everything that it has read or written is durable when this returns, also on a synchronous
    /// standby. For statements that report as success what an earlier request has written.
    ///
    /// # Errors
    /// When the database cannot be written. The outcome of a change is unknown then.
    pub async fn query_durably(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        change!(self.sessions.to_ask(), |session| session.query_durably(sql, values))
    }
}

impl Acting {
    /// Runs one statement. Everything that it has read or written is durable when this returns, also on a synchronous
    /// standby. For statements that report as success what an earlier request has written.
    ///
    /// # Errors
    /// When the database cannot be written. The outcome of a change is unknown then.
    pub async fn query_durably(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        change!(self.lent(), |session| session.query_durably(sql, values))
    }
}
