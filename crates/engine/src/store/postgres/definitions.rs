//! Versions of definitions.

use std::sync::Arc;

use async_trait::async_trait;
use backstitch_kernel::Payload;
use tokio_postgres::Row;

use super::session::{Session, change, read};
use super::values::{get, is_text};
use super::{PostgresStore, declared, sql};
use crate::store::declared::{Declared, InFlight};
use crate::store::nodes::Registered;
use crate::store::{Corrupt, DefinitionStore, Error};

#[async_trait]
impl DefinitionStore for PostgresStore {
    async fn register(&self, definition: &Registered) -> Result<Registered, Error> {
        change!(self.sessions.to_ask(), |session| register(session, definition))
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
        read!(self.sessions, |session| load(session, name, version))
    }

    async fn stage(&self, definition: &Registered) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| declared::keep(session, definition, false))
    }

    async fn activate(&self, definition: &Registered) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| declared::keep(session, definition, true))
    }

    async fn apply_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        change!(self.sessions.to_ask(), |session| declared::apply(session, name, expected))
    }

    async fn discard_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        change!(self.sessions.to_ask(), |session| declared::discard(session, name, expected))
    }

    async fn declared(&self, name: Option<&str>) -> Result<Vec<Declared>, Error> {
        read!(self.sessions, |session| declared::list(session, name))
    }

    async fn durably_declared(&self, name: &str) -> Result<Option<Declared>, Error> {
        read!(self.sessions, |session| declared::durably_declared(session, name))
    }

    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        read!(self.sessions, |session| declared::in_flight(session, definition))
    }
}

async fn register(session: &Session, definition: &Registered) -> Result<Registered, Error> {
    let name = &*definition.name;
    if !is_text(name) {
        return Err(Error::Refused(format!("the name {name:?} contains a NUL character")));
    }
    let version = i32::try_from(definition.version)
        .map_err(|_| Error::Refused(format!("version {} of `{name}` is too high", definition.version)))?;
    // All 64 bits count, the sign among them.
    let fingerprint = definition.fingerprint.cast_signed();
    let body = definition.body.as_str();
    session.query(sql!("register_definition"), &[&name, &version, &fingerprint, &body]).await?;
    // An earlier process may have written it: this one starts sagas of it either way.
    let kept = session.query_durably(sql!("load_definition"), &[&name, &Some(version)]).await?;
    let gone = || Error::Unavailable(format!("version {version} of `{name}` was deleted a moment ago"));
    kept.first().map(registered).ok_or_else(gone)?
}

async fn load(session: &Session, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
    let version = version.map(i32::try_from).transpose();
    let (true, Ok(version)) = (is_text(name), version) else { return Ok(None) };
    let kept = session.query(sql!("load_definition"), &[&name, &version]).await?;
    kept.first().map(registered).transpose()
}

fn registered(row: &Row) -> Result<Registered, Error> {
    let name: Arc<str> = get::<&str>(row, "name").map(Arc::from)?;
    let version = get::<i32>(row, "version")?.unsigned_abs();
    let body = Payload::parse(get::<&str>(row, "body")?).map_err(|why| Corrupt {
        table: "definitions",
        column: "body",
        id: format!("{name} version {version}"),
        why: why.to_string(),
    })?;
    Ok(Registered { fingerprint: get::<i64>(row, "fingerprint")?.cast_unsigned(), name, version, body })
}
