//! Versioned documents: one set of rules by which every kind of them is staged, applied and discarded.
//!
//! Versions of a name count up from 1 and never change. One is active and at most one, the highest, is staged. A name whose
//! versions were registered by a program belongs to its code and is never changed here.

use std::marker::PhantomData;
use std::sync::Arc;

use backstitch_kernel::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::store::documents::{Becomes, Document, DocumentVersion, NewVersion};
use crate::store::{self, Corrupt, Store};

/// How often a version is tried that another writer adds first.
const TRIES: usize = 10;

/// A kind of versioned documents.
pub trait DocumentKind: Send + Sync + 'static {
    /// What the store calls it. Documents of different kinds may have the same name.
    const NAME: &'static str;

    /// What a version says.
    type Body: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The same with this number, for bodies that have their version in them.
    #[must_use]
    fn numbered(body: &Self::Body, version: u32) -> Self::Body {
        let _ = version;
        body.clone()
    }

    /// Adds what is stored beside the body.
    ///
    /// # Errors
    /// When the body has mistakes.
    fn complete(new: &mut NewVersion, body: &Self::Body) -> Result<(), Error> {
        let _ = (new, body);
        Ok(())
    }
}

/// What became of a document that was put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaring {
    /// The version it is.
    pub version: u32,
    /// Whether it was none before.
    pub is_new: bool,
    /// Whether what is new takes it; it is staged otherwise.
    pub is_active: bool,
}

/// The documents of a kind.
pub struct Documents<K> {
    store: Arc<dyn Store>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Documents<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), kind: PhantomData }
    }
}

impl<K: DocumentKind> Documents<K> {
    /// Those in this store.
    #[must_use]
    pub fn on(store: Arc<dyn Store>) -> Self {
        Self { store, kind: PhantomData }
    }

    /// Stages this as the next version of its name, in place of what was staged before; with `apply` it becomes a version
    /// and the active one together, or neither. What is staged already, or active with nothing staged, is no new version.
    ///
    /// # Errors
    /// When the name belongs to code, others keep adding versions, or the store cannot be written.
    pub async fn put(&self, name: &str, body: &K::Body, apply: bool) -> Result<Declaring, Error> {
        for _ in 0..TRIES {
            // Where it was put in before, nothing is written: an earlier request may have an unknown outcome.
            let document = self.store.durable_document(K::NAME, name).await?;
            if let Some(put) = self.put_before(document.as_ref(), body).await? {
                if put.is_active || !apply {
                    return Ok(put);
                }
                if self.store.apply_staged(K::NAME, name, Some(put.version)).await?.is_some() {
                    return Ok(Declaring { is_active: true, ..put });
                }
                // Another request has just applied it, discarded it or staged another one.
                continue;
            }
            let newest = match &document {
                Some(document) => document.versions.last().map_or(0, |version| version.number),
                None if self.store.document_version(K::NAME, name, None).await?.is_some() => {
                    // Unless another request has just put in the first version.
                    if self.get(name).await?.is_none() {
                        return Err(Error::DefinedInCode(name.to_owned()));
                    }
                    continue;
                }
                None => 0,
            };
            let version = newest + 1;
            let becomes = if apply { Becomes::Active } else { Becomes::Staged };
            if self.store.add_version(K::NAME, &new_version::<K>(name, version, body)?, becomes).await? {
                return Ok(Declaring { version, is_new: true, is_active: apply });
            }
        }
        Err(Error::DeclaredAtOnce(name.to_owned()))
    }

    /// The version that says the same: the staged one, or the active one with nothing staged.
    async fn put_before(
        &self,
        document: Option<&Document>,
        body: &K::Body,
    ) -> Result<Option<Declaring>, Error> {
        let Some(document) = document else { return Ok(None) };
        let Some(version) = document.staged.or(document.active) else { return Ok(None) };
        let stored = self.version(&document.name, Some(version)).await?;
        let same = stored.is_some_and(|stored| stored == K::numbered(body, version));
        let is_active = document.staged.is_none();
        Ok(same.then_some(Declaring { version, is_new: false, is_active }))
    }

    /// Makes the staged version the active one, if it is the one that is expected. One that is active already, with nothing
    /// staged, was applied by an earlier request.
    ///
    /// # Errors
    /// When nothing is staged, or not the version that is expected, or the store cannot be written.
    pub async fn apply(&self, name: &str, expected: Option<u32>) -> Result<u32, Error> {
        if let Some(applied) = self.store.apply_staged(K::NAME, name, expected).await? {
            return Ok(applied);
        }
        let Some(version) = expected else { return Err(Error::NothingStaged(name.to_owned())) };
        let document = self.store.durable_document(K::NAME, name).await?;
        match document {
            Some(document) if document.active == Some(version) && document.staged.is_none() => Ok(version),
            document => Err(not_staged(name, version, document.as_ref())),
        }
    }

    /// Forgets the staged version, if it is the one that is expected. Its number is not used again.
    ///
    /// # Errors
    /// When nothing is staged, or not the version that is expected, or the store cannot be written.
    pub async fn discard(&self, name: &str, expected: Option<u32>) -> Result<u32, Error> {
        match (self.store.discard_staged(K::NAME, name, expected).await?, expected) {
            (Some(discarded), _) => Ok(discarded),
            (None, None) => Err(Error::NothingStaged(name.to_owned())),
            (None, Some(version)) => Err(not_staged(name, version, self.get(name).await?.as_ref())),
        }
    }

    /// The document of this name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn get(&self, name: &str) -> Result<Option<Document>, Error> {
        Ok(self.store.documents(K::NAME, Some(name)).await?.pop())
    }

    /// All documents of the kind, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self) -> Result<Vec<Document>, Error> {
        Ok(self.store.documents(K::NAME, None).await?)
    }

    /// What a version says; without a number the highest.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn version(&self, name: &str, version: Option<u32>) -> Result<Option<K::Body>, Error> {
        let Some(stored) = self.store.document_version(K::NAME, name, version).await? else {
            return Ok(None);
        };
        let body = stored.body.decode().map_err(|why| {
            let id = format!("{} {} version {}", K::NAME, stored.name, stored.version);
            let why = why.to_string();
            store::Error::from(Corrupt { table: "document_versions", column: "body", id, why })
        })?;
        Ok(Some(body))
    }
}

fn new_version<K: DocumentKind>(name: &str, version: u32, body: &K::Body) -> Result<NewVersion, Error> {
    let body = K::numbered(body, version);
    let text = Payload::encode(&body).map_err(|why| store::Error::Refused(why.to_string()))?;
    let document = DocumentVersion { name: name.into(), version, fingerprint: None, body: text };
    let mut new = NewVersion::from(document);
    K::complete(&mut new, &body)?;
    Ok(new)
}

fn not_staged(name: &str, version: u32, document: Option<&Document>) -> Error {
    let staged = document.and_then(|document| document.staged);
    Error::NotStaged { name: name.to_owned(), version, staged }
}
