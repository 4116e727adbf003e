//! The one loop that removes what is old enough: whose turn it is, in what steps, and with what rests.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::report::{Ledger, Report};
use super::{Archive, NotKept, Retention, messages, sagas};
use crate::runtime::Shared;
use crate::store::isolation::{Isolable, Isolated, isolate};
use crate::store::parked::{READ_AT_ONCE, park};
use crate::store::{self, Store};

/// How many are looked at together; [how much of it goes](super::fitting) depends on how large they are.
pub(super) const BATCH: usize = 100;
/// Batches of one kind in a row, so that no kind has to wait for another one's end.
const BATCHES: usize = 50;
/// After each the loop rests for so many times as long as it took: the database belongs to whoever works.
const REST: u32 = 4;
/// How often it is looked for what is old enough; sooner only where something is kept for less than that.
const EVERY: Duration = Duration::from_secs(60);
/// How long a process that has the turn may go unheard of before another one takes it.
const TURN: Duration = Duration::from_secs(15);
/// How long a shutdown waits for the store to release the turn.
const RELEASE_WITHIN: Duration = Duration::from_secs(1);
/// How many reasons are told why something is not removed.
const TROUBLES: usize = 5;
/// Pages given back to the file system at a time, a quarter of a megabyte.
const PAGES: u32 = 64;

/// Something that knows what is over, and removes it.
#[async_trait]
pub trait Pruner: Send + Sync + 'static {
    /// Exports and removes one small batch of what is old enough. `true`: there may be more.
    ///
    /// # Errors
    /// When something is in the way. What was not exported, where it has to be, must be left as it is.
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned>;

    /// The shortest time for which it keeps anything; `None` where it keeps everything.
    fn shortest(&self) -> Option<Duration>;
}

/// What is in the way.
#[derive(Debug, thiserror::Error)]
pub enum NotPruned {
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The export.
    #[error("nothing is removed, because it cannot be exported: {0}")]
    Export(String),
    /// A row that makes no sense, which is in nobody else's way.
    #[error("{0}")]
    Unreadable(String),
}

impl NotPruned {
    /// Whether it is a single row that nobody can read: the others can go all the same.
    #[must_use]
    pub fn is_of_one_row(&self) -> bool {
        matches!(self, Self::Store(store::Error::Corrupt(_)) | Self::Unreadable(_))
    }
}

impl Isolable for NotPruned {
    fn is_about_an_item(&self) -> bool {
        self.is_of_one_row() || matches!(self, Self::Store(store::Error::Rejected(_)))
    }
}

/// Exports those of these that are not parked, then removes what `export` returns. If the database rejects the removal, removes
/// as many as can go: what is rejected is parked, and tried again later. The export is done once, whatever is rejected.
///
/// # Errors
/// When something else is in the way.
pub async fn remove_isolated<T, R, X, E, W, F>(
    store: &dyn Store,
    area: &'static str,
    items: Vec<T>,
    export: X,
    remove: W,
) -> Result<Removed<T, R>, NotPruned>
where
    T: Clone + Display,
    X: FnOnce(Vec<T>) -> E,
    E: Future<Output = Result<Vec<T>, NotPruned>>,
    W: Fn(Vec<T>) -> F,
    F: Future<Output = Result<R, NotPruned>>,
{
    let all = items.len();
    let parked = if items.is_empty() { Vec::new() } else { store.parked(Some(area), READ_AT_ONCE).await? };
    let parked: HashSet<String> = parked.into_iter().map(|parked| parked.item).collect();
    let is_free = |item: &T| parked.is_empty() || !parked.contains(&item.to_string());
    let free: Vec<T> = items.into_iter().filter(is_free).collect();
    let going = if free.is_empty() { free } else { export(free).await? };
    let tried = going.len();
    let Isolated { written, rejected, failed } = isolate(going, remove).await.into();
    let to_park = rejected.iter().filter(|(_, error)| !error.is_of_one_row());
    let to_park: Vec<_> = to_park.map(|(item, error)| (item, error)).collect();
    park(store, area, &to_park).await?;
    failed.map_or(Ok(Removed { removed: written, stays: rejected, tried, untried: all - tried }), Err)
}

/// What became of items that were to be removed.
#[derive(Debug)]
pub struct Removed<T, R> {
    /// What the removals gave.
    pub removed: Vec<R>,
    /// What stays from now on, and why.
    pub stays: Vec<(T, NotPruned)>,
    /// For how many the removal was tried.
    pub tried: usize,
    /// How many were parked before, or could not be exported.
    pub untried: usize,
}

impl From<NotKept> for NotPruned {
    fn from(NotKept(why): NotKept) -> Self {
        Self::Export(why)
    }
}

/// What a [`Pruner`] works with.
pub struct Removal<'a> {
    store: &'a Arc<dyn Store>,
    archive: Option<&'a Arc<dyn Archive>>,
    ledger: &'a Ledger,
    /// What is in the way.
    troubles: Mutex<Vec<String>>,
}

impl Removal<'_> {
    /// This one cannot be read, or the database rejects its removal, and it stays; the log and the doctor report it.
    pub fn passed_over(&self, what: &dyn Display, why: &NotPruned) {
        self.trouble(format!("{what} stays, because {why}"));
    }

    /// Removes these together, or as many of them as can go, after `export` where an export is wanted. `export` returns those
    /// that may go. What stays is told.
    ///
    /// # Errors
    /// When something is in the way of all of them.
    pub async fn isolated<T, R, X, E, W, F>(
        &self,
        area: &'static str,
        kind: &'static str,
        items: Vec<T>,
        export: X,
        remove: W,
    ) -> Result<Vec<R>, NotPruned>
    where
        T: Clone + Display,
        X: FnOnce(Vec<T>) -> E,
        E: Future<Output = Result<Vec<T>, NotPruned>>,
        W: Fn(Vec<T>) -> F,
        F: Future<Output = Result<R, NotPruned>>,
    {
        let exports = self.exports();
        let export = move |free| async move { if exports { export(free).await } else { Ok(free) } };
        let removed = remove_isolated(&**self.store, area, items, export, remove).await?;
        let Removed { removed, stays, .. } = removed;
        for (item, why) in stays {
            self.passed_over(&format_args!("{kind} {item}"), &why);
        }
        Ok(removed)
    }

    fn trouble(&self, trouble: String) {
        tracing::warn!(trouble, "what is over for long is not removed");
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if troubles.len() < TROUBLES {
            troubles.push(trouble);
        }
    }

    /// Of what is to go, that which can be read, with its documents. The rest is told and stays.
    ///
    /// # Errors
    /// When something else is in the way.
    pub fn readable<T: Display>(
        &self,
        kind: &'static str,
        read: impl IntoIterator<Item = (T, Result<String, NotPruned>)>,
    ) -> Result<(Vec<T>, Vec<String>), NotPruned> {
        let (mut going, mut lines) = (Vec::new(), Vec::new());
        for (id, line) in read {
            match line {
                Ok(line) => {
                    lines.push(line);
                    going.push(id);
                }
                Err(error) if error.is_of_one_row() => self.passed_over(&format_args!("{kind} {id}"), &error),
                Err(error) => return Err(error),
            }
        }
        Ok((going, lines))
    }

    /// Whether what is removed has to be exported before.
    #[must_use]
    pub fn exports(&self) -> bool {
        self.archive.is_some()
    }

    /// Exports documents of this kind, if that is wanted. They may be removed once this returns.
    ///
    /// # Errors
    /// When they could not be exported; then they must stay.
    pub async fn export(&self, kind: &'static str, lines: Vec<String>) -> Result<(), NotPruned> {
        let Some(archive) = self.archive.filter(|_| !lines.is_empty()) else { return Ok(()) };
        let count = lines.len() as u64;
        archive.keep(lines).await?;
        self.ledger.change(|report| *report.exported.entry(kind).or_default() += count);
        Ok(())
    }

    /// So many of this kind are gone.
    pub fn removed(&self, kind: &'static str, count: u64) {
        if count > 0 {
            self.ledger.change(|report| *report.removed.entry(kind).or_default() += count);
        }
    }
}

/// Everything that removes something, and what came of it.
pub(crate) struct Pruners {
    all: RwLock<Vec<Arc<dyn Pruner>>>,
    /// There is another one.
    came: Notify,
    ledger: Ledger,
}

impl Pruners {
    pub(crate) fn of(store: &Arc<dyn Store>, retention: &Retention) -> Self {
        let mut all = sagas::pruners(store, &retention.sagas);
        all.extend(messages::pruners(store, &retention.messages));
        Self { all: RwLock::new(all), came: Notify::new(), ledger: Ledger::default() }
    }

    pub(crate) fn add(&self, pruner: Arc<dyn Pruner>) {
        self.all.write().unwrap_or_else(PoisonError::into_inner).push(pruner);
        self.came.notify_one();
    }

    /// Ends the rest of the loop: a parked item is to be tried again now.
    pub(crate) fn look_again(&self) {
        self.came.notify_one();
    }

    pub(crate) fn report(&self) -> Report {
        self.ledger.read()
    }

    /// Those that keep anything for a time only.
    fn at_work(&self) -> Vec<Arc<dyn Pruner>> {
        let mut all = self.all.read().unwrap_or_else(PoisonError::into_inner).clone();
        all.retain(|pruner| pruner.shortest().is_some());
        all
    }
}

/// Prunes for as long as the engine runs.
pub(crate) async fn keep_pruning(shared: Arc<Shared>) {
    while !shared.is_stopping() {
        let pruners = shared.pruners.at_work();
        let tick = shared.options.tick;
        let shortest = pruners.iter().filter_map(|pruner| pruner.shortest()).min().unwrap_or(EVERY);
        let mut wait = shortest.clamp(tick, EVERY.max(tick));
        if !pruners.is_empty() {
            let ledger = &shared.pruners.ledger;
            let archive = shared.options.retention.archive.as_ref();
            let store = &shared.store;
            let removal = Removal { store, archive, ledger, troubles: Mutex::default() };
            let over = round(&shared, &pruners, &removal).await;
            let troubles = removal.troubles.into_inner().unwrap_or_else(PoisonError::into_inner);
            ledger.change(|report| {
                report.failed += u64::from(!troubles.is_empty());
                // Nothing also where it is another process's turn, which tells of its own.
                report.held_up = (!troubles.is_empty()).then(|| troubles.join("; "));
            });
            match over {
                Over::Everything if troubles.is_empty() => {
                    let now = shared.options.clock.now();
                    ledger.change(|report| report.last_run = Some(now));
                }
                Over::Part => wait = tick,
                Over::Everything | Over::Nothing => {}
            }
        }
        tokio::select! {
            () = rest(&shared, wait) => {}
            () = shared.pruners.came.notified() => {}
        }
    }
    Turn::of(&shared).release().await;
}

/// How far a round got.
enum Over {
    /// It is another process's turn, or nobody knows whose.
    Nothing,
    /// There is more.
    Part,
    /// Everything that is old enough is gone.
    Everything,
}

/// Goes through everything. What is in the way of one kind is in the way of no other.
async fn round(shared: &Shared, pruners: &[Arc<dyn Pruner>], removal: &Removal<'_>) -> Over {
    let mut turn = Turn::of(shared);
    if !turn.is_ours(removal).await {
        return Over::Nothing;
    }
    let ledger = &shared.pruners.ledger;
    let before = ledger.read();
    let mut over = Over::Everything;
    for pruner in pruners {
        for nth in 1.. {
            let begun = Instant::now();
            match pruner.prune(removal).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    removal.trouble(error.to_string());
                    break;
                }
            }
            rest(shared, begun.elapsed() * REST).await;
            if nth == BATCHES {
                over = Over::Part;
                break;
            }
            if shared.is_stopping() || !turn.is_ours(removal).await {
                return Over::Nothing;
            }
        }
    }
    if let Err(error) = give_room_back(shared).await {
        removal.trouble(error.to_string());
    }
    let report = ledger.read();
    if report.removed != before.removed {
        let removed = since(&before.removed, &report.removed);
        let exported = since(&before.exported, &report.exported);
        tracing::info!(%removed, %exported, "what is over for long was removed");
    }
    over
}

/// What came to the counts, for people.
fn since(
    before: &std::collections::BTreeMap<&'static str, u64>,
    now: &std::collections::BTreeMap<&'static str, u64>,
) -> String {
    let more = now.iter().map(|(kind, count)| (kind, count - before.get(kind).copied().unwrap_or(0)));
    let more = more.filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{count} {kind}"));
    more.collect::<Vec<_>>().join(", ")
}

async fn give_room_back(shared: &Shared) -> Result<(), store::Error> {
    while !shared.is_stopping() {
        let begun = Instant::now();
        let shrunk = shared.store.shrink(PAGES).await?;
        shared.pruners.ledger.change(|report| report.pages_given_back += shrunk.pages);
        if !shrunk.more {
            break;
        }
        rest(shared, begun.elapsed() * REST).await;
    }
    Ok(())
}

async fn rest(shared: &Shared, time: Duration) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = shared.stopping() => {}
    }
}

/// Whose turn it is, asked now and then.
struct Turn<'a> {
    shared: &'a Shared,
    holder: String,
    asked: Option<Instant>,
}

impl<'a> Turn<'a> {
    fn of(shared: &'a Shared) -> Self {
        let holder = format!("{}/{}", shared.node().name, shared.epoch());
        Self { shared, holder, asked: None }
    }

    /// Lets the next process prune at once instead of when this one's turn expires.
    async fn release(&self) {
        let releasing = self.shared.store.take_turn(&self.holder, Duration::ZERO);
        // A store that does not answer must not hold up a shutdown: then the turn expires by itself.
        if let Ok(Err(error)) = tokio::time::timeout(RELEASE_WITHIN, releasing).await {
            tracing::debug!(%error, "retention turn not released; it expires by itself");
        }
    }

    /// Where that cannot be found out, it is not.
    async fn is_ours(&mut self, removal: &Removal<'_>) -> bool {
        if self.asked.is_some_and(|asked| asked.elapsed() < TURN / 3) {
            return true;
        }
        self.asked = Some(Instant::now());
        self.shared.store.take_turn(&self.holder, TURN).await.unwrap_or_else(|error| {
            removal.trouble(error.to_string());
            false
        })
    }
}
