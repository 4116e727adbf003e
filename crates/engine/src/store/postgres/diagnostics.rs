//! Counts of sagas, work that may be orphaned, and facts about the server.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use futures::future::{try_join, try_join5};
use tokio_postgres::Row;

use super::sagas::{status, summary};
use super::session::{Session, read};
use super::values::{get, is_text, limit, time, timestamp};
use super::{PostgresStore, schema, sql};
use crate::store::diagnostics::{Footing, Heard, Owner, Queue, SchemaVersion, Software, Survey, Waiting};
use crate::store::migrations::ENGINE;
use crate::store::nodes::Known;
use crate::store::query::ENOUGH;
use crate::store::{COUNTED, Counts, DiagnosticsStore, Error, InFlight, SchemaName, Summary, Unregistered};

#[async_trait]
impl DiagnosticsStore for PostgresStore {
    async fn counts(&self, known: &[Known]) -> Result<Counts, Error> {
        read!(self.sessions, |session| counts(session, known))
    }

    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        read!(self.sessions, |session| in_flight(session, definition))
    }

    async fn stuck(&self, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error> {
        read!(self.sessions, |session| stuck(session, since, limit))
    }

    async fn survey(&self, limit: usize) -> Result<Survey, Error> {
        read!(self.sessions, |session| survey(session, limit))
    }

    async fn footing(&self) -> Result<Option<Footing>, Error> {
        read!(self.sessions, |session| footing(session, self.sessions.schema())).map(Some)
    }
}

async fn counts(session: &Session, known: &[Known]) -> Result<Counts, Error> {
    let enough = limit(ENOUGH);
    let (active, unregistered) = try_join(
        session.query(sql!(diagnostics::active), &[&enough]),
        session.query(sql!(diagnostics::unregistered), &[&enough]),
    )
    .await?;
    let mut counts = Counts::default();
    for row in &active {
        let sagas: i64 = get(row, "count")?;
        if sagas > 0 {
            counts.active.insert(status(row, None)?, sagas.unsigned_abs());
        }
    }
    for row in &unregistered {
        let waiting = Unregistered {
            definition: get(row, "definition")?,
            version: get::<i32>(row, "version")?.unsigned_abs(),
            sagas: get::<i64>(row, "sagas")?.unsigned_abs().min(COUNTED + 1),
        };
        let is_waiting =
            |known: &Known| *known.name == *waiting.definition && known.version == waiting.version;
        if !known.iter().any(is_waiting) {
            counts.unregistered.push(waiting);
        }
    }
    Ok(counts)
}

async fn in_flight(session: &Session, definition: &str) -> Result<Vec<InFlight>, Error> {
    if !is_text(definition) {
        return Ok(Vec::new());
    }
    let rows = session.query(sql!(documents::in_flight), &[&definition, &limit(ENOUGH)]).await?;
    let counted = rows.iter().map(|row| {
        let version = get::<i32>(row, "version")?.unsigned_abs();
        Ok(InFlight { version, sagas: get::<i64>(row, "sagas")?.unsigned_abs().min(COUNTED + 1) })
    });
    counted.collect()
}

async fn stuck(session: &Session, since: Timestamp, at_most: usize) -> Result<Vec<Summary>, Error> {
    let rows = session.query(sql!(sagas::stuck), &[&time(since), &limit(at_most)]).await?;
    rows.iter().map(summary).collect()
}

async fn survey(session: &Session, at_most: usize) -> Result<Survey, Error> {
    let at_most = limit(at_most);
    let (adrift, owners, waiting, leased, pending) = try_join5(
        session.query(sql!(sagas::orphaned), &[&at_most]),
        session.query(sql!(diagnostics::owners), &[&at_most]),
        session.query(sql!(diagnostics::waiting_sagas), &[&at_most]),
        session.query(sql!(diagnostics::leased_queues), &[&at_most]),
        session.query(sql!(diagnostics::pending_queues), &[&at_most]),
    )
    .await?;
    Ok(Survey {
        adrift: adrift.iter().map(summary).collect::<Result<_, _>>()?,
        owners: owners.iter().map(owner).collect::<Result<_, _>>()?,
        waiting: waiting.iter().map(waits).collect::<Result<_, _>>()?,
        leased: leased.iter().map(queue).collect::<Result<_, _>>()?,
        pending: pending.iter().map(queue).collect::<Result<_, _>>()?,
    })
}

fn owner(row: &Row) -> Result<Owner, Error> {
    let heard = match get::<Option<String>>(row, "name")? {
        Some(node) => Some(Heard { node, late: late(row)? }),
        None => None,
    };
    let (definition, version) = (get(row, "definition")?, get::<i32>(row, "version")?.unsigned_abs());
    Ok(Owner { definition, version, epoch: get(row, "owner")?, heard })
}

fn waits(row: &Row) -> Result<Waiting, Error> {
    let (definition, version) = (get(row, "definition")?, get::<i32>(row, "version")?.unsigned_abs());
    Ok(Waiting { definition, version, late: late(row)? })
}

fn queue(row: &Row) -> Result<Queue, Error> {
    Ok(Queue { queue: get(row, "queue")?, job: get(row, "id")?, late: late(row)? })
}

/// How long something has been due, in microseconds; below zero it is not yet.
fn late(row: &Row) -> Result<Duration, Error> {
    Ok(Duration::from_micros(u64::try_from(get::<i64>(row, "late")?).unwrap_or_default()))
}

async fn footing(session: &Session, schema: &SchemaName) -> Result<Footing, Error> {
    let (server, mut products) =
        try_join(session.query_one(sql!(diagnostics::server)), schema::versions(session, schema)).await?;
    let found = products.remove(ENGINE.product).unwrap_or_default();
    Ok(Footing {
        software: Software {
            name: "PostgreSQL",
            version: get(&server, "version")?,
            number: get(&server, "number")?,
            oldest: (schema::OLDEST_SERVER / 10_000).to_string(),
            oldest_number: schema::OLDEST_SERVER,
        },
        schema: SchemaVersion { found, known: ENGINE.newest() },
        products,
        clock: Some(timestamp(get::<SystemTime>(&server, "clock")?)),
        file: None,
    })
}
