//! Versioned documents: versions that never change, and which one of a name is active or staged.

use std::sync::Arc;

use async_trait::async_trait;
use backstitch_kernel::{Payload, Timestamp};

use super::Error;
use super::sealed::Sealed;

/// The kind of documents that are definitions of sagas.
pub const SAGA: &str = "saga";

/// A name of a kind, with its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The name.
    pub name: Arc<str>,
    /// The version in use; none before the first one is applied.
    pub active: Option<u32>,
    /// The version that waits to be applied or discarded. No version is higher.
    pub staged: Option<u32>,
    /// When that changed last.
    pub changed_at: Timestamp,
    /// Every version there is, oldest first.
    pub versions: Vec<Version>,
}

/// One version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number.
    pub number: u32,
    /// When it was added.
    pub created_at: Timestamp,
}

/// A version as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentVersion {
    /// The name.
    pub name: Arc<str>,
    /// Its number.
    pub version: u32,
    /// What the logs of sagas depend on; only definitions of sagas have it.
    pub fingerprint: Option<u64>,
    /// What it says.
    pub body: Payload,
}

/// What a new version becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// Staged, in place of what was staged before.
    Staged,
    /// Active; what was staged before is not any more.
    Active,
}

/// How a product writes rows that it derives from a version, in both dialects.
///
/// The statement takes the name, the version and a JSON text, as `?1` to `?3` or as `$1` (text), `$2` (integer) and `$3` (text).
#[derive(Debug)]
pub struct DerivedRows {
    /// For `SQLite`.
    pub sqlite: &'static str,
    /// For `PostgreSQL`.
    pub postgres: &'static str,
}

/// A version to be added, and the rows that are written with it.
#[derive(Clone, Debug)]
pub struct NewVersion {
    /// The version.
    pub document: DocumentVersion,
    /// Rows that a product derives from it, with what they hold.
    pub derived: Option<(&'static DerivedRows, Payload)>,
}

impl From<DocumentVersion> for NewVersion {
    fn from(document: DocumentVersion) -> Self {
        Self { document, derived: None }
    }
}

/// Where versioned documents are durable.
#[async_trait]
pub trait DocumentStore: Sealed {
    /// Stores a version of a saga that a program registers, and returns what is stored if the version was there before.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn register(&self, definition: &DocumentVersion) -> Result<DocumentVersion, Error>;

    /// Adds a version and points its name to it, both or neither. `false`: its number is not the next one, or the name has
    /// versions that were [registered](Self::register) and belongs to a program's code.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn add_version(
        &self,
        kind: &'static str,
        new: &NewVersion,
        becomes: Becomes,
    ) -> Result<bool, Error>;

    /// Makes the staged version the active one; `None` when nothing is staged, or not the version that is expected.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn apply_staged(
        &self,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error>;

    /// Forgets which version is staged; `None` when nothing is, or not the version that is expected.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn discard_staged(
        &self,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error>;

    /// The documents of a kind, of this name or of all, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn documents(&self, kind: &'static str, name: Option<&str>) -> Result<Vec<Document>, Error>;

    /// The document of this name, durable also on a synchronous standby. For a request that may be a repetition.
    ///
    /// # Errors
    /// When the store cannot be read or cannot be written.
    async fn durable_document(&self, kind: &'static str, name: &str) -> Result<Option<Document>, Error>;

    /// This version of a name, or the highest one.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn document_version(
        &self,
        kind: &'static str,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<DocumentVersion>, Error>;
}

/// Puts rows of documents and versions together.
#[derive(Default)]
pub(super) struct CollectedDocuments(Vec<Document>);

impl CollectedDocuments {
    pub(super) fn add(&mut self, name: &str, document: impl FnOnce() -> Document, version: Version) {
        match self.0.last_mut() {
            Some(last) if &*last.name == name => last.versions.push(version),
            _ => self.0.push(Document { versions: vec![version], ..document() }),
        }
    }

    pub(super) fn all(self) -> Vec<Document> {
        self.0
    }
}
