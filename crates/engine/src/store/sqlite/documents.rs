//! Versioned documents in the file.

use std::sync::Arc;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::values::RowReader;
use super::{SqliteStore, sql};
use crate::store::documents::{
    Becomes, CollectedDocuments, Document, DocumentStore, DocumentVersion, NewVersion, SAGA, Version,
};
use crate::store::{Corrupt, Error};

#[async_trait]
impl DocumentStore for SqliteStore {
    async fn register(&self, definition: &DocumentVersion) -> Result<DocumentVersion, Error> {
        let (definition, now) = (definition.clone(), self.clock.now());
        self.connections.write(move |connection| register(connection, &definition, now)).await
    }

    async fn add_version(
        &self,
        kind: &'static str,
        new: &NewVersion,
        becomes: Becomes,
    ) -> Result<bool, Error> {
        let (new, now) = (new.clone(), self.clock.now());
        self.connections.write(move |connection| add(connection, kind, &new, becomes, now)).await
    }

    async fn apply_staged(
        &self,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        self.change_staged(sql!(documents::apply), kind, name, expected).await
    }

    async fn discard_staged(
        &self,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        self.change_staged(sql!(documents::discard), kind, name, expected).await
    }

    async fn documents(&self, kind: &'static str, name: Option<&str>) -> Result<Vec<Document>, Error> {
        let name = name.map(str::to_owned);
        self.connections.read(move |connection| list(connection, kind, name.as_deref())).await
    }

    async fn durable_document(&self, kind: &'static str, name: &str) -> Result<Option<Document>, Error> {
        Ok(self.documents(kind, Some(name)).await?.pop())
    }

    async fn document_version(
        &self,
        kind: &'static str,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<DocumentVersion>, Error> {
        let name = name.to_owned();
        self.connections.read(move |connection| load(connection, kind, &name, version)).await
    }
}

impl SqliteStore {
    /// The version that was staged, unless nothing was changed.
    async fn change_staged(
        &self,
        statement: &'static str,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        let (name, now) = (name.to_owned(), self.clock.now().as_micros());
        let change = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(statement)?;
            Ok(statement
                .query_row(params![kind, name, expected, now], |row| row.get("version"))
                .optional()?)
        };
        self.connections.write(change).await
    }
}

fn register(
    connection: &Connection,
    definition: &DocumentVersion,
    now: Timestamp,
) -> Result<DocumentVersion, Fault> {
    connection.prepare_cached(sql!(documents::register))?.execute(params![
        SAGA,
        definition.name,
        definition.version,
        definition.fingerprint.map(u64::cast_signed),
        definition.body.as_str(),
        now.as_micros()
    ])?;
    let stored = load(connection, SAGA, &definition.name, Some(definition.version))?;
    Ok(stored.ok_or_else(|| Error::Refused(format!("`{}` was not stored", definition.name)))?)
}

fn add(
    connection: &Connection,
    kind: &str,
    new: &NewVersion,
    becomes: Becomes,
    now: Timestamp,
) -> Result<bool, Fault> {
    let NewVersion { document: DocumentVersion { name, version, fingerprint, body }, derived } = new;
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let added: Option<u32> = transaction
        .prepare_cached(sql!(documents::add))?
        .query_row(
            params![kind, name, version, fingerprint.map(u64::cast_signed), body.as_str(), now.as_micros()],
            |row| row.get("version"),
        )
        .optional()?;
    if added.is_none() {
        return Ok(false);
    }
    let pointed = |wanted| (becomes == wanted).then_some(version);
    transaction.prepare_cached(sql!(documents::point))?.execute(params![
        kind,
        name,
        pointed(Becomes::Active),
        pointed(Becomes::Staged),
        now.as_micros()
    ])?;
    if let Some((rows, content)) = derived {
        transaction.prepare_cached(rows.sqlite)?.execute(params![name, version, content.as_str()])?;
    }
    transaction.commit()?;
    Ok(true)
}

fn list(connection: &Connection, kind: &str, name: Option<&str>) -> Result<Vec<Document>, Fault> {
    let mut statement = connection.prepare_cached(sql!(documents::list))?;
    let mut rows = statement.query(params![kind, name])?;
    let mut collected = CollectedDocuments::default();
    while let Some(row) = rows.next()? {
        let name: Arc<str> = RowReader::of("documents", &"?", row).get("name")?;
        let row = RowReader::of("documents", &name, row);
        let version = Version { number: row.count("version")?, created_at: row.time("created_at")? };
        let (active, staged) = (row.get("active")?, row.get("staged")?);
        let changed_at = row.time("changed_at")?;
        let document = || Document { name: name.clone(), active, staged, changed_at, versions: Vec::new() };
        collected.add(&name, document, version);
    }
    Ok(collected.all())
}

/// A version of a saga as the caller's transaction sees it.
///
/// # Errors
/// When the database cannot be read.
pub(crate) fn definition_in(
    transaction: &Transaction<'_>,
    name: &str,
    version: u32,
) -> Result<Option<DocumentVersion>, Error> {
    Ok(load(transaction, SAGA, name, Some(version))?)
}

fn load(
    connection: &Connection,
    kind: &str,
    name: &str,
    version: Option<u32>,
) -> Result<Option<DocumentVersion>, Fault> {
    let mut statement = connection.prepare_cached(sql!(documents::load))?;
    let mut rows = statement.query(params![kind, name, version])?;
    Ok(rows.next()?.map(stored).transpose()?)
}

fn stored(row: &Row<'_>) -> Result<DocumentVersion, Corrupt> {
    let name: Arc<str> = RowReader::of("document_versions", &"?", row).get("name")?;
    let row = RowReader::of("document_versions", &name, row);
    Ok(DocumentVersion {
        version: row.count("version")?,
        fingerprint: row.get::<Option<i64>>("fingerprint")?.map(i64::cast_unsigned),
        body: row.payload("body")?,
        name: name.clone(),
    })
}
