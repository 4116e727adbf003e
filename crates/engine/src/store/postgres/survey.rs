//! What nobody may be looking after, and what the database stands on.

use std::time::{Duration, SystemTime};

use futures::future::{try_join3, try_join5};
use tokio_postgres::Row;

use super::read::summary;
use super::schema;
use super::session::Session;
use super::sql;
use super::value::{get, limit, timestamp};
use crate::store::Error;
use crate::store::survey::{Footing, Heard, Owner, Queue, SchemaVersion, Software, Survey, Waiting};

pub(super) async fn survey(session: &Session, at_most: usize) -> Result<Survey, Error> {
    let at_most = limit(at_most);
    let (adrift, owners, waiting, leased, pending) = try_join5(
        session.query(sql!("survey_adrift"), &[&at_most]),
        session.query(sql!("survey_owners"), &[&at_most]),
        session.query(sql!("survey_waiting"), &[&at_most]),
        session.query(sql!("survey_leased"), &[&at_most]),
        session.query(sql!("survey_pending"), &[&at_most]),
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

const SERVER: &str = "select
    current_setting('server_version_num')::integer as number,
    current_setting('server_version') as version,
    clock() as clock";

pub(super) async fn footing(session: &Session) -> Result<Footing, Error> {
    let (server, found, products) =
        try_join3(session.query_one(SERVER), schema::version_of(session), schema::products(session)).await?;
    Ok(Footing {
        software: Software {
            name: "PostgreSQL",
            version: get(&server, "version")?,
            number: get(&server, "number")?,
            oldest: (schema::OLDEST_SERVER / 10_000).to_string(),
            oldest_number: schema::OLDEST_SERVER,
        },
        schema: SchemaVersion { found, known: schema::newest() },
        products,
        clock: Some(timestamp(get::<SystemTime>(&server, "clock")?)),
        file: None,
    })
}
