//! The sagas this engine can run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use backstitch_kernel::Payload;
use backstitch_kernel::saga::{Definition, Draft, Performer, Phase};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::error::Error;
use crate::limit::{KeyedLimits, Limit, LimitScope};
use crate::runtime::AttemptLimits;
use crate::saga::{Handlers, Hook, Saga};
use crate::store::documents::{DocumentVersion, SAGA};
use crate::store::nodes::Known;
use crate::store::{self, Store};

/// After how long the store is asked again about a saga of which it held something else.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// A registered saga.
pub(crate) struct Registered {
    pub(crate) name: Arc<str>,
    pub(crate) definition: Definition,
    pub(crate) handlers: Vec<Handlers>,
    pub(crate) on_success: Option<Hook>,
    pub(crate) on_failure: Option<Hook>,
    /// What attempts of each step count against. Room for limited steps is shared by all versions.
    limits: Vec<StepLimits>,
    kept: OnceCell<KeptHooks>,
    /// When the store was last found to hold something else under this name or version.
    refused: Mutex<Option<Instant>>,
}

/// What attempts of a step count against.
struct StepLimits {
    action: AttemptLimits,
    compensation: AttemptLimits,
}

/// What is called at the end of a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookKind {
    Success,
    Failure,
}

impl HookKind {
    const ALL: [Self; 2] = [Self::Success, Self::Failure];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "on_success",
            Self::Failure => "on_failure",
        }
    }
}

/// The hooks that whoever wrote this version down first has.
struct KeptHooks {
    on_success: bool,
    on_failure: bool,
}

impl Registered {
    /// The limits that an attempt of this phase counts against.
    pub(crate) fn limits(&self, position: usize, phase: Phase) -> &AttemptLimits {
        match phase {
            Phase::Do => &self.limits[position].action,
            Phase::Undo => &self.limits[position].compensation,
        }
    }

    /// Whether attempts of any step count against limits.
    pub(crate) fn is_limited(&self) -> bool {
        let all = || self.limits.iter().flat_map(|step| [&step.action, &step.compensation]);
        !all().all(AttemptLimits::is_unlimited)
    }

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
        self.kept.get_or_try_init(|| self.compare(store)).await.map(|_| ())
    }

    async fn compare(&self, store: &dyn Store) -> Result<KeptHooks, Error> {
        if self.is_code() && !store.documents(SAGA, Some(&self.name)).await?.is_empty() {
            return Err(Error::DeclaredElsewhere(self.name.to_string()));
        }
        let draft = self.definition.draft();
        let body = Payload::encode(draft).map_err(|why| store::Error::Refused(why.to_string()))?;
        let mine = DocumentVersion {
            name: self.name.clone(),
            version: self.definition.version(),
            fingerprint: Some(self.definition.fingerprint()),
            body,
        };
        let kept = store.register(&mine).await?;
        self.is_not_another(Some(&kept))?;
        // One that cannot be read says nothing of hooks.
        let draft = kept.body.decode::<Draft>().ok();
        let says = |hook: fn(&Draft) -> bool| draft.as_ref().is_some_and(hook);
        Ok(KeptHooks {
            on_success: says(|draft| draft.on_success),
            on_failure: says(|draft| draft.on_failure),
        })
    }

    /// Whether the store held something else a while ago, which is not worth another question yet.
    fn was_refused_lately(&self) -> bool {
        let refused = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_some_and(|at| at.elapsed() < ASKED_AGAIN)
    }

    fn note_refusal(&self) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Compares this version with what is kept under it, if anything is.
    pub(crate) fn is_not_another(&self, kept: Option<&DocumentVersion>) -> Result<(), Error> {
        match kept {
            Some(kept) if kept.fingerprint != Some(self.definition.fingerprint()) => {
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
        HookKind::ALL.into_iter().any(|kind| self.hook(kind).is_some())
    }

    fn hook(&self, kind: HookKind) -> Option<&Hook> {
        match kind {
            HookKind::Success => self.on_success.as_ref(),
            HookKind::Failure => self.on_failure.as_ref(),
        }
    }

    /// Whether this hook is to be called, by whichever node has it.
    pub(crate) fn wants_hook(&self, kind: HookKind) -> bool {
        let kept = self.kept.get().is_some_and(|kept| match kind {
            HookKind::Success => kept.on_success,
            HookKind::Failure => kept.on_failure,
        });
        kept || self.hook(kind).is_some()
    }

    /// The queue of jobs that call this hook: only a node that has it takes them.
    pub(crate) fn hook_queue(&self, kind: HookKind) -> String {
        format!("{}/{}", self.queue_of_all_hooks(), kind.as_str())
    }

    /// Where the jobs of both hooks were until each had a queue of its own.
    fn queue_of_all_hooks(&self) -> String {
        format!("hook/{}/{}", self.name, self.definition.version())
    }

    /// The queues of the hooks that can be called here. What is still in the queue of all is left to a node that has them
    /// all.
    fn hook_queues(&self) -> Vec<String> {
        let here = HookKind::ALL.into_iter().filter(|kind| self.hook(*kind).is_some());
        let mut queues: Vec<_> = here.map(|kind| self.hook_queue(kind)).collect();
        let has_all = HookKind::ALL.iter().all(|kind| self.hook(*kind).is_some() || !self.wants_hook(*kind));
        if !queues.is_empty() && has_all {
            queues.push(self.queue_of_all_hooks());
        }
        queues
    }
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
    /// How many actions, and how many compensations, of one host run at once.
    host_share: usize,
    action_shares: KeyedLimits<LimitScope>,
    compensation_shares: KeyedLimits<LimitScope>,
}

/// What is registered under one name.
#[derive(Default)]
struct Versions {
    all: BTreeMap<u32, Arc<Registered>>,
    current: Current,
    /// The room of limited steps.
    limits: KeyedLimits<LimitScope>,
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
        for limit in self.limits.all() {
            let LimitScope::Step { step, .. } = limit.scope() else { continue };
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
    pub(crate) fn new(host_share: usize) -> Self {
        Self { sagas: RwLock::default(), host_share, ..Self::default() }
    }

    /// The part of the slots that attempts of this host may take.
    fn share_of(&self, host: Option<&Limit>, phase: Phase) -> Option<Limit> {
        let shares = match phase {
            Phase::Do => &self.action_shares,
            Phase::Undo => &self.compensation_shares,
        };
        Some(shares.get(host?.scope(), self.host_share))
    }

    pub(crate) fn add(&self, saga: Saga) -> Result<Arc<Registered>, Error> {
        let name: Arc<str> = saga.definition.name().into();
        let version = saga.definition.version();
        let mut sagas = self.sagas.write().unwrap_or_else(PoisonError::into_inner);
        let versions = sagas.entry(name.clone()).or_default();
        if versions.all.contains_key(&version) {
            return Err(Error::AlreadyRegistered { definition: name.to_string(), version });
        }
        let steps = saga.definition.draft().steps.iter().zip(&saga.handlers);
        let limits = steps.map(|(step, handlers)| {
            let shared = step.concurrency.map(|room| {
                let scope = LimitScope::Step { definition: name.clone(), step: step.id.as_str().into() };
                versions.limits.get(&scope, room as usize)
            });
            StepLimits {
                action: AttemptLimits {
                    step: shared,
                    host_share: self.share_of(handlers.action_limit.as_ref(), Phase::Do),
                    host: handlers.action_limit.clone(),
                },
                compensation: AttemptLimits {
                    step: None,
                    host_share: self.share_of(handlers.compensation_limit.as_ref(), Phase::Undo),
                    host: handlers.compensation_limit.clone(),
                },
            }
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
            refused: Mutex::default(),
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
        for saga in self.all().into_iter().filter(|saga| !saga.was_refused_lately()) {
            match saga.keep(store).await {
                Ok(()) => runnable.known.push(saga.known()),
                Err(error) => {
                    let judged = matches!(error, Error::VersionTaken { .. } | Error::DeclaredElsewhere(_));
                    runnable.complete &= judged;
                    if judged {
                        saga.note_refusal();
                    }
                    tracing::error!(definition = %saga.name, %error, "sagas of this definition wait");
                }
            }
        }
        runnable
    }

    pub(crate) fn hook_queues(&self) -> Vec<String> {
        self.all().iter().filter(|saga| saga.is_kept()).flat_map(|saga| saga.hook_queues()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TokioClock;
    use crate::context::Context;
    use crate::saga::Step;
    use crate::store::sqlite::SqliteStore;

    /// The queues that a node asks which has these hooks, where the first one had others.
    async fn queues(store: &SqliteStore, on_success: bool, on_failure: bool) -> Vec<String> {
        let step = Step::new("a", |_: Context<()>| async { Ok(()) });
        let mut saga = Saga::builder("s").step(step);
        if on_success {
            saga = saga.on_success(|_| async { Ok(()) });
        }
        if on_failure {
            saga = saga.on_failure(|_| async { Ok(()) });
        }
        let registry = Registry::new(1);
        registry.add(saga.build().unwrap()).unwrap();
        assert!(registry.hook_queues().is_empty(), "nothing is known of what others have");
        assert!(registry.runnable(store).await.complete);
        registry.hook_queues()
    }

    #[tokio::test]
    async fn a_node_asks_for_the_hooks_it_has_and_for_those_of_old_if_it_has_them_all() {
        let store = SqliteStore::in_memory(Arc::new(TokioClock::default())).unwrap();
        let all = ["hook/s/1/on_success", "hook/s/1/on_failure", "hook/s/1"];
        assert_eq!(queues(&store, true, true).await, all);
        assert_eq!(queues(&store, true, false).await, all[..1]);
        assert_eq!(queues(&store, false, true).await, all[1..2]);
        assert!(queues(&store, false, false).await.is_empty());
        let store = SqliteStore::in_memory(Arc::new(TokioClock::default())).unwrap();
        assert_eq!(queues(&store, false, true).await, all[1..], "it is all there is");
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_somebody_elses_is_asked_about_now_and_then_only() {
        let store = SqliteStore::in_memory(Arc::new(TokioClock::default())).unwrap();
        let saga = |step: &str| {
            let step = Step::new(step, |_: Context<()>| async { Ok(()) });
            Saga::builder("s").step(step).build().unwrap()
        };
        let first = Registry::new(1);
        first.add(saga("a")).unwrap();
        assert_eq!(first.runnable(&store).await.known.len(), 1);
        let other = Registry::new(1);
        let refused = other.add(saga("b")).unwrap();
        for _ in 0..2 {
            let runnable = other.runnable(&store).await;
            assert!(runnable.known.is_empty() && runnable.complete);
            assert!(refused.was_refused_lately());
            tokio::time::advance(ASKED_AGAIN).await;
            assert!(!refused.was_refused_lately());
        }
    }
}
