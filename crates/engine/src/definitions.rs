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
pub enum Declaring {
    /// It is a new version and waits to be applied.
    Staged(u32),
    /// It waits already: the same was declared before.
    StagedBefore(u32),
    /// New sagas take it already, and nothing else waits.
    ActiveBefore(u32),
}

impl Declaring {
    /// The version it is.
    #[must_use]
    pub fn version(self) -> u32 {
        match self {
            Self::Staged(version) | Self::StagedBefore(version) | Self::ActiveBefore(version) => version,
        }
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
        let shared = self.shared();
        let caller = caller(shared)?;
        Saga::declared(draft.clone(), caller)?;
        if shared.registry.has_code(&draft.name) {
            return Err(Error::DefinedInCode(draft.name));
        }
        for _ in 0..TRIES {
            let declared = shared.store.declared(Some(&draft.name)).await?.pop();
            if let Some(before) = declared_before(shared, declared.as_ref(), &draft).await? {
                // Whoever applied it may not have come to tell this node.
                if let Declaring::ActiveBefore(active) = before {
                    self.take_up(&draft.name, active).await?;
                }
                return Ok(before);
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
            let draft = Draft { version, ..draft.clone() };
            let body = Payload::encode(&draft).map_err(|why| store::Error::Refused(why.to_string()))?;
            let name = draft.name.as_str().into();
            let fingerprint = draft.check()?.fingerprint();
            if shared.store.stage(&nodes::Registered { name, version, fingerprint, body }).await? {
                return Ok(Declaring::Staged(version));
            }
        }
        Err(Error::DeclaredAtOnce(draft.name))
    }

    /// Lets new sagas take the staged version; those under way keep theirs. Whoever means one version in particular
    /// says so: another one that was staged meanwhile is then left alone.
    ///
    /// # Errors
    /// When nothing is staged under this name, or not the version that is expected, or the store cannot be written.
    pub async fn apply(&self, name: &str, expected: Option<u32>) -> Result<Applied, Error> {
        // Once it is on disk it is made known here, even if whoever asked for it goes away.
        let (engine, name) = (self.clone(), name.to_owned());
        let applying = self.shared().tracked(async move { engine.apply_to_the_end(&name, expected).await });
        tokio::spawn(applying).await.map_err(|_| Error::ShuttingDown)?
    }

    async fn apply_to_the_end(&self, name: &str, expected: Option<u32>) -> Result<Applied, Error> {
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
        let active = self.declared(name).await?.and_then(|declared| declared.active);
        let refused = || Error::NotStaged { name: name.to_owned(), version };
        active.filter(|active| *active == version).ok_or_else(refused)
    }

    /// Forgets the staged version; its number is not used again.
    ///
    /// # Errors
    /// When nothing is staged under this name, or the store cannot be written.
    pub async fn discard(&self, name: &str) -> Result<u32, Error> {
        let discarded = self.shared().store.discard_staged(name).await?;
        discarded.ok_or_else(|| Error::NothingStaged(name.to_owned()))
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

/// Whether the same waits already, or is active with nothing waiting.
async fn declared_before(
    shared: &Shared,
    declared: Option<&Declared>,
    draft: &Draft,
) -> Result<Option<Declaring>, Error> {
    let Some(declared) = declared else { return Ok(None) };
    let (version, before) = match (declared.staged, declared.active) {
        (Some(staged), _) => (staged, Declaring::StagedBefore(staged)),
        (None, Some(active)) => (active, Declaring::ActiveBefore(active)),
        (None, None) => return Ok(None),
    };
    let kept = shared.store.definition(&draft.name, Some(version)).await?;
    let kept = kept.as_ref().map(read).transpose()?;
    let same = kept.is_some_and(|kept| kept == Draft { version, ..draft.clone() });
    Ok(same.then_some(before))
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
    match shared.registry.add(Saga::declared(read(&kept)?, caller)?) {
        // Somebody else was quicker.
        Ok(_) | Err(Error::AlreadyRegistered { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
