//! Declared definitions: staged, applied, and followed by every node that can run them.

use std::sync::Arc;

use backstitch_kernel::Payload;
use backstitch_kernel::saga::Draft;

use crate::declared::Caller;
use crate::engine::Engine;
use crate::error::Error;
use crate::registry::Registered;
use crate::runtime::Shared;
use crate::saga::Saga;
use crate::store::declared::{Declared, InFlight};
use crate::store::{self, Corrupt, nodes};

/// How often a version is tried that somebody else takes first.
const TRIES: usize = 10;
/// Without a notice, every so many ticks the store is asked for versions that other nodes applied.
const TICKS: u32 = 5;

/// What became of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaring {
    /// The version it is.
    pub version: u32,
    /// Whether it was none before.
    pub is_new: bool,
    /// Whether what is new takes it; it is staged otherwise.
    pub is_active: bool,
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
        for _ in 0..TRIES {
            // Where it was declared before, nothing is written: an earlier request may have an unknown outcome.
            let declared = shared.store.durably_declared(&draft.name).await?;
            if let Some(Declaring { version, is_active, .. }) =
                declared_before(shared, declared.as_ref(), &draft).await?
            {
                let takes = apply && !is_active;
                if takes && shared.store.apply_staged(&draft.name, Some(version)).await?.is_none() {
                    // Somebody has just applied it, discarded it or staged another one.
                    continue;
                }
                // Whoever applied it before may not have come to tell this node.
                if is_active || apply {
                    self.take_up(&draft.name, version).await?;
                }
                return Ok(Declaring { version, is_new: false, is_active: is_active || apply });
            }
            let newest = match &declared {
                Some(declared) => declared.versions.last().map_or(0, |version| version.number),
                None if shared.store.definition(&draft.name, None).await?.is_some() => {
                    // Unless somebody has just declared it.
                    if self.declared(&draft.name).await?.is_none() {
                        return Err(Error::DefinedInCode(draft.name));
                    }
                    continue;
                }
                None => 0,
            };
            let version = newest + 1;
            if self.keep(Draft { version, ..draft.clone() }, apply).await? {
                return Ok(Declaring { version, is_new: true, is_active: apply });
            }
        }
        Err(Error::DeclaredAtOnce(draft.name))
    }

    /// Writes a version that is staged then, or active; `false` when somebody else has written that version.
    async fn keep(&self, draft: Draft, apply: bool) -> Result<bool, Error> {
        let store = &self.shared().store;
        let body = Payload::encode(&draft).map_err(|why| store::Error::Refused(why.to_string()))?;
        let (name, version) = (draft.name.clone(), draft.version);
        let fingerprint = draft.check()?.fingerprint();
        let kept = nodes::Registered { name: name.as_str().into(), version, fingerprint, body };
        if !apply {
            return Ok(store.stage(&kept).await?);
        }
        let is_kept = store.activate(&kept).await?;
        if is_kept {
            self.take_up(&name, version).await?;
        }
        Ok(is_kept)
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
        let version = match (shared.store.apply_staged(name, expected).await?, expected) {
            (Some(applied), _) => applied,
            (None, None) => return Err(Error::NothingStaged(name.to_owned())),
            (None, Some(version)) => self.applied_before(name, version).await?,
        };
        self.take_up(name, version).await?;
        let in_flight = shared.store.in_flight(name).await?;
        Ok(Applied { version, in_flight })
    }

    /// Lets new sagas of this process take an active version.
    async fn take_up(&self, name: &str, version: u32) -> Result<(), Error> {
        let shared = self.shared();
        follow_one(shared, caller(shared)?, &name.into(), version).await?;
        shared.registry.activate(&name.into(), Some(version));
        shared.adoption.nudge();
        Ok(())
    }

    /// Two may have staged and applied the same at once: both have what they wanted.
    async fn applied_before(&self, name: &str, version: u32) -> Result<u32, Error> {
        let declared = self.shared().store.durably_declared(name).await?;
        match declared {
            Some(declared) if declared.active == Some(version) => Ok(version),
            declared => Err(not_staged(name, version, declared.as_ref())),
        }
    }

    /// Forgets the staged version; its number is not used again. Whoever means one version in particular says so: another
    /// one that was staged meanwhile is then left alone.
    ///
    /// # Errors
    /// When nothing is staged under this name, or not the version that is expected, or the store cannot be written.
    pub async fn discard(&self, name: &str, expected: Option<u32>) -> Result<u32, Error> {
        match (self.shared().store.discard_staged(name, expected).await?, expected) {
            (Some(discarded), _) => Ok(discarded),
            (None, None) => Err(Error::NothingStaged(name.to_owned())),
            (None, Some(version)) => Err(not_staged(name, version, self.declared(name).await?.as_ref())),
        }
    }

    /// What is declared under this name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn declared(&self, name: &str) -> Result<Option<Declared>, Error> {
        Ok(self.shared().store.declared(Some(name)).await?.pop())
    }

    /// Everything that is declared, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn declarations(&self) -> Result<Vec<Declared>, Error> {
        Ok(self.shared().store.declared(None).await?)
    }

    /// A version of a definition as it was written down; without a number the highest.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn draft(&self, name: &str, version: Option<u32>) -> Result<Option<Draft>, Error> {
        let kept = self.shared().store.definition(name, version).await?;
        kept.as_ref().map(read).transpose()
    }

    /// The sagas of a definition that have not ended, by version.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        Ok(self.shared().store.in_flight(definition).await?)
    }
}

fn caller(shared: &Shared) -> Result<&Arc<dyn Caller>, Error> {
    shared.options.caller.as_ref().ok_or_else(|| {
        Error::BadOptions("declared sagas need Options::caller, which performs their calls".to_owned())
    })
}

fn not_staged(name: &str, version: u32, declared: Option<&Declared>) -> Error {
    let staged = declared.and_then(|declared| declared.staged);
    Error::NotStaged { name: name.to_owned(), version, staged }
}

/// Whether the same waits already, or is active with nothing waiting.
async fn declared_before(
    shared: &Shared,
    declared: Option<&Declared>,
    draft: &Draft,
) -> Result<Option<Declaring>, Error> {
    let Some(declared) = declared else { return Ok(None) };
    let Some(version) = declared.staged.or(declared.active) else { return Ok(None) };
    let kept = shared.store.definition(&draft.name, Some(version)).await?;
    let kept = kept.as_ref().map(read).transpose()?;
    let same = kept.is_some_and(|kept| kept == Draft { version, ..draft.clone() });
    let is_active = declared.staged.is_none();
    Ok(same.then_some(Declaring { version, is_new: false, is_active }))
}

fn read(kept: &nodes::Registered) -> Result<Draft, Error> {
    kept.body.decode().map_err(|why| {
        let id = format!("{} version {}", kept.name, kept.version);
        store::Error::from(Corrupt { table: "definitions", column: "body", id, why: why.to_string() }).into()
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
    let Some(declared) = shared.store.declared(Some(name)).await?.pop() else { return Ok(None) };
    follow_name(shared, caller(shared)?, &declared).await?;
    let current = shared.registry.current(name);
    current.map(Some).ok_or_else(|| Error::NothingActive(name.to_owned()))
}

/// Registers every declared version that this node does not know yet, and which of them are active.
pub(crate) async fn follow(shared: &Shared) -> Result<(), Error> {
    let Some(caller) = &shared.options.caller else { return Ok(()) };
    for declared in shared.store.declared(None).await? {
        follow_name(shared, caller, &declared).await?;
    }
    shared.adoption.nudge();
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

async fn follow_name(shared: &Shared, caller: &Arc<dyn Caller>, declared: &Declared) -> Result<(), Error> {
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

fn tell_unusable(declared: &Declared, version: u32, error: &dyn std::fmt::Display) {
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
    let Some(kept) = shared.store.definition(name, Some(version)).await? else { return Ok(()) };
    match shared.registry.add(Saga::stored(read(&kept)?, caller)?) {
        // Somebody else was quicker.
        Ok(_) | Err(Error::AlreadyRegistered { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
