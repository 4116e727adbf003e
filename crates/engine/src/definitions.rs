//! Declared definitions: documents that every node follows which can run their sagas.

use std::sync::Arc;

use backstitch_kernel::saga::Draft;

use crate::declared::Caller;
use crate::documents::{Declaring, DocumentKind, Documents};
use crate::engine::Engine;
use crate::error::Error;
use crate::registry::Registered;
use crate::runtime::Shared;
use crate::saga::Saga;
use crate::store::documents::{Document, NewVersion, SAGA};
use crate::store::{self, InFlight};

/// Without a notice, every so many ticks the store is asked for versions that other nodes applied.
const TICKS: u32 = 5;

/// Definitions of sagas, as documents.
pub(crate) struct Definitions;

impl DocumentKind for Definitions {
    const NAME: &'static str = SAGA;

    type Body = Draft;

    fn numbered(body: &Draft, version: u32) -> Draft {
        Draft { version, ..body.clone() }
    }

    fn complete(new: &mut NewVersion, body: &Draft) -> Result<(), Error> {
        new.document.fingerprint = Some(body.clone().check()?.fingerprint());
        Ok(())
    }
}

/// A version that new sagas take from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The version.
    pub version: u32,
    /// Sagas that have not ended, each with the version it was started with and keeps.
    pub in_flight: Vec<InFlight>,
}

impl Engine {
    /// Stages a declared definition as the next version of its name, in place of what was staged before. The draft's own
    /// version does not matter. Declaring the same again changes nothing.
    ///
    /// # Errors
    /// When the draft has mistakes, the name belongs to a saga registered by a program, or the store cannot be written.
    pub async fn declare(&self, draft: Draft) -> Result<Declaring, Error> {
        self.put(draft, false).await
    }

    /// The same, and new sagas take it at once. It becomes a version and the active one together, so whoever is refused
    /// leaves nothing behind.
    ///
    /// # Errors
    /// As for [`Self::declare`].
    pub async fn declare_and_apply(&self, draft: Draft) -> Result<Declaring, Error> {
        let engine = self.clone();
        self.to_the_end(async move { engine.put(draft, true).await }).await
    }

    async fn put(&self, draft: Draft, apply: bool) -> Result<Declaring, Error> {
        let shared = self.shared();
        let caller = caller(shared)?;
        // As it is kept: that is what it is compared with.
        let draft = Saga::declared(draft, caller)?.definition.draft().clone();
        if shared.registry.has_code(&draft.name) {
            return Err(Error::DefinedInCode(draft.name));
        }
        let declaring = documents(shared).put(&draft.name, &draft, apply).await?;
        // The node that applied it may have stopped before it notified this one.
        if declaring.is_active {
            self.take_up(&draft.name, declaring.version).await?;
        }
        Ok(declaring)
    }

    /// Lets new sagas take the staged version; those under way keep theirs. Whoever means one version in particular
    /// says so: another one that was staged meanwhile is then left alone.
    ///
    /// # Errors
    /// When nothing is staged under this name, or not the version that is expected, or the store cannot be written.
    pub async fn apply(&self, name: &str, expected: Option<u32>) -> Result<Applied, Error> {
        let (engine, name) = (self.clone(), name.to_owned());
        self.to_the_end(async move { engine.apply_expected(&name, expected).await }).await
    }

    /// Once a version is active on disk it is made known here, even if whoever asked for it goes away.
    async fn to_the_end<T: Send + 'static>(
        &self,
        applying: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        tokio::spawn(self.shared().tracked(applying)).await.map_err(|_| Error::ShuttingDown)?
    }

    async fn apply_expected(&self, name: &str, expected: Option<u32>) -> Result<Applied, Error> {
        let shared = self.shared();
        caller(shared)?;
        let version = documents(shared).apply(name, expected).await?;
        self.take_up(name, version).await?;
        let in_flight = shared.store.in_flight(name).await?;
        Ok(Applied { version, in_flight })
    }

    /// Lets new sagas of this process take an active version.
    async fn take_up(&self, name: &str, version: u32) -> Result<(), Error> {
        let shared = self.shared();
        follow_one(shared, caller(shared)?, &name.into(), version).await?;
        shared.registry.activate(&name.into(), Some(version));
        shared.adoption.wake();
        Ok(())
    }

    /// Forgets the staged version; its number is not used again. Whoever means one version in particular says so: another
    /// one that was staged meanwhile is then left alone.
    ///
    /// # Errors
    /// When nothing is staged under this name, or not the version that is expected, or the store cannot be written.
    pub async fn discard(&self, name: &str, expected: Option<u32>) -> Result<u32, Error> {
        documents(self.shared()).discard(name, expected).await
    }

    /// What is declared under this name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn declared(&self, name: &str) -> Result<Option<Document>, Error> {
        documents(self.shared()).get(name).await
    }

    /// Everything that is declared, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn declarations(&self) -> Result<Vec<Document>, Error> {
        documents(self.shared()).list().await
    }

    /// A version of a definition as it was written down; without a number the highest.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn draft(&self, name: &str, version: Option<u32>) -> Result<Option<Draft>, Error> {
        documents(self.shared()).version(name, version).await
    }

    /// The sagas of a definition that have not ended, by version.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        Ok(self.shared().store.in_flight(definition).await?)
    }
}

fn documents(shared: &Shared) -> Documents<Definitions> {
    Documents::on(shared.store.clone())
}

fn caller(shared: &Shared) -> Result<&Arc<dyn Caller>, Error> {
    shared.options.caller.as_ref().ok_or_else(|| {
        Error::BadOptions("declared sagas need Options::caller, which performs their calls".to_owned())
    })
}

/// The version that a new saga of this name takes. A name nobody knows here may have been declared elsewhere a moment ago.
///
/// # Errors
/// When the name is declared but has no active version, or this node cannot run declared sagas.
pub(crate) async fn current(shared: &Shared, name: &str) -> Result<Option<Arc<Registered>>, Error> {
    if let Some(known) = shared.registry.current(name) {
        return Ok(Some(known));
    }
    let Some(declared) = documents(shared).get(name).await? else { return Ok(None) };
    follow_name(shared, caller(shared)?, &declared).await?;
    let current = shared.registry.current(name);
    current.map(Some).ok_or_else(|| Error::NothingActive(name.to_owned()))
}

/// Registers every declared version that this node does not know yet, and which of them are active.
pub(crate) async fn follow(shared: &Shared) -> Result<(), Error> {
    let Some(caller) = &shared.options.caller else { return Ok(()) };
    for declared in documents(shared).list().await? {
        follow_name(shared, caller, &declared).await?;
    }
    shared.adoption.wake();
    Ok(())
}

/// The same whenever another node has applied one.
pub(crate) async fn keep_following(shared: Arc<Shared>) {
    while !shared.is_stopping() {
        shared.definitions.wait(shared.options.tick * TICKS).await;
        if let Err(error) = follow(&shared).await {
            tracing::warn!(%error, "declared definitions cannot be read");
        }
    }
}

async fn follow_name(shared: &Shared, caller: &Arc<dyn Caller>, declared: &Document) -> Result<(), Error> {
    let missing = |number| shared.registry.version(&declared.name, number).is_none();
    if declared.versions.iter().any(|version| missing(version.number)) {
        // Until all are there, none is taken for the newest.
        shared.registry.activate(&declared.name, None);
    }
    for version in &declared.versions {
        if declared.staged == Some(version.number) {
            continue;
        }
        match follow_one(shared, caller, &declared.name, version.number).await {
            Ok(()) => {}
            // One that nobody here can make sense of keeps no other from being run.
            Err(error @ Error::Definition(_)) => tell_unusable(declared, version.number, &error),
            Err(Error::Store(error)) if matches!(*error, store::Error::Corrupt(_)) => {
                tell_unusable(declared, version.number, &error);
            }
            Err(error) => return Err(error),
        }
    }
    shared.registry.activate(&declared.name, declared.active);
    Ok(())
}

fn tell_unusable(declared: &Document, version: u32, error: &dyn std::fmt::Display) {
    tracing::error!(definition = %declared.name, version, %error, "sagas of this declared version wait");
}

async fn follow_one(
    shared: &Shared,
    caller: &Arc<dyn Caller>,
    name: &Arc<str>,
    version: u32,
) -> Result<(), Error> {
    if shared.registry.version(name, version).is_some() {
        return Ok(());
    }
    let Some(draft) = documents(shared).version(name, Some(version)).await? else { return Ok(()) };
    match shared.registry.add(Saga::stored(draft, caller)?) {
        // Somebody else was quicker.
        Ok(_) | Err(Error::AlreadyRegistered { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
