//! Versioned documents under watch.

use async_trait::async_trait;

use super::{Moment, Watch, Watched};
use crate::store::Error;
use crate::store::documents::{Becomes, Document, DocumentStore, DocumentVersion, NewVersion};

#[async_trait]
impl<W: Watch> DocumentStore for Watched<W> {
    async fn register(&self, definition: &DocumentVersion) -> Result<DocumentVersion, Error> {
        self.admitted().await?.register(definition).await
    }

    async fn add_version(
        &self,
        kind: &'static str,
        new: &NewVersion,
        becomes: Becomes,
    ) -> Result<bool, Error> {
        let name = &new.document.name;
        let moment = match becomes {
            Becomes::Staged => Moment::BeforeStaging(name),
            Becomes::Active => Moment::BeforeApplying(name),
        };
        self.watch.at(moment).await?;
        self.store.add_version(kind, new, becomes).await
    }

    async fn apply_staged(
        &self,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        self.watch.at(Moment::BeforeApplying(name)).await?;
        self.store.apply_staged(kind, name, expected).await
    }

    async fn discard_staged(
        &self,
        kind: &'static str,
        name: &str,
        expected: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        self.admitted().await?.discard_staged(kind, name, expected).await
    }

    async fn documents(&self, kind: &'static str, name: Option<&str>) -> Result<Vec<Document>, Error> {
        self.admitted().await?.documents(kind, name).await
    }

    async fn durable_document(&self, kind: &'static str, name: &str) -> Result<Option<Document>, Error> {
        self.admitted().await?.durable_document(kind, name).await
    }

    async fn document_version(
        &self,
        kind: &'static str,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<DocumentVersion>, Error> {
        self.admitted().await?.document_version(kind, name, version).await
    }
}
