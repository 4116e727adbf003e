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

/// Every queue that has jobs.
pub(crate) async fn queue_depths(engine: &Engine) -> Result<BTreeMap<String, QueueDepth>, Error> {
    let rows: Vec<Row> = match engine.database() {
        Database::Sqlite(file) => {
            let read = |connection: &rusqlite::Connection| {
                let sql = QUEUE_DEPTHS.sqlite;
                let mut statement = connection.prepare_cached(sql)?;
                let rows = statement
                    .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
                rows.collect()
            };
            file.read_product(read).await?
        }
        Database::Postgres(server) => {
            let rows = server.read_product(QUEUE_DEPTHS.postgres, &[]).await?;
            let row = |row: &tokio_postgres::Row| {
                Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))
            };
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
