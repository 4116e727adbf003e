//! The sagas this engine can run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use backstitch_kernel::Payload;
use backstitch_kernel::saga::{Definition, Performer};
use tokio::sync::OnceCell;

use crate::error::Error;
use crate::limit::Limit;
use crate::saga::{Handlers, Hook, Saga};
use crate::store::nodes::{self, Known};
use crate::store::{self, Store};

/// A registered saga.
pub(crate) struct Registered {
    pub(crate) name: Arc<str>,
    pub(crate) definition: Definition,
    pub(crate) handlers: Vec<Handlers>,
    pub(crate) on_success: Option<Hook>,
    pub(crate) on_failure: Option<Hook>,
    /// Room for limited steps, shared by all versions.
    pub(crate) limits: Vec<Option<Limit>>,
    kept: OnceCell<()>,
}

impl Registered {
    /// Whether a program performs some of its steps, so that nobody can have declared it.
    pub(crate) fn is_code(&self) -> bool {
        self.definition.draft().steps.iter().any(|step| {
            let undo = step.compensate.as_ref().map(|undo| &undo.action);
            step.action == Performer::Code || undo == Some(&Performer::Code)
        })
    }

    fn known(&self) -> Known {
        Known { name: self.name.clone(), version: self.definition.version() }
    }

    /// Sees to it that the store has this version, and the same one. Only the first call asks the store.
    pub(crate) async fn keep(&self, store: &dyn Store) -> Result<(), Error> {
        self.kept.get_or_try_init(|| self.compare(store)).await.copied()
    }

    async fn compare(&self, store: &dyn Store) -> Result<(), Error> {
        if self.is_code() && !store.declared(Some(&self.name)).await?.is_empty() {
            return Err(Error::DeclaredElsewhere(self.name.to_string()));
        }
        let draft = self.definition.draft();
        let body = Payload::encode(draft).map_err(|why| store::Error::Refused(why.to_string()))?;
        let mine = nodes::Registered {
            name: self.name.clone(),
            version: self.definition.version(),
            fingerprint: self.definition.fingerprint(),
            body,
        };
        let kept = store.register(&mine).await?;
        self.is_not_another(Some(&kept))
    }

    /// Compares this version with what is kept under it, if anything is.
    pub(crate) fn is_not_another(&self, kept: Option<&nodes::Registered>) -> Result<(), Error> {
        match kept {
            Some(kept) if kept.fingerprint != self.definition.fingerprint() => {
                let (definition, version) = (self.name.to_string(), self.definition.version());
                Err(Error::VersionTaken { definition, version })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the store is known to have this version, and the same one.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.initialized()
    }

    /// How many attempts of a step may run at once, if it says so.
    fn room_of(&self, step: &str) -> Option<u32> {
        self.definition.draft().steps.iter().find(|found| found.id == step)?.concurrency
    }

    pub(crate) fn has_hooks(&self) -> bool {
        self.on_success.is_some() || self.on_failure.is_some()
    }

    /// The queue of jobs that call this saga's hooks.
    pub(crate) fn hook_queue(&self) -> String {
        hook_queue(&self.name, self.definition.version())
    }
}

pub(crate) fn hook_queue(definition: &str, version: u32) -> String {
    format!("hook/{definition}/{version}")
}

/// What a node can run.
pub(crate) struct Runnable {
    pub(crate) known: Vec<Known>,
    /// Whether every registered saga was judged; not so while the store does not answer.
    pub(crate) complete: bool,
}

/// All registered sagas.
#[derive(Default)]
pub(crate) struct Registry {
    sagas: RwLock<HashMap<Arc<str>, Versions>>,
}

/// What is registered under one name.
#[derive(Default)]
struct Versions {
    all: BTreeMap<u32, Arc<Registered>>,
    current: Current,
    /// The room of limited steps.
    limits: HashMap<String, Limit>,
}

impl Versions {
    /// The one that new sagas take.
    fn current(&self) -> Option<&Arc<Registered>> {
        match self.current {
            Current::Declared(active) => self.all.get(&active?),
            Current::Newest => self.all.values().next_back(),
        }
    }

    /// Gives limited steps the room that the current version says; one that it does not limit has what the newest
    /// before it says.
    fn make_room(&self) {
        let current = self.current().map_or(u32::MAX, |current| current.definition.version());
        for (step, limit) in &self.limits {
            let mut versions = self.all.range(..=current).rev();
            if let Some(room) = versions.find_map(|(_, saga)| saga.room_of(step)) {
                limit.resize(room);
            }
        }
    }
}

/// The version that new sagas take.
#[derive(Default)]
enum Current {
    /// The newest that a program registered.
    #[default]
    Newest,
    /// Of declared sagas the active one, if there is one yet.
    Declared(Option<u32>),
}

impl Registry {
    pub(crate) fn add(&self, saga: Saga) -> Result<Arc<Registered>, Error> {
        let name: Arc<str> = saga.definition.name().into();
        let version = saga.definition.version();
        let mut sagas = self.sagas.write().unwrap_or_else(PoisonError::into_inner);
        let versions = sagas.entry(name.clone()).or_default();
        if versions.all.contains_key(&version) {
            return Err(Error::AlreadyRegistered { definition: name.to_string(), version });
        }
        let steps = saga.definition.draft().steps.iter();
        let limits = steps.map(|step| {
            let room = step.concurrency?;
            Some(versions.limits.entry(step.id.clone()).or_insert_with(|| Limit::of(room)).clone())
        });
        let limits = limits.collect();
        let registered = Arc::new(Registered {
            name,
            definition: saga.definition,
            handlers: saga.handlers,
            on_success: saga.on_success,
            on_failure: saga.on_failure,
            limits,
            kept: OnceCell::new(),
        });
        versions.all.insert(version, registered.clone());
        versions.make_room();
        Ok(registered)
    }

    /// The version under this name that new sagas take: the active one of those that were declared, otherwise the
    /// newest.
    pub(crate) fn current(&self, name: &str) -> Option<Arc<Registered>> {
        let sagas = self.sagas.read().unwrap_or_else(PoisonError::into_inner);
        sagas.get(name)?.current().cloned()
    }

    /// Says which version of a declared saga new ones take. It only ever goes up, so that whoever read an older one a
    /// moment ago does not bring it back.
    pub(crate) fn activate(&self, name: &Arc<str>, active: Option<u32>) {
        let mut sagas = self.sagas.write().unwrap_or_else(PoisonError::into_inner);
        let versions = sagas.entry(name.clone()).or_default();
        let before = match versions.current {
            Current::Declared(before) => before,
            Current::Newest => None,
        };
        versions.current = Current::Declared(active.max(before));
        versions.make_room();
    }

    /// Whether a program has registered a saga of this name that it performs itself.
    pub(crate) fn has_code(&self, name: &str) -> bool {
        let sagas = self.sagas.read().unwrap_or_else(PoisonError::into_inner);
        sagas.get(name).is_some_and(|versions| versions.all.values().any(|version| version.is_code()))
    }

    pub(crate) fn version(&self, name: &str, version: u32) -> Option<Arc<Registered>> {
        let sagas = self.sagas.read().unwrap_or_else(PoisonError::into_inner);
        sagas.get(name)?.all.get(&version).cloned()
    }

    fn all(&self) -> Vec<Arc<Registered>> {
        let sagas = self.sagas.read().unwrap_or_else(PoisonError::into_inner);
        sagas.values().flat_map(|versions| versions.all.values()).cloned().collect()
    }

    /// Everything that may be run here: registered, and the same as what the store holds under that version.
    pub(crate) async fn runnable(&self, store: &dyn Store) -> Runnable {
        let mut runnable = Runnable { known: Vec::new(), complete: true };
        for saga in self.all() {
            match saga.keep(store).await {
                Ok(()) => runnable.known.push(saga.known()),
                Err(error) => {
                    let judged = matches!(error, Error::VersionTaken { .. } | Error::DeclaredElsewhere(_));
                    runnable.complete &= judged;
                    tracing::error!(definition = %saga.name, %error, "sagas of this definition wait");
                }
            }
        }
        runnable
    }

    pub(crate) fn hook_queues(&self) -> Vec<String> {
        self.all()
            .iter()
            .filter(|saga| saga.has_hooks() && saga.is_kept())
            .map(|saga| saga.hook_queue())
            .collect()
    }
}
