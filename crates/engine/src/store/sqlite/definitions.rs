//! Definitions, each version kept as it was first written.

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use rusqlite::{Connection, Row, Transaction, params};

use super::fault::Fault;
use super::values::Reading;
use super::{SqliteStore, declared, sql};
use crate::store::declared::{Declared, InFlight};
use crate::store::nodes::Registered;
use crate::store::{Corrupt, DefinitionStore, Error};

#[async_trait]
impl DefinitionStore for SqliteStore {
    async fn register(&self, definition: &Registered) -> Result<Registered, Error> {
        let (definition, now) = (definition.clone(), self.clock.now());
        self.connections.write(move |connection| register(connection, &definition, now)).await
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
        let name = name.to_owned();
        self.connections.read(move |connection| load(connection, &name, version)).await
    }

    async fn stage(&self, definition: &Registered) -> Result<bool, Error> {
        let (definition, now) = (definition.clone(), self.clock.now());
        self.connections.write(move |connection| declared::keep(connection, &definition, false, now)).await
    }

    async fn activate(&self, definition: &Registered) -> Result<bool, Error> {
        let (definition, now) = (definition.clone(), self.clock.now());
        self.connections.write(move |connection| declared::keep(connection, &definition, true, now)).await
    }

    async fn apply_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        let (name, now) = (name.to_owned(), self.clock.now());
        self.connections.write(move |connection| declared::apply(connection, &name, expected, now)).await
    }

    async fn discard_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        let (name, now) = (name.to_owned(), self.clock.now());
        self.connections.write(move |connection| declared::discard(connection, &name, expected, now)).await
    }

    async fn declared(&self, name: Option<&str>) -> Result<Vec<Declared>, Error> {
        let name = name.map(str::to_owned);
        self.connections.read(move |connection| declared::list(connection, name.as_deref())).await
    }

    async fn durably_declared(&self, name: &str) -> Result<Option<Declared>, Error> {
        Ok(self.declared(Some(name)).await?.pop())
    }

    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        let definition = definition.to_owned();
        self.connections.read(move |connection| declared::in_flight(connection, &definition)).await
    }
}

fn register(connection: &Connection, definition: &Registered, now: Timestamp) -> Result<Registered, Fault> {
    connection.prepare_cached(sql!("register_definition"))?.execute(params![
        definition.name,
        definition.version,
        definition.fingerprint.cast_signed(),
        definition.body.as_str(),
        now.as_micros()
    ])?;
    let kept = load(connection, &definition.name, Some(definition.version))?;
    Ok(kept.ok_or_else(|| Error::Refused(format!("`{}` was not kept", definition.name)))?)
}

/// A version as the caller's transaction sees it.
///
/// # Errors
/// When the database cannot be read.
pub(crate) fn definition_in(
    transaction: &Transaction<'_>,
    name: &str,
    version: u32,
) -> Result<Option<Registered>, Error> {
    Ok(load(transaction, name, Some(version))?)
}

fn load(connection: &Connection, name: &str, version: Option<u32>) -> Result<Option<Registered>, Fault> {
    let mut statement = connection.prepare_cached(sql!("load_definition"))?;
    let mut rows = statement.query(params![name, version])?;
    Ok(rows.next()?.map(registered).transpose()?)
}

fn registered(row: &Row<'_>) -> Result<Registered, Corrupt> {
    let name: String = Reading::of("definitions", &"?", row).get(0, "name")?;
    let row = Reading::of("definitions", &name, row);
    Ok(Registered {
        version: row.count(1, "version")?,
        fingerprint: row.get::<i64>(2, "fingerprint")?.cast_unsigned(),
        body: row.payload(3, "body")?,
        name: name.as_str().into(),
    })
}
