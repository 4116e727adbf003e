//! The floor on SQLite.

use std::time::{Duration, Instant};

use backstitch::store::sqlite::{SqliteStore, WRITER_SETTINGS, allow_guarded_writes};
use rusqlite::{Connection, OpenFlags, Statement, params};

use super::super::Failure;
use super::{EventRow, LONG_ENOUGH, RowChange, SagaRows, commits};

/// Copies the sagas of one file to another, empty one; only the writes are timed.
pub(super) fn replay(from: &str, to: &str, group: usize) -> Result<f64, Failure> {
    let (from, to) = (from.trim_start_matches("sqlite:"), to.trim_start_matches("sqlite:"));
    // Created by the store itself, so tables, indexes, triggers and file format are the same.
    drop(SqliteStore::open(to.as_ref(), std::sync::Arc::new(backstitch::clock::SystemClock))?);
    let writer = Connection::open(to)?;
    writer.execute_batch(WRITER_SETTINGS)?;
    allow_guarded_writes(&writer)?;
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut rows = source.prepare("select id, definition, version, created_at from sagas order by id")?;
    let mut sagas = rows.query([])?;
    let mut log = source.prepare(
        "select seq, at, type, step, attempt, data from saga_events where saga_id = ?1 order by seq",
    )?;
    let mut statements = Statements::on(&writer)?;
    let (mut written, mut spent) = (0_u32, Duration::ZERO);
    while spent < LONG_ENOUGH {
        let mut batch = Vec::with_capacity(group);
        while batch.len() < group
            && let Some(row) = sagas.next()?
        {
            let id: [u8; 16] = row.get(0)?;
            let events = log.query_map([id], |row| {
                Ok(EventRow {
                    seq: row.get(0)?,
                    at: row.get(1)?,
                    name: row.get(2)?,
                    step: row.get(3)?,
                    attempt: row.get(4)?,
                    data: row.get(5)?,
                })
            })?;
            let commits = commits(events.collect::<Result<_, _>>()?);
            let (definition, version, created_at) = (row.get(1)?, row.get(2)?, row.get(3)?);
            batch.push(SagaRows { id, definition, version, created_at, commits });
        }
        if batch.is_empty() {
            break;
        }
        let began = Instant::now();
        write(&writer, &mut statements, &batch)?;
        spent += began.elapsed();
        written += u32::try_from(batch.len())?;
    }
    Ok(f64::from(written) / spent.as_secs_f64())
}

struct Statements<'c> {
    event: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
    end: Statement<'c>,
}

impl<'c> Statements<'c> {
    /// All `or fail`, like the engine's: otherwise SQLite would keep a statement journal.
    fn on(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            event: connection.prepare("insert or fail into saga_events values (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
            insert: connection.prepare(
                "insert or fail into sagas (id, definition, version, status, owner, created_at, updated_at)
                 values (?1, ?2, ?3, 'running', 1, ?4, ?4)",
            )?,
            update: connection
                .prepare("update or fail sagas set status = ?2, failed_step = ?3, updated_at = ?4 where id = ?1")?,
            end: connection.prepare(
                "update or fail sagas set status = ?2, failed_step = ?3, owner = null, updated_at = ?4 where id = ?1",
            )?,
        })
    }
}

/// Writes the first commits of all these sagas as one transaction, then the second ones, and so on.
fn write(
    writer: &Connection,
    statements: &mut Statements<'_>,
    batch: &[SagaRows],
) -> Result<(), rusqlite::Error> {
    let longest = batch.iter().map(|saga| saga.commits.len()).max().unwrap_or(0);
    for turn in 0..longest {
        writer.execute_batch("begin immediate")?;
        for saga in batch {
            let Some(commit) = saga.commits.get(turn) else { continue };
            match &commit.row {
                Some(RowChange::Insert) => {
                    statements.insert.execute(params![
                        saga.id,
                        saga.definition,
                        saga.version,
                        saga.created_at
                    ])?;
                }
                Some(RowChange::Update { status, failed_step, owned }) => {
                    let at = commit.events.first().map_or(0, |event| event.at);
                    let update = if *owned { &mut statements.update } else { &mut statements.end };
                    update.execute(params![saga.id, status, failed_step, at])?;
                }
                None => {}
            }
            for event in &commit.events {
                let EventRow { seq, at, name, step, attempt, data } = event;
                statements.event.execute(params![saga.id, seq, at, name, step, attempt, data])?;
            }
        }
        writer.execute_batch("commit")?;
    }
    Ok(())
}
