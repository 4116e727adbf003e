//! The floor on PostgreSQL.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use backstitch::store::postgres::{WRITER_SETTINGS, WRITERS};
use futures::future::try_join_all;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::super::Failure;
use super::super::target::connect;
use super::{EventRow, LONG_ENOUGH, RowChange, SagaRows, commits};

const WRITE: &str = "
    with events as (
        insert into backstitch.saga_events (saga_id, seq, at, type, step, attempt, data)
        select e.id, e.seq, to_timestamp(e.at / 1e6), e.type, e.step, e.attempt, e.data
        from unnest($1::uuid[], $2::int[], $3::bigint[], $4::text[], $5::text[], $6::int[], $7::text[])
            as e (id, seq, at, type, step, attempt, data)
    ), rows as (
        insert into backstitch.sagas (id, definition, version, status, owner, created_at, updated_at)
        select r.id, r.definition, r.version, 'running', 1, to_timestamp(r.at / 1e6), to_timestamp(r.at / 1e6)
        from unnest($8::uuid[], $9::text[], $10::int[], $11::bigint[]) as r (id, definition, version, at)
    )
    update backstitch.sagas s
    set status = u.status, failed_step = u.failed_step, owner = u.owner, updated_at = to_timestamp(u.at / 1e6)
    from unnest($12::uuid[], $13::text[], $14::text[], $15::bigint[], $16::bigint[])
        as u (id, status, failed_step, owner, at)
    where s.id = u.id and s.id = any ($12::uuid[])";

/// Copies the sagas of one database to another, empty one, over as many connections as the store uses. Only the writes
/// are timed.
pub(super) async fn replay(from: &str, to: &str, group: usize) -> Result<f64, Failure> {
    // Created by the store itself, so tables, indexes and triggers are the same.
    backstitch::Engine::open(to).await?.shutdown().await?;
    let source = Source::of(from).await?;
    let mut writers = Vec::with_capacity(WRITERS);
    for _ in 0..WRITERS {
        let writer = connect(to).await?;
        writer.batch_execute(&["set synchronous_commit = on;", WRITER_SETTINGS].concat()).await?;
        let statement = writer.prepare(WRITE).await?;
        writers.push((writer, statement));
    }
    let (mut written, mut spent, mut after) = (0_u32, Duration::ZERO, Uuid::nil());
    while spent < LONG_ENOUGH {
        let sagas = source.read(after, group * WRITERS).await?;
        let Some(last) = sagas.last() else { break };
        after = Uuid::from_bytes(last.id);
        let began = Instant::now();
        let lanes = writers.iter().zip(sagas.chunks(group));
        try_join_all(lanes.map(|((writer, statement), batch)| write(writer, statement, batch))).await?;
        spent += began.elapsed();
        written += u32::try_from(sagas.len())?;
    }
    Ok(f64::from(written) / spent.as_secs_f64())
}

/// The measured run, read a few groups at a time to bound memory.
struct Source {
    client: Client,
    sagas: Statement,
    log: Statement,
}

impl Source {
    async fn of(address: &str) -> Result<Self, Failure> {
        let client = connect(address).await?;
        let sagas = "select id, definition, version, (extract(epoch from created_at) * 1e6)::bigint \
                     from backstitch.sagas where id > $1 order by id limit $2";
        let log = "select saga_id, seq, (extract(epoch from at) * 1e6)::bigint, type, step, attempt, data \
                   from backstitch.saga_events where saga_id = any ($1) order by saga_id, seq";
        let (sagas, log) = (client.prepare(sagas).await?, client.prepare(log).await?);
        Ok(Self { client, sagas, log })
    }

    async fn read(&self, after: Uuid, limit: usize) -> Result<Vec<SagaRows>, Failure> {
        let rows = self.client.query(&self.sagas, &[&after, &i64::try_from(limit)?]).await?;
        let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        let mut logs: HashMap<Uuid, Vec<EventRow>> = HashMap::with_capacity(ids.len());
        for row in self.client.query(&self.log, &[&ids]).await? {
            logs.entry(row.get(0)).or_default().push(EventRow {
                seq: row.get(1),
                at: row.get(2),
                name: row.get(3),
                step: row.get(4),
                attempt: row.get(5),
                data: row.get(6),
            });
        }
        let sagas = rows.iter().zip(ids).map(|(row, id)| SagaRows {
            id: *id.as_bytes(),
            definition: row.get(1),
            version: row.get(2),
            created_at: row.get(3),
            commits: commits(logs.remove(&id).unwrap_or_default()),
        });
        Ok(sagas.collect())
    }
}

/// Writes the first commits of all these sagas as one statement, then the second ones, and so on.
async fn write(writer: &Client, statement: &Statement, batch: &[SagaRows]) -> Result<(), Failure> {
    let longest = batch.iter().map(|saga| saga.commits.len()).max().unwrap_or(0);
    for turn in 0..longest {
        let mut columns = Columns::default();
        for saga in batch {
            columns.add(saga, turn);
        }
        columns.execute(writer, statement).await?;
    }
    Ok(())
}

#[derive(Default)]
struct Columns<'a> {
    events: Events<'a>,
    inserts: Inserts<'a>,
    updates: Updates<'a>,
}

#[derive(Default)]
struct Events<'a> {
    saga: Vec<Uuid>,
    seq: Vec<i32>,
    at: Vec<i64>,
    name: Vec<&'a str>,
    step: Vec<Option<&'a str>>,
    attempt: Vec<Option<i32>>,
    data: Vec<Option<&'a str>>,
}

#[derive(Default)]
struct Inserts<'a> {
    saga: Vec<Uuid>,
    definition: Vec<&'a str>,
    version: Vec<i32>,
    at: Vec<i64>,
}

#[derive(Default)]
struct Updates<'a> {
    saga: Vec<Uuid>,
    status: Vec<&'static str>,
    failed_step: Vec<Option<&'a str>>,
    owner: Vec<Option<i64>>,
    at: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn add(&mut self, saga: &'a SagaRows, turn: usize) {
        let Some(commit) = saga.commits.get(turn) else { return };
        let id = Uuid::from_bytes(saga.id);
        for event in &commit.events {
            self.events.saga.push(id);
            self.events.seq.push(event.seq);
            self.events.at.push(event.at);
            self.events.name.push(&event.name);
            self.events.step.push(event.step.as_deref());
            self.events.attempt.push(event.attempt);
            self.events.data.push(event.data.as_deref());
        }
        match &commit.row {
            Some(RowChange::Insert) => {
                self.inserts.saga.push(id);
                self.inserts.definition.push(&saga.definition);
                self.inserts.version.push(saga.version);
                self.inserts.at.push(saga.created_at);
            }
            Some(RowChange::Update { status, failed_step, owned }) => {
                self.updates.saga.push(id);
                self.updates.status.push(status);
                self.updates.failed_step.push(failed_step.as_deref());
                self.updates.owner.push(owned.then_some(1));
                self.updates.at.push(commit.events.first().map_or(0, |event| event.at));
            }
            None => {}
        }
    }

    async fn execute(&self, writer: &Client, statement: &Statement) -> Result<(), Failure> {
        let Self { events: e, inserts: i, updates: u } = self;
        writer
            .execute(
                statement,
                &[
                    &e.saga,
                    &e.seq,
                    &e.at,
                    &e.name,
                    &e.step,
                    &e.attempt,
                    &e.data,
                    &i.saga,
                    &i.definition,
                    &i.version,
                    &i.at,
                    &u.saga,
                    &u.status,
                    &u.failed_step,
                    &u.owner,
                    &u.at,
                ],
            )
            .await?;
        Ok(())
    }
}
