//! Definitions, each version kept as it was first written.

use backstitch_kernel::Timestamp;
use rusqlite::{Connection, Row, Transaction, params};

use super::fault::Fault;
use super::sql;
use super::values::Reading;
use crate::store::nodes::Registered;
use crate::store::{Corrupt, Error};

pub(super) fn register(
    connection: &Connection,
    definition: &Registered,
    now: Timestamp,
) -> Result<Registered, Fault> {
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

pub(super) fn load(
    connection: &Connection,
    name: &str,
    version: Option<u32>,
) -> Result<Option<Registered>, Fault> {
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
