//! The check at the end of every fault test: repairs, waits until nothing is active, and compares the store with the
//! calls that
//! the services received.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstitch::kernel::saga::{Definition, Event, audit};
use backstitch::store::{Cursor, Filter, Store, Stored, Summary};
use backstitch::{Engine, SagaId, Status};

use super::ledger::{self, Ledger, RawCall};
use super::load::{self, Request};
use super::messages::{self, Name};
use super::sagas::{self, ANNOUNCING, TOPIC};
use super::tally;

/// Why the check could not run.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The longest wait between two attempts of anything in [`sagas`], and of a send.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PAGE: usize = 500;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The saga, if it concerns one.
    pub saga: Option<SagaId>,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.saga {
            Some(saga) => write!(f, "saga {saga}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// A start that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Its idempotency key.
    pub key: String,
    /// The returned id.
    pub saga: SagaId,
}

/// When the check stops waiting for sagas to end.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The lease of the killed nodes: until it expires, nothing happens to their sagas.
    pub lease: Duration,
    /// How long a healthy node may make no progress, besides leases. The total time is unlimited, because it depends on
    /// the machine.
    pub patience: Duration,
}

impl Terms {
    /// Limits for a store of any size.
    #[must_use]
    pub fn for_lease(lease: Duration) -> Self {
        Self { lease, patience: LONGEST_BACKOFF + Duration::from_secs(30) }
    }

    fn stall_limit(self) -> Duration {
        2 * self.lease + self.patience
    }
}

/// Detects that an observed value no longer changes.
struct Progress<T> {
    latest: Option<T>,
    changed_at: Instant,
    stall_limit: Duration,
}

impl<T: PartialEq> Progress<T> {
    fn new(terms: Terms) -> Self {
        Self { latest: None, changed_at: Instant::now(), stall_limit: terms.stall_limit() }
    }

    fn is_stalled(&mut self, observed: T) -> bool {
        let observed = Some(observed);
        if self.latest != observed {
            self.latest = observed;
            self.changed_at = Instant::now();
        }
        self.changed_at.elapsed() > self.stall_limit
    }
}

/// The result of the check.
#[derive(Debug)]
pub struct Report {
    /// The number of sagas by status.
    pub sagas: BTreeMap<Status, usize>,
    /// The number of calls in the services' ledger.
    pub calls: usize,
    /// Attempts interrupted by the end of their node.
    pub interrupted: usize,
    /// Node epochs that adopted sagas.
    pub adopters: usize,
    /// Delivered messages without repeats.
    pub messages: usize,
    /// The time until everything had ended.
    pub settled_in: Duration,
    /// Violated invariants.
    pub violations: Vec<Violation>,
}

impl Report {
    /// The number of sagas.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sagas.values().sum()
    }

    /// Fails the test with all violations, if there are any.
    ///
    /// # Panics
    /// When an invariant is violated.
    pub fn assert_clean(&self) {
        let shown: Vec<String> = self.violations.iter().take(20).map(ToString::to_string).collect();
        assert!(shown.is_empty(), "{} violations:\n  {}", self.violations.len(), shown.join("\n  "));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sagas {:?}, {} raw calls, {} attempts interrupted, {} adopters, {} messages, settled in {:?}, {} \
             violations",
            self.count(),
            self.sagas,
            self.calls,
            self.interrupted,
            self.adopters,
            self.messages,
            self.settled_in,
            self.violations.len(),
        )
    }
}

/// Opens the store at this address and checks it.
///
/// # Errors
/// When the store or the files in the directory cannot be used.
pub async fn address(
    address: &str,
    folder: &Path,
    terms: Terms,
    acknowledged: &[Acknowledged],
) -> Result<Report, Failure> {
    let store = load::store(address).await?;
    check(store, folder, terms, acknowledged).await
}

/// Runs everything in the store to its end with one healthy node, and checks the result.
///
/// # Errors
/// When the store or the files in the directory cannot be used.
pub async fn check(
    store: Arc<dyn Store>,
    folder: &Path,
    terms: Terms,
    acknowledged: &[Acknowledged],
) -> Result<Report, Failure> {
    let engine = load::engine(store.clone(), folder, "check", terms.lease).await?;
    let began = Instant::now();
    until_quiet(&engine, terms).await?;
    let settled_in = began.elapsed();
    let mut found = Findings::default();
    let stored = everything(&*store).await?;
    let expected = expected_messages(&stored);
    let delivered = until_delivered(folder, &expected, terms).await?;
    found.starts(&stored, acknowledged);
    found.replays(&engine, acknowledged).await;
    found.sagas(folder, &stored)?;
    found.messages(&expected, &delivered);
    found.frozen(&stored, &everything(&*store).await?);
    engine.shutdown().await?;
    Ok(found.report(folder, &stored, settled_in, delivered.len())?)
}

/// Waits until no saga is active, or none makes progress. The check reports sagas that are still active then.
async fn until_quiet(engine: &Engine, terms: Terms) -> Result<(), Failure> {
    let mut progress = Progress::new(terms);
    loop {
        let health = engine.health(Duration::ZERO).await?;
        let active = health.active.iter().filter(|(status, _)| !status.is_terminal());
        if active.map(|(_, count)| count).sum::<u64>() == 0 || progress.is_stalled(health.active) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn until_delivered(
    folder: &Path,
    expected: &BTreeSet<Name>,
    terms: Terms,
) -> Result<BTreeSet<Name>, Failure> {
    let mut progress = Progress::new(terms);
    loop {
        let delivered = messages::delivered(folder)?;
        if delivered.is_superset(expected) || progress.is_stalled(delivered.len()) {
            return Ok(delivered);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn everything(store: &dyn Store) -> Result<Vec<Stored>, Failure> {
    let mut stored = Vec::new();
    let mut cursor = Cursor { before: None, limit: PAGE };
    loop {
        let page = store.list(&Filter::default(), &cursor).await?;
        let ids: Vec<SagaId> = page.items.iter().map(|row| row.id).collect();
        stored.extend(store.load(&ids).await?);
        match page.next {
            Some(next) => cursor.before = Some(next),
            None => return Ok(stored),
        }
    }
}

/// The messages that the logs imply: one for each success of the publishing step, and one alert for each step that
/// could not be
/// undone.
fn expected_messages(stored: &[Stored]) -> BTreeSet<Name> {
    let events =
        stored.iter().flat_map(|saga| saga.log.iter().map(move |recorded| (saga.summary.id, recorded)));
    let names = events.filter_map(|(saga, recorded)| match &recorded.event {
        Event::StepSucceeded { step, .. } if step.as_str() == ANNOUNCING => {
            Some((TOPIC.to_owned(), format!("{saga}:{ANNOUNCING}")))
        }
        Event::StepCompensationFailed { .. } => {
            Some(("backstitch.alerts".to_owned(), format!("{saga}:{}", recorded.seq)))
        }
        _ => None,
    });
    names.collect()
}

#[derive(Default)]
struct Findings {
    violations: Vec<Violation>,
}

impl Findings {
    fn blame(&mut self, saga: Option<SagaId>, reason: impl Into<String>) {
        self.violations.push(Violation { saga, reason: reason.into() });
    }

    /// Every acknowledged start exists, and no key started two sagas.
    fn starts(&mut self, stored: &[Stored], acknowledged: &[Acknowledged]) {
        let ids: BTreeSet<SagaId> = stored.iter().map(|saga| saga.summary.id).collect();
        for Acknowledged { key, saga } in acknowledged {
            if !ids.contains(saga) {
                self.blame(Some(*saga), format!("its start with key {key} was acknowledged, and it is gone"));
            }
        }
        let mut by_key: HashMap<&str, SagaId> = HashMap::new();
        for saga in stored {
            let id = saga.summary.id;
            if let Some(key) = &saga.summary.correlation_id
                && let Some(other) = by_key.insert(key, id)
            {
                self.blame(Some(id), format!("key {key} started {other} too"));
            }
        }
    }

    /// Every acknowledged key still returns its saga.
    async fn replays(&mut self, engine: &Engine, acknowledged: &[Acknowledged]) {
        // Concurrently, because each is a commit.
        let repeat = |start: &Acknowledged| {
            let (request, engine) = (Request::of(&start.key), engine.clone());
            async move {
                match request {
                    Some(request) => request.start(&engine).await.map_err(|error| error.to_string()),
                    None => Err("it is no key of the load".to_owned()),
                }
            }
        };
        let mut answers = Vec::with_capacity(acknowledged.len());
        for some in acknowledged.chunks(PAGE) {
            answers.extend(futures::future::join_all(some.iter().map(repeat)).await);
        }
        for (Acknowledged { key, saga }, answer) in acknowledged.iter().zip(answers) {
            match answer {
                Ok(again) if again == *saga => {}
                Ok(again) => self.blame(Some(*saga), format!("its key {key} now stands for {again}")),
                Err(error) => self.blame(Some(*saga), format!("its key {key} cannot be repeated: {error}")),
            }
        }
    }

    /// Every log is valid, its row matches it, and so do the services' calls.
    fn sagas(&mut self, folder: &Path, stored: &[Stored]) -> Result<(), Failure> {
        let definitions = definitions(folder)?;
        let mut calls: HashMap<SagaId, Vec<RawCall>> = HashMap::new();
        for call in ledger::read(folder)? {
            calls.entry(call.saga).or_default().push(call);
        }
        for saga in stored {
            let id = saga.summary.id;
            let calls = calls.remove(&id).unwrap_or_default();
            let Some(definition) = definitions.get(&*saga.summary.definition) else {
                self.blame(Some(id), format!("nobody knows its definition {}", saga.summary.definition));
                continue;
            };
            for broken in audit(definition, &saga.log) {
                self.blame(Some(id), broken.to_string());
            }
            for reason in
                tally::row(definition, saga).into_iter().chain(tally::calls(definition, saga, &calls))
            {
                self.blame(Some(id), reason);
            }
        }
        for (saga, calls) in calls {
            self.blame(Some(saga), format!("{} calls were made for it, and it does not exist", calls.len()));
        }
        Ok(())
    }

    fn messages(&mut self, expected: &BTreeSet<Name>, delivered: &BTreeSet<Name>) {
        for (topic, key) in expected.difference(delivered) {
            self.blame(None, format!("message {key} to {topic} was decided and never arrived"));
        }
        for (topic, key) in delivered.difference(expected) {
            self.blame(None, format!("message {key} to {topic} arrived, and nobody decided it"));
        }
    }

    /// Ended sagas never change.
    fn frozen(&mut self, before: &[Stored], after: &[Stored]) {
        let after: HashMap<SagaId, &Stored> = after.iter().map(|saga| (saga.summary.id, saga)).collect();
        for saga in before.iter().filter(|saga| saga.summary.status.is_terminal()) {
            let same = |now: &&Stored| now.summary == saga.summary && now.log == saga.log;
            if !after.get(&saga.summary.id).is_some_and(same) {
                self.blame(Some(saga.summary.id), "it had ended, and changed afterwards");
            }
        }
    }

    fn report(
        self,
        folder: &Path,
        stored: &[Stored],
        settled_in: Duration,
        messages: usize,
    ) -> std::io::Result<Report> {
        let mut sagas: BTreeMap<Status, usize> = BTreeMap::new();
        for Stored { summary: Summary { status, .. }, .. } in stored {
            *sagas.entry(*status).or_default() += 1;
        }
        let adopters: BTreeSet<i64> = stored
            .iter()
            .flat_map(|saga| &saga.log)
            .filter_map(|recorded| match &recorded.event {
                Event::SagaAdopted { epoch, .. } => Some(*epoch),
                _ => None,
            })
            .collect();
        Ok(Report {
            sagas,
            calls: ledger::read(folder)?.len(),
            interrupted: stored.iter().map(|saga| tally::interrupted(&saga.log)).sum(),
            adopters: adopters.len(),
            messages,
            settled_in,
            violations: self.violations,
        })
    }
}

fn definitions(folder: &Path) -> Result<HashMap<String, Definition>, Failure> {
    let ledger = Arc::new(Ledger::open(folder, "check")?);
    let sagas = sagas::all(&ledger)?;
    Ok(sagas.iter().map(|saga| (saga.definition().name().to_owned(), saga.definition().clone())).collect())
}
