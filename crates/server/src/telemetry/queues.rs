//! Depth and age of the queues that workers lease jobs from.

use std::collections::BTreeMap;

use backstitch::jobs::QUEUE_DEPTHS;
use backstitch::store::Error;
use backstitch::store::product::Database;
use backstitch::{Engine, Timestamp};

/// Jobs of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueDepth {
    /// Those that wait for a worker.
    pub(crate) pending: u64,
    /// Those that a worker holds a lease for.
    pub(crate) leased: u64,
    /// When the first of those that wait was due.
    pub(crate) due: Option<Timestamp>,
}

/// A row of the query: queue, pending, leased, due.
type Row = (String, i64, i64, Option<i64>);

/// A row by the names of its columns, which both databases have, though not the word for getting one.
macro_rules! read {
    ($row:ident.$get:ident) => {
        Ok(($row.$get("queue")?, $row.$get("pending")?, $row.$get("leased")?, $row.$get("due")?))
    };
}

/// Every queue that has jobs.
pub(crate) async fn queue_depths(engine: &Engine) -> Result<BTreeMap<String, QueueDepth>, Error> {
    let rows: Vec<Row> = match engine.database() {
        Database::Sqlite(file) => {
            let read = |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare_cached(QUEUE_DEPTHS.sqlite)?;
                statement.query_map([], |row| read!(row.get))?.collect()
            };
            file.read_product(read).await?
        }
        Database::Postgres(server) => {
            let rows = server.read_product(QUEUE_DEPTHS.postgres, &[]).await?;
            let row = |row: &tokio_postgres::Row| read!(row.try_get);
            let rows: Result<Vec<Row>, tokio_postgres::Error> = rows.iter().map(row).collect();
            rows.map_err(|why| Error::Refused(format!("jobs cannot be counted: {why}")))?
        }
    };
    let mut queues: BTreeMap<String, QueueDepth> = BTreeMap::new();
    for (queue, pending, leased, due) in rows {
        let depth = queues.entry(queue).or_default();
        depth.pending += pending.unsigned_abs();
        depth.leased += leased.unsigned_abs();
        depth.due = depth.due.or(due.map(Timestamp::from_micros));
    }
    Ok(queues)
}
