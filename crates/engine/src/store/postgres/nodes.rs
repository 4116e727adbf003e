//! Nodes and their heartbeats. Only the database's clock decides.

use std::collections::BTreeMap;
use std::time::SystemTime;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use serde_json::json;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::session::{Session, change, read};
use super::values::{get, get_time, millis, readable, time, timestamp};
use super::{PostgresStore, schema, sql, trial};
use crate::store::migrations::ENGINE;
use crate::store::nodes::{Epoch, Joined, Node};
use crate::store::{Error, NodeStore, SchemaName};

#[async_trait]
impl NodeStore for PostgresStore {
    async fn nodes(&self, limit: usize) -> Result<Vec<Joined>, Error> {
        read!(self.sessions, |session| joined(session, limit))
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        self.sessions.live_by(node.lease);
        change!(self.sessions.to_join(), |session| join(
            session,
            self.sessions.schema(),
            node,
            &self.products
        ))
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        change!(self.sessions.to_beat(), |session| heartbeat(
            session,
            self.sessions.schema(),
            epoch,
            &self.products
        ))
    }

    async fn try_writing(&self, epoch: Epoch) -> Result<bool, Error> {
        let lives = self.heartbeat(epoch).await?;
        if lives {
            trial::write_in_vain(&self.sessions, epoch).await?;
        }
        Ok(lives)
    }

    async fn share_written_answers(
        &self,
        epoch: Epoch,
        until: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        change!(self.sessions.to_ask(), |session| share_written_answers(session, epoch, until))
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        change!(self.sessions.to_ask(), |session| leave(session, epoch))
    }
}

/// The products whose tables a node has, and the versions that it knows.
pub(super) type KnownProducts = BTreeMap<&'static str, i64>;

async fn join(
    session: &Session,
    schema: &SchemaName,
    node: &Node,
    products: &KnownProducts,
) -> Result<Epoch, Error> {
    let name = readable(&node.name);
    let said = json!(products).to_string();
    let values: [&(dyn ToSql + Sync); 4] = [&name, &millis(node.lease), &ENGINE.newest(), &said];
    let rows = write_row(session, schema, products, sql!(nodes::join), &values).await?;
    let missing = || Error::Unavailable("the database gave the node no number".to_owned());
    rows.first().map(|row| get(row, "epoch")).ok_or_else(missing)?
}

async fn joined(session: &Session, limit: usize) -> Result<Vec<Joined>, Error> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = session.query(sql!(nodes::list), &[&limit]).await?;
    let joined = |row| {
        Ok(Joined {
            epoch: get(row, "epoch")?,
            name: get(row, "name")?,
            started_at: get_time(row, "started_at")?,
            heartbeat_at: get_time(row, "heartbeat_at")?,
            lives: get(row, "lives")?,
        })
    };
    rows.iter().map(joined).collect()
}

pub(super) async fn clock(session: &Session) -> Result<Timestamp, Error> {
    get_time(&session.query_one(sql!(nodes::clock)).await?, "clock")
}

async fn heartbeat(
    session: &Session,
    schema: &SchemaName,
    epoch: Epoch,
    products: &KnownProducts,
) -> Result<bool, Error> {
    Ok(!write_row(session, schema, products, sql!(nodes::heartbeat), &[&epoch]).await?.is_empty())
}

async fn share_written_answers(
    session: &Session,
    epoch: Epoch,
    until: Timestamp,
) -> Result<Option<Timestamp>, Error> {
    let rows = session.query(sql!(nodes::share_written_answers), &[&epoch, &time(until)]).await?;
    let earliest: Option<SystemTime> = rows.first().map_or(Ok(None), |row| get(row, "written_until"))?;
    Ok(earliest.map(timestamp))
}

/// Writes the row of this node, which the database refuses once a newer version has changed the data.
async fn write_row(
    session: &Session,
    schema: &SchemaName,
    products: &KnownProducts,
    statement: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    let written = session.query(statement, values).await;
    if let Err(Error::Rejected(_)) = &written {
        let found = schema::versions(session, schema).await?;
        let engine = (ENGINE.product, ENGINE.newest());
        let areas = std::iter::once(engine).chain(products.iter().map(|(product, known)| (*product, *known)));
        let mut both = areas.filter_map(|(area, known)| Some((*found.get(area)?, known)));
        let newer = both.find(|(found, known)| found > known);
        if let Some((found, known)) = newer {
            return Err(Error::NewerSchema { found, known });
        }
    }
    written
}

async fn leave(session: &Session, epoch: Epoch) -> Result<(), Error> {
    session.query(sql!(ownership::release_all), &[&epoch]).await.map(|_| ())
}
