//! Writes which endpoints this node pauses, for people to see.
//!
//! The limiter in memory decides what is sent. The rows lag behind it by a moment, and no delivery waits for them: a write
//! that fails is repeated, also where the pause is over by then, and what a crash leaves expires.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch::delivery::limiter::PartitionPause;
use backstitch::store;
use rusqlite::Transaction;
use serde_json::json;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;

use super::base::{Part, Side};
use super::dispatch::Dispatch;
use crate::question::{Value, chosen, on_file};

/// Changes within this time are written together.
const WRITTEN_EVERY: Duration = Duration::from_millis(200);
/// The wait after a write that failed.
const STORE_RETRY: Duration = Duration::from_millis(500);
/// A database that does not answer keeps a connection of the workers for no longer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// Writes the pauses of a node for as long as it is run.
pub struct PauseWriter {
    dispatch: Arc<Dispatch>,
    rows: HashMap<i64, PauseRow>,
}

/// What is known of the row of an endpoint.
#[derive(Clone, Copy)]
enum PauseRow {
    /// It says this.
    Written(PartitionPause),
    /// The write of this failed. The database may still carry it out.
    Unknown(PartitionPause),
}

impl PauseRow {
    fn pause(self) -> PartitionPause {
        match self {
            Self::Written(pause) | Self::Unknown(pause) => pause,
        }
    }
}

impl PauseWriter {
    /// Writes which endpoints this node pauses.
    #[must_use]
    pub fn of(dispatch: Arc<Dispatch>) -> Self {
        Self { dispatch, rows: HashMap::new() }
    }

    /// Writes for as long as it is polled.
    pub async fn run(mut self) {
        // A process that had this file before may have left some.
        let mut is_first = true;
        loop {
            let wait = match self.write_changes(is_first).await {
                Ok(()) => {
                    is_first = false;
                    self.dispatch.limiter.pause_changed().await;
                    WRITTEN_EVERY
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot write webhook pauses; retrying");
                    STORE_RETRY
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn write_changes(&mut self, is_first: bool) -> Result<(), store::Error> {
        let limiter = &self.dispatch.limiter;
        let changed = limiter.take_changed_pauses();
        let (mut paused, mut ended, mut overwritten) = (Vec::new(), Vec::new(), Vec::new());
        for &(endpoint, pause) in &changed {
            match (pause, self.rows.get(&endpoint)) {
                (Some(pause), Some(PauseRow::Written(before))) if pause == *before => {}
                (Some(pause), _) => paused.push((endpoint, pause)),
                (None, Some(PauseRow::Written(_))) => ended.push(endpoint),
                // The failed write may be under way still: a removal would miss its row, and an update waits for it.
                (None, Some(PauseRow::Unknown(pause))) => {
                    paused.push((endpoint, PartitionPause { until: Instant::now(), ..*pause }));
                    overwritten.push(endpoint);
                }
                (None, None) => {}
            }
        }
        if paused.is_empty() && ended.is_empty() && !is_first {
            return Ok(());
        }
        if let Err(error) = self.write(&paused, &ended).await {
            self.rows
                .extend(paused.into_iter().map(|(endpoint, pause)| (endpoint, PauseRow::Unknown(pause))));
            for endpoint in ended {
                self.rows.entry(endpoint).and_modify(|row| *row = PauseRow::Unknown(row.pause()));
            }
            limiter.put_back_pauses(changed.into_iter().map(|(endpoint, _)| endpoint));
            return Err(error);
        }
        self.rows.retain(|endpoint, _| !ended.contains(endpoint));
        self.rows.extend(paused.into_iter().map(|(endpoint, pause)| (endpoint, PauseRow::Written(pause))));
        if !overwritten.is_empty() {
            limiter.put_back_pauses(overwritten);
        }
        Ok(())
    }

    async fn write(&self, paused: &[(i64, PartitionPause)], ended: &[i64]) -> Result<(), store::Error> {
        let (base, node) = (&self.dispatch.jobs.base, self.dispatch.membership.id());
        let now = Instant::now();
        let rest = |pause: &PartitionPause| pause.until.saturating_duration_since(now);
        match base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let at = base.now();
                let end = [node.into(), at.into(), chosen(ended)];
                let row = |(endpoint, pause): &(i64, PartitionPause)| {
                    let until = at.plus(rest(pause));
                    [(*endpoint).into(), node.into(), until.into(), pause.reason.to_string().into()]
                };
                let rows: Vec<[Value; 4]> = paused.iter().map(row).collect();
                let write = move |transaction: &Transaction<'_>| {
                    on_file(transaction, include_str!("sqlite/end_pauses.sql"), &end)?;
                    for row in &rows {
                        on_file(transaction, include_str!("sqlite/write_pause.sql"), row)?;
                    }
                    Ok(())
                };
                file.write_product(write).await
            }
            Side::Postgres(server) => {
                let millis =
                    |pause: &PartitionPause| u64::try_from(rest(pause).as_millis()).unwrap_or(u64::MAX);
                let rows = paused
                    .iter()
                    .map(|(endpoint, pause)| json!([endpoint, millis(pause), pause.reason.to_string()]));
                let rows = serde_json::Value::Array(rows.collect()).to_string();
                let ended = json!(ended).to_string();
                let values: [&(dyn ToSql + Sync); 3] = [&node, &rows, &ended];
                let sql = include_str!("postgres/write_pauses.sql");
                server.query_within(ANSWERED_WITHIN, sql, &values).await.map(drop)
            }
        }
    }
}
