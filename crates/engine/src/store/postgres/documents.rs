//! Versioned documents in the database.

use std::sync::Arc;

use async_trait::async_trait;
use backstitch_kernel::Payload;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::session::{Session, change, conclude, read};
use super::values::{get, get_time, is_text};
use super::{PostgresStore, sql};
use crate::store::documents::{
    Becomes, CollectedDocuments, Document, DocumentStore, DocumentVersion, NewVersion, SAGA, Version,
};
use crate::store::{Corrupt, Error};

#[async_trait]
impl DocumentStore for PostgresStore {
    async fn register(&self, definition: &DocumentVersion) -> Result<DocumentVersion, Error> {
        change!(self.sessions.to_ask(), |session| register(session, definition))
    }

    async fn add_version(
        &self,
        kind: &'static str,
        new: &NewVersion,
        becomes: Becomes,
    ) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| add(session, kind, new, becomes))
    }

    async fn apply_staged(
        &self,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        change!(self.sessions.to_ask(), |session| change_staged(
            session,
            sql!(documents::apply),
            "active",
            (kind, name),
            expected
        ))
    }

    async fn discard_staged(
        &self,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        change!(self.sessions.to_ask(), |session| change_staged(
            session,
            sql!(documents::discard),
            "staged",
            (kind, name),
            expected
        ))
    }

    async fn documents(&self, kind: &'static str, name: Option<&str>) -> Result<Vec<Document>, Error> {
        read!(self.sessions, |session| list(session, kind, name))
    }

    async fn durable_document(&self, kind: &'static str, name: &str) -> Result<Option<Document>, Error> {
        read!(self.sessions, |session| durable(session, kind, name))
    }

    async fn document_version(
        &self,
        kind: &'static str,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<DocumentVersion>, Error> {
        read!(self.sessions, |session| load(session, kind, name, version))
    }
}

async fn register(session: &Session, definition: &DocumentVersion) -> Result<DocumentVersion, Error> {
    let columns = Columns::of(definition)?;
    session.query(sql!(documents::register), &columns.values(&SAGA)).await?;
    let Columns { name, version, .. } = columns;
    // An earlier process may have written it: this one starts sagas of it either way.
    let stored = session.query_durably(sql!(documents::load), &[&SAGA, &name, &Some(version)]).await?;
    let gone = || Error::Unavailable(format!("version {version} of `{name}` was deleted a moment ago"));
    stored.first().map(stored_version).ok_or_else(gone)?
}

async fn add(session: &mut Session, kind: &str, new: &NewVersion, becomes: Becomes) -> Result<bool, Error> {
    let columns = Columns::of(&new.document)?;
    let (name, version) = (columns.name, columns.version);
    let pointed = |wanted| (becomes == wanted).then_some(version);
    let addition = async {
        let transaction = session.transaction().await?;
        let addition = async {
            let add = transaction.prepare_cached(sql!(documents::add)).await?;
            if transaction.query(&add, &columns.values(&kind)).await?.is_empty() {
                return Ok(false);
            }
            let point = transaction.prepare_cached(sql!(documents::point)).await?;
            let (active, staged) = (pointed(Becomes::Active), pointed(Becomes::Staged));
            transaction.query(&point, &[&kind, &name, &active, &staged]).await?;
            if let Some((rows, content)) = &new.derived {
                let derive = transaction.prepare_cached(rows.postgres).await?;
                transaction.execute(&derive, &[&name, &version, &content.as_str()]).await?;
            }
            Ok(true)
        };
        let outcome = addition.await;
        conclude(transaction, outcome).await
    };
    let added = addition.await;
    added.map_err(|why| session.told(&why))
}

/// The version that was staged, unless nothing was changed.
async fn change_staged(
    session: &Session,
    statement: &str,
    column: &str,
    (kind, name): (&str, &str),
    expected: Option<u32>,
) -> Result<Option<u32>, Error> {
    // A number that no column can hold is staged nowhere.
    let (true, Ok(expected)) = (is_text(name), expected.map(i32::try_from).transpose()) else {
        return Ok(None);
    };
    let changed = session.query(statement, &[&kind, &name, &expected]).await?;
    changed.first().map(|row| version_in(row, column)).transpose().map(Option::flatten)
}

async fn list(session: &Session, kind: &str, name: Option<&str>) -> Result<Vec<Document>, Error> {
    if !name.is_none_or(is_text) {
        return Ok(Vec::new());
    }
    let mut collected = CollectedDocuments::default();
    for row in session.query(sql!(documents::list), &[&kind, &name]).await? {
        let version = Version {
            number: get::<i32>(&row, "version")?.unsigned_abs(),
            created_at: get_time(&row, "created_at")?,
        };
        let (active, staged) = (version_in(&row, "active")?, version_in(&row, "staged")?);
        let (name, changed_at) = (get(&row, "name")?, get_time(&row, "changed_at")?);
        let document =
            || Document { name: Arc::from(name), active, staged, changed_at, versions: Vec::new() };
        collected.add(name, document, version);
    }
    Ok(collected.all())
}

async fn durable(session: &Session, kind: &str, name: &str) -> Result<Option<Document>, Error> {
    let found = list(session, kind, Some(name)).await?.pop();
    session.confirm().await?;
    Ok(found)
}

async fn load(
    session: &Session,
    kind: &str,
    name: &str,
    version: Option<u32>,
) -> Result<Option<DocumentVersion>, Error> {
    let version = version.map(i32::try_from).transpose();
    let (true, Ok(version)) = (is_text(name), version) else { return Ok(None) };
    let stored = session.query(sql!(documents::load), &[&kind, &name, &version]).await?;
    stored.first().map(stored_version).transpose()
}

/// A version as the columns of a new row.
struct Columns<'a> {
    name: &'a str,
    version: i32,
    /// All 64 bits count, the sign among them.
    fingerprint: Option<i64>,
    body: &'a str,
}

impl<'a> Columns<'a> {
    fn of(document: &'a DocumentVersion) -> Result<Self, Error> {
        let name = &*document.name;
        if !is_text(name) {
            return Err(Error::Refused(format!("the name {name:?} contains a NUL character")));
        }
        let version = i32::try_from(document.version)
            .map_err(|_| Error::Refused(format!("version {} of `{name}` is too high", document.version)))?;
        let fingerprint = document.fingerprint.map(u64::cast_signed);
        Ok(Self { name, version, fingerprint, body: document.body.as_str() })
    }

    fn values<'v>(&'v self, kind: &'v &str) -> [&'v (dyn ToSql + Sync); 5] {
        [kind, &self.name, &self.version, &self.fingerprint, &self.body]
    }
}

fn version_in(row: &Row, column: &str) -> Result<Option<u32>, Error> {
    Ok(get::<Option<i32>>(row, column)?.map(i32::unsigned_abs))
}

fn stored_version(row: &Row) -> Result<DocumentVersion, Error> {
    let name: Arc<str> = get::<&str>(row, "name").map(Arc::from)?;
    let version = get::<i32>(row, "version")?.unsigned_abs();
    let body = Payload::parse(get::<&str>(row, "body")?).map_err(|why| Corrupt {
        table: "document_versions",
        column: "body",
        id: format!("{name} version {version}"),
        why: why.to_string(),
    })?;
    let fingerprint = get::<Option<i64>>(row, "fingerprint")?.map(i64::cast_unsigned);
    Ok(DocumentVersion { name, version, fingerprint, body })
}
