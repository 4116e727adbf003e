//! Declared definitions: what is active, and what is staged.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::session::Session;
use super::sql;
use super::values::{get, get_time, is_text, limit};
use crate::store::declared::{Collected, Declared, InFlight, Version};
use crate::store::nodes::Registered;
use crate::store::query::ENOUGH;
use crate::store::{COUNTED, Error};

/// Keeps a version, and lets it be active or staged.
pub(super) async fn keep(session: &Session, definition: &Registered, is_active: bool) -> Result<bool, Error> {
    let name = &*definition.name;
    let (true, Ok(version)) = (is_text(name), i32::try_from(definition.version)) else {
        return Err(Error::Refused(format!("version {} of `{name}` cannot be kept", definition.version)));
    };
    let (fingerprint, body) = (definition.fingerprint.cast_signed(), definition.body.as_str());
    let values: [&(dyn ToSql + Sync); 5] = [&name, &version, &fingerprint, &body, &is_active];
    Ok(!session.query(sql!("keep_declared"), &values).await?.is_empty())
}

pub(super) async fn apply(
    session: &Session,
    name: &str,
    expected: Option<u32>,
) -> Result<Option<u32>, Error> {
    // What is no number of a version here is staged nowhere.
    let (true, Ok(expected)) = (is_text(name), expected.map(i32::try_from).transpose()) else {
        return Ok(None);
    };
    let applied = session.query(sql!("apply_definition"), &[&name, &expected]).await?;
    applied.first().map(|row| optional(row, "active")).transpose().map(Option::flatten)
}

pub(super) async fn discard(
    session: &Session,
    name: &str,
    expected: Option<u32>,
) -> Result<Option<u32>, Error> {
    let (true, Ok(expected)) = (is_text(name), expected.map(i32::try_from).transpose()) else {
        return Ok(None);
    };
    let discarded = session.query(include_str!("discard_definition.sql"), &[&name, &expected]).await?;
    discarded.first().map(|row| optional(row, "staged")).transpose().map(Option::flatten)
}

pub(super) async fn list(session: &Session, name: Option<&str>) -> Result<Vec<Declared>, Error> {
    if !name.is_none_or(is_text) {
        return Ok(Vec::new());
    }
    let mut found = Collected::default();
    for row in session.query(sql!("declared"), &[&name]).await? {
        let version = Version {
            number: get::<i32>(&row, "version")?.unsigned_abs(),
            created_at: get_time(&row, "created_at")?,
        };
        found.add(get(&row, "name")?, optional(&row, "active")?, optional(&row, "staged")?, version);
    }
    Ok(found.all())
}

pub(super) async fn durably_declared(session: &Session, name: &str) -> Result<Option<Declared>, Error> {
    let found = list(session, Some(name)).await?.pop();
    session.confirm().await?;
    Ok(found)
}

fn optional(row: &Row, column: &str) -> Result<Option<u32>, Error> {
    Ok(get::<Option<i32>>(row, column)?.map(i32::unsigned_abs))
}

pub(super) async fn in_flight(session: &Session, definition: &str) -> Result<Vec<InFlight>, Error> {
    if !is_text(definition) {
        return Ok(Vec::new());
    }
    let rows = session.query(sql!("in_flight"), &[&definition, &limit(ENOUGH)]).await?;
    let counted = rows.iter().map(|row| {
        let version = get::<i32>(row, "version")?.unsigned_abs();
        Ok(InFlight { version, sagas: get::<i64>(row, "sagas")?.unsigned_abs().min(COUNTED + 1) })
    });
    counted.collect()
}
