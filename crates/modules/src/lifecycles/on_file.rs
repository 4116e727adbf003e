//! Decisions in a file: one thread reads, decides and writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch::jobs::sqlite as queue;
use backstitch::kernel::lifecycle::{Recorded, codec};
use backstitch::store;
use backstitch::store::sqlite::{EventRow, MessageRow, append_events, insert_messages};
use backstitch::{SagaId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use uuid::Uuid;

use super::announcement::Message;
use super::base::Base;
use super::batch::{Ask, Decided, Decider, Read, Row, UNWANTED, Writes};
use super::claim::Claim;
use super::retention::listed;
use super::standing::{COLUMNS, Standing};
use crate::question::Record;

/// What is wrong with what was read is told apart from what the file refuses.
type Written<T> = rusqlite::Result<Result<T, store::Error>>;

/// Reads what is asked about, decides, and writes what follows.
pub(super) fn write(
    transaction: &Transaction<'_>,
    base: &Base,
    decider: &Decider<'_>,
    asks: &[Ask],
    now: Timestamp,
) -> Written<Decided> {
    let read = match read(transaction, base, asks, now)? {
        Ok(read) => read,
        Err(why) => return Ok(Err(why)),
    };
    let outcome = decider.decide(asks, read);
    keep(transaction, &outcome.writes, now)?;
    Ok(Ok(outcome))
}

fn read(transaction: &Transaction<'_>, base: &Base, asks: &[Ask], now: Timestamp) -> Written<Read> {
    let sql = format!("select {COLUMNS} from lifecycles where machine = ?1 and key = ?2");
    let mut load = transaction.prepare_cached(&sql)?;
    let mut declared =
        transaction.prepare_cached("select active from documents where kind = 'lifecycle' and name = ?1")?;
    let mut read = Read { now, standing: HashMap::new(), active: HashMap::new(), jobs: HashMap::new() };
    for ask in asks {
        let place = (ask.machine.clone(), ask.key.clone());
        if let Some(report) = ask.job
            && let Some(lease) = queue::lease_of(transaction, report.job)?
        {
            read.jobs.insert(report.job, lease);
        }
        if read.standing.contains_key(&place) {
            continue;
        }
        let found = load.query_row(params![ask.machine, ask.key], Record::of_file_row).optional()?;
        let version = match found.map(|row| Standing::read(&row)).transpose() {
            Ok(Some(standing)) => {
                let version = standing.version;
                read.standing.insert(place, standing);
                Some(version)
            }
            Ok(None) => {
                let active: Option<Option<u32>> =
                    declared.query_row([&*ask.machine], |row| row.get(0)).optional()?;
                if let Some(active) = active {
                    read.active.insert(ask.machine.clone(), active);
                }
                active.flatten()
            }
            Err(why) => return Ok(Err(why)),
        };
        if let Some(version) = version
            && let Err(why) = learn(transaction, base, &ask.machine, version)?
        {
            return Ok(Err(why));
        }
    }
    Ok(Ok(read))
}

/// Makes a machine known.
fn learn(transaction: &Transaction<'_>, base: &Base, machine: &Arc<str>, version: u32) -> Written<()> {
    if base.known().get(machine, version).is_some() {
        return Ok(Ok(()));
    }
    let mut load = transaction.prepare_cached(
        "select body from document_versions where kind = 'lifecycle' and name = ?1 and version = ?2",
    )?;
    let body: String = load.query_row(params![machine, version], |row| row.get(0))?;
    Ok(base.known().read(machine, version, &body).map(|_| ()))
}

fn keep(transaction: &Transaction<'_>, writes: &Writes, now: Timestamp) -> rusqlite::Result<()> {
    for row in &writes.rows {
        write_row(transaction, row)?;
    }
    let events: Vec<_> = writes.events.iter().map(event_row).collect();
    append_events(transaction, &events)?;
    let messages: Vec<_> = writes.messages.iter().map(|message| message_row(message, now)).collect();
    insert_messages(transaction, &messages)?;
    keep_jobs(transaction, writes, now)
}

fn event_row((id, recorded): &(SagaId, Recorded)) -> EventRow<'_> {
    let event = &recorded.event;
    EventRow {
        saga_id: id.0.as_bytes(),
        seq: recorded.seq,
        at: recorded.at.as_micros(),
        name: event.name(),
        step: event.state(),
        attempt: Some(event.attempt()),
        data: codec::data(event),
    }
}

fn message_row(message: &Message, at: Timestamp) -> MessageRow<'_> {
    MessageRow {
        topic: &message.topic,
        idempotency_key: &message.key,
        ordering_key: Some(&message.ordering_key),
        ordering_scope: message.ordering_scope.as_deref(),
        payload: message.payload.as_str(),
        digest: None,
        expires_at: None,
        counted: false,
        at,
    }
}

fn write_row(transaction: &Transaction<'_>, Row { expected, standing }: &Row) -> rusqlite::Result<()> {
    let Standing { id, instance, .. } = standing;
    let seq = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
    let time = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    let failure = instance.failure.as_ref();
    let input = instance.given.input.as_ref().map(backstitch::Payload::as_str);
    if let Some(expected) = expected {
        let ends = standing.is_in_terminal_state() || instance.abandoned;
        let update = if ends { include_str!("sqlite/end.sql") } else { include_str!("sqlite/update.sql") };
        let written = transaction.prepare_cached(update)?.execute(params![
            bytes(id),
            seq(*expected),
            instance.state,
            standing.is_in_terminal_state(),
            seq(instance.seq),
            seq(instance.entry),
            instance.attempt,
            instance.failures,
            standing.interruptions,
            i64::try_from(instance.token).unwrap_or(i64::MAX),
            standing.holder,
            instance.given.correlation_id,
            failure.map(|failure| &failure.kind),
            failure.map(|failure| &failure.message),
            input,
            instance.updated_at.as_micros(),
            instance.entered_at.as_micros(),
            time(instance.due_at),
            time(standing.stuck_at),
            instance.abandoned,
            instance.leased,
        ])?;
        // Nobody else writes while this thread does, unless it is somebody who should not.
        return if written == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(written)) };
    }
    transaction.prepare_cached(include_str!("sqlite/insert.sql"))?.execute(params![
        bytes(id),
        standing.machine,
        standing.key,
        standing.version,
        instance.state,
        standing.is_in_terminal_state(),
        seq(instance.seq),
        seq(instance.entry),
        instance.attempt,
        instance.failures,
        i64::try_from(instance.token).unwrap_or(i64::MAX),
        standing.holder,
        instance.given.correlation_id,
        failure.map(|failure| &failure.kind),
        failure.map(|failure| &failure.message),
        input,
        standing.created_at.as_micros(),
        instance.updated_at.as_micros(),
        instance.entered_at.as_micros(),
        time(instance.due_at),
        time(standing.stuck_at),
        instance.abandoned,
        instance.leased,
    ])?;
    Ok(())
}

fn keep_jobs(transaction: &Transaction<'_>, writes: &Writes, now: Timestamp) -> rusqlite::Result<()> {
    for (job, lease, error) in &writes.settled {
        queue::write(transaction, *job, lease, error.as_deref())?;
    }
    for id in &writes.unwanted {
        queue::withdraw_all(transaction, *id, UNWANTED)?;
    }
    queue::enqueue(transaction, &writes.jobs, now)
}

/// Takes up to `limit` actions that are due.
pub(super) fn claim(
    transaction: &Transaction<'_>,
    node: &str,
    lease: Duration,
    ask: &Claim,
    now: Timestamp,
) -> rusqlite::Result<Vec<Standing>> {
    let sql = format!("{} returning {COLUMNS}", include_str!("sqlite/claim.sql"));
    let mut claim = transaction.prepare_cached(&sql)?;
    let limit = i64::try_from(ask.limit).unwrap_or(i64::MAX);
    let until = now.plus(lease).as_micros();
    // Names have a JSON form.
    let but = serde_json::to_string(&ask.but).unwrap_or_default();
    let (only, held) = (ask.only.as_deref().map(listed), listed(&ask.held));
    let values = params![now.as_micros(), limit, node, until, but, only, held];
    let rows = claim.query_map(values, Record::of_file_row)?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(super::claim::readable(&rows))
}

/// The instances whose actions a process holds.
pub(super) fn held(connection: &Connection) -> rusqlite::Result<Vec<SagaId>> {
    let mut held = connection
        .prepare_cached("select id from lifecycles where due_at is not null and holder is not null")?;
    held.query_map([], |row| row.get(0).map(|id| SagaId(Uuid::from_bytes(id))))?.collect()
}

/// Makes due what a process held that is gone: these, or all.
pub(super) fn take_over(
    transaction: &Transaction<'_>,
    only: Option<&[SagaId]>,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let values = params![now.as_micros(), only.map(listed)];
    transaction.prepare_cached(include_str!("sqlite/take_over.sql"))?.execute(values)
}

fn bytes(id: &SagaId) -> &[u8] {
    id.0.as_bytes()
}
