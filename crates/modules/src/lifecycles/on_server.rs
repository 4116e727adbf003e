//! Decisions on a server: several nodes decide at once, each about rows that it has locked, by the server's clock.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use backstitch::jobs::postgres as queue;
use backstitch::kernel::lifecycle::codec;
use backstitch::store;
use backstitch::store::postgres::{Acting, PostgresStore, Unit, time, timestamp};
use backstitch::{Payload, Timestamp};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::base::Base;
use super::batch::{Ask, Decided, Decider, Read, Row, UNWANTED, Writes, reported_jobs};
use super::claim::Claim;
use super::standing::{COLUMNS, Standing};
use crate::question::{answered, column_unreadable};

/// Locks what is asked about, decides, and writes what follows. Nothing where somebody else has begun one of the keys at the
/// same moment: nothing was written then.
pub(super) async fn write(
    server: &Acting,
    base: &Base,
    decider: &Decider<'_>,
    asks: &[Ask],
) -> Result<Option<Decided>, store::Error> {
    let unit = server.begin().await?;
    let read = read(&unit, base, asks).await?;
    let now = read.now;
    let outcome = decider.decide(asks, read);
    if !keep(&unit, &outcome.writes, now).await? {
        return Ok(None);
    }
    unit.commit().await?;
    Ok(Some(outcome))
}

async fn read(unit: &Unit, base: &Base, asks: &[Ask]) -> Result<Read, store::Error> {
    let places: BTreeSet<(&str, &str)> = asks.iter().map(|ask| (&*ask.machine, &*ask.key)).collect();
    let (machines, keys): (Vec<&str>, Vec<&str>) = places.into_iter().unzip();
    let columns: Vec<String> = COLUMNS.split(", ").map(|column| format!("l.{}", column.trim())).collect();
    let lock = format!("select {} {}", columns.join(", "), include_str!("postgres/lock.sql"));
    let locked: [&(dyn ToSql + Sync); 2] = [&machines, &keys];
    let active = "select d.name, d.active, clock() as now from (select) as once \
                  left join documents as d on d.kind = 'lifecycle' and d.name = any ($1)";
    let named: [&(dyn ToSql + Sync); 1] = [&machines];
    let (rows, declared) = tokio::try_join!(unit.query(&lock, &locked), unit.query(active, &named))?;
    let mut read = Read {
        now: Timestamp::from_micros(0),
        standing: HashMap::new(),
        active: HashMap::new(),
        jobs: queue::lock(unit, &reported_jobs(asks)).await?,
    };
    let unreadable = |why: tokio_postgres::Error| column_unreadable(&why);
    for row in &declared {
        read.now = timestamp(row.try_get("now").map_err(unreadable)?);
        if let Some(name) = row.try_get::<_, Option<String>>("name").map_err(unreadable)? {
            let active: Option<i32> = row.try_get("active").map_err(unreadable)?;
            read.active.insert(name.into(), active.map(i32::unsigned_abs));
        }
    }
    for row in answered(&rows)? {
        let standing = Standing::read(&row)?;
        read.standing.insert((standing.machine.clone(), standing.key.clone()), standing);
    }
    let versions = read.standing.values().map(|standing| (standing.machine.clone(), standing.version));
    let actives = read.active.iter().filter_map(|(name, active)| Some((name.clone(), (*active)?)));
    let needed: BTreeSet<(Arc<str>, u32)> = versions.chain(actives).collect();
    for (machine, version) in needed {
        learn(unit, base, &machine, version).await?;
    }
    Ok(read)
}

/// Makes a machine known.
async fn learn(unit: &Unit, base: &Base, machine: &str, version: u32) -> Result<(), store::Error> {
    if base.known().get(machine, version).is_some() {
        return Ok(());
    }
    let load = "select body from document_versions where kind = 'lifecycle' and name = $1 and version = $2";
    let number = i32::try_from(version).unwrap_or(i32::MAX);
    let rows = unit.query(load, &[&machine, &number]).await?;
    let missing = || store::Error::Refused(format!("version {version} of the machine `{machine}` is gone"));
    let body: String = rows.first().ok_or_else(missing)?.try_get(0).map_err(|why| column_unreadable(&why))?;
    base.known().read(machine, version, &body).map(|_| ())
}

/// Writes everything; `false` where a row was not there to be written.
async fn keep(unit: &Unit, writes: &Writes, now: Timestamp) -> Result<bool, store::Error> {
    let (new, old): (Vec<&Row>, Vec<&Row>) = writes.rows.iter().partition(|row| row.expected.is_none());
    let (updated, inserted, (), (), ()) = tokio::try_join!(
        update(unit, &old),
        insert(unit, &new),
        append(unit, writes),
        tell(unit, writes, now),
        keep_jobs(unit, writes, now),
    )?;
    Ok(updated == old.len() && inserted == new.len())
}

#[derive(Default)]
struct Columns<'a> {
    id: Vec<Uuid>,
    expected: Vec<i32>,
    state: Vec<&'a str>,
    ended: Vec<bool>,
    seq: Vec<i32>,
    entry: Vec<i32>,
    attempt: Vec<i32>,
    failures: Vec<i32>,
    interruptions: Vec<i32>,
    token: Vec<i64>,
    holder: Vec<Option<&'a str>>,
    correlation_id: Vec<Option<&'a str>>,
    error_kind: Vec<Option<&'a str>>,
    last_error: Vec<Option<&'a str>>,
    input: Vec<Option<&'a str>>,
    updated_at: Vec<SystemTime>,
    entered_at: Vec<SystemTime>,
    due_at: Vec<Option<SystemTime>>,
    stuck_at: Vec<Option<SystemTime>>,
    abandoned: Vec<bool>,
    leased: Vec<bool>,
}

impl<'a> Columns<'a> {
    fn of(rows: &[&'a Row]) -> Self {
        let mut columns = Self::default();
        for Row { expected, standing } in rows {
            let instance = &standing.instance;
            let failure = instance.failure.as_ref();
            columns.id.push(standing.id.0);
            columns.expected.push(expected.map_or(0, number));
            columns.state.push(&instance.state);
            columns.ended.push(standing.is_in_terminal_state());
            columns.seq.push(number(instance.seq));
            columns.entry.push(number(instance.entry));
            columns.attempt.push(number(instance.attempt.into()));
            columns.failures.push(number(instance.failures.into()));
            columns.interruptions.push(number(standing.interruptions.into()));
            columns.token.push(i64::try_from(instance.token).unwrap_or(i64::MAX));
            columns.holder.push(standing.holder.as_deref());
            columns.correlation_id.push(instance.given.correlation_id.as_deref());
            columns.error_kind.push(failure.map(|failure| failure.kind.as_str()));
            columns.last_error.push(failure.map(|failure| failure.message.as_str()));
            columns.input.push(instance.given.input.as_ref().map(Payload::as_str));
            columns.updated_at.push(time(instance.updated_at));
            columns.entered_at.push(time(instance.entered_at));
            columns.due_at.push(instance.due_at.map(time));
            columns.stuck_at.push(standing.stuck_at.map(time));
            columns.abandoned.push(instance.abandoned);
            columns.leased.push(instance.leased);
        }
        columns
    }

    /// What is written of every row, after its id.
    fn written(&self) -> [&(dyn ToSql + Sync); 19] {
        [
            &self.state,
            &self.ended,
            &self.seq,
            &self.entry,
            &self.attempt,
            &self.failures,
            &self.interruptions,
            &self.token,
            &self.holder,
            &self.correlation_id,
            &self.error_kind,
            &self.last_error,
            &self.input,
            &self.updated_at,
            &self.entered_at,
            &self.due_at,
            &self.stuck_at,
            &self.abandoned,
            &self.leased,
        ]
    }
}

async fn update(unit: &Unit, rows: &[&Row]) -> Result<usize, store::Error> {
    if rows.is_empty() {
        return Ok(0);
    }
    let columns = Columns::of(rows);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&columns.id, &columns.expected];
    values.extend(columns.written());
    Ok(unit.query(include_str!("postgres/update.sql"), &values).await?.len())
}

async fn insert(unit: &Unit, rows: &[&Row]) -> Result<usize, store::Error> {
    if rows.is_empty() {
        return Ok(0);
    }
    let columns = Columns::of(rows);
    let machine: Vec<&str> = rows.iter().map(|row| &*row.standing.machine).collect();
    let key: Vec<&str> = rows.iter().map(|row| &*row.standing.key).collect();
    let version: Vec<i32> = rows.iter().map(|row| number(row.standing.version.into())).collect();
    let created_at: Vec<SystemTime> = rows.iter().map(|row| time(row.standing.created_at)).collect();
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&columns.id];
    values.extend(columns.written());
    values.extend([&machine as &(dyn ToSql + Sync), &key, &version, &created_at]);
    Ok(unit.query(include_str!("postgres/insert.sql"), &values).await?.len())
}

async fn append(unit: &Unit, writes: &Writes) -> Result<(), store::Error> {
    let events = &writes.events;
    let id: Vec<Uuid> = events.iter().map(|(id, _)| id.0).collect();
    let seq: Vec<i32> = events.iter().map(|(_, recorded)| number(recorded.seq)).collect();
    let at: Vec<SystemTime> = events.iter().map(|(_, recorded)| time(recorded.at)).collect();
    let kind: Vec<&str> = events.iter().map(|(_, recorded)| recorded.event.name()).collect();
    let step: Vec<Option<&str>> = events.iter().map(|(_, recorded)| recorded.event.state()).collect();
    let attempt: Vec<i32> =
        events.iter().map(|(_, recorded)| number(recorded.event.attempt().into())).collect();
    let data: Vec<Option<String>> = events.iter().map(|(_, recorded)| codec::data(&recorded.event)).collect();
    let append = "insert into saga_events (saga_id, seq, at, type, step, attempt, data) \
                  select * from unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::text[], $5::text[], \
                  $6::integer[], $7::text[])";
    if !events.is_empty() {
        unit.query(append, &[&id, &seq, &at, &kind, &step, &attempt, &data]).await?;
    }
    Ok(())
}

async fn tell(unit: &Unit, writes: &Writes, now: Timestamp) -> Result<(), store::Error> {
    let messages = &writes.messages;
    let topic: Vec<&str> = messages.iter().map(|message| message.topic.as_str()).collect();
    let key: Vec<&str> = messages.iter().map(|message| message.key.as_str()).collect();
    let order: Vec<&str> = messages.iter().map(|message| message.ordering_key.as_str()).collect();
    let scope: Vec<Option<&str>> = messages.iter().map(|message| message.ordering_scope.as_deref()).collect();
    let payload: Vec<&str> = messages.iter().map(|message| message.payload.as_str()).collect();
    // Numbered in the order in which they are to be sent.
    let tell = "insert into outbox ( \
                    topic, idempotency_key, ordering_key, ordering_scope, payload, due_at, created_at, updated_at \
                ) \
                select topic, key, ordering_key, ordering_scope, payload, $6, $6, $6 \
                from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) \
                    with ordinality as m (topic, key, ordering_key, ordering_scope, payload, place) \
                order by place";
    if !messages.is_empty() {
        unit.query(tell, &[&topic, &key, &order, &scope, &payload, &time(now)]).await?;
    }
    Ok(())
}

/// One after the other: jobs that are reported about are settled before the owner's other jobs are withdrawn.
async fn keep_jobs(unit: &Unit, writes: &Writes, now: Timestamp) -> Result<(), store::Error> {
    queue::write(unit, &writes.settled).await?;
    queue::withdraw_all(unit, &writes.unwanted, UNWANTED).await?;
    queue::enqueue(unit, &writes.jobs, now).await
}

/// Takes up to `limit` actions that are due.
pub(super) async fn claim(
    server: &PostgresStore,
    node: &str,
    lease: Duration,
    ask: &Claim,
) -> Result<Vec<Standing>, store::Error> {
    let columns: Vec<String> = COLUMNS.split(", ").map(|column| format!("l.{}", column.trim())).collect();
    let sql = format!("{} returning {}", include_str!("postgres/claim.sql"), columns.join(", "));
    let limit = i64::try_from(ask.limit).unwrap_or(i64::MAX);
    let lease = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    let held: Vec<Uuid> = ask.held.iter().map(|id| id.0).collect();
    let but: Vec<&str> = ask.but.iter().map(|machine| &**machine).collect();
    let only: Option<Vec<Uuid>> = ask.only.as_ref().map(|only| only.iter().map(|id| id.0).collect());
    let rows = server.write_product(&sql, &[&limit, &node, &lease, &held, &but, &only]).await?;
    Ok(super::claim::readable(&answered(&rows)?))
}

fn number(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
