//! The one loop that removes what is old enough: whose turn it is, in what steps, and with what rests.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::area::Area;
use super::removal::Removal;
use super::report::{Ledger, Report};
use super::{Retention, messages, sagas};
use crate::engine::Engine;
use crate::runtime::Shared;
use crate::store::{self, Store};

/// How many items are looked at together; [how many go together](super::fitting) depends on how large they are.
pub(super) const PAGE: usize = 100;
/// Batches of one area in a row, so that no area has to wait for another one's end.
const BATCHES: usize = 50;
/// After each the loop rests for so many times as long as it took: the database belongs to whoever works.
const REST: u32 = 4;
/// How often it is looked for what is old enough; sooner only where something is kept for less than that.
const EVERY: Duration = Duration::from_secs(60);
/// How long a process that has the turn may go unheard of before another one takes it.
const TURN: Duration = Duration::from_secs(15);
/// How long a shutdown waits for the store to release the turn.
const RELEASE_WITHIN: Duration = Duration::from_secs(1);
/// Pages given back to the file system at a time, a quarter of a megabyte.
const PAGES: u32 = 64;

/// All areas, and what was removed of them.
pub(crate) struct Areas {
    all: RwLock<Vec<Area>>,
    /// There is another area, or something to try again.
    changed: Notify,
    ledger: Ledger,
}

impl Areas {
    pub(crate) fn of(store: &Arc<dyn Store>, retention: &Retention) -> Self {
        let mut all = sagas::areas(store, &retention.sagas);
        all.extend(messages::areas(store, &retention.messages));
        Self { all: RwLock::new(all), changed: Notify::new(), ledger: Ledger::default() }
    }

    pub(crate) fn add(&self, areas: impl IntoIterator<Item = Area>) {
        self.all.write().unwrap_or_else(PoisonError::into_inner).extend(areas);
        self.changed.notify_one();
    }

    /// Ends the rest of the loop: a parked item is to be tried again now.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    pub(crate) fn report(&self) -> Report {
        self.ledger.read()
    }

    fn all(&self) -> Vec<Area> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Prunes for as long as the engine runs.
pub(crate) async fn keep_pruning(shared: Arc<Shared>) {
    while !shared.is_stopping() {
        let areas = shared.areas.all();
        let tick = shared.options.tick;
        let shortest = areas.iter().map(Area::age).min().unwrap_or(EVERY);
        let mut wait = shortest.clamp(tick, EVERY.max(tick));
        if !areas.is_empty() {
            let ledger = &shared.areas.ledger;
            let removal = Removal::new(&*shared.store, shared.options.retention.archive.as_ref(), ledger);
            let over = round(&shared, &areas, &removal).await;
            let troubles = removal.into_troubles();
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
            () = shared.areas.changed.notified() => {}
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

/// Goes through all areas. What is in the way of one is in the way of no other.
async fn round(shared: &Shared, areas: &[Area], removal: &Removal<'_>) -> Over {
    let mut turn = Turn::of(shared);
    if !turn.is_ours(removal).await {
        return Over::Nothing;
    }
    let ledger = &shared.areas.ledger;
    let before = ledger.read();
    let mut over = Over::Everything;
    for area in areas {
        for nth in 1.. {
            let begun = Instant::now();
            match area.prune_batch(removal).await {
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

/// What came of [`prune_now`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrunedNow {
    /// What was removed, and what was in the way.
    pub report: Report,
    /// Whether there may be more in one of the areas.
    pub more: bool,
}

/// Removes up to `batches` batches of each area now, without pauses and without the retention lease. Exports nothing.
pub async fn prune_now(engine: &Engine, areas: &[Area], batches: usize) -> PrunedNow {
    let ledger = Ledger::default();
    let removal = Removal::new(&**engine.store(), None, &ledger);
    let mut more = false;
    for area in areas {
        let mut goes_on = true;
        for _ in 0..batches {
            goes_on = area.prune_batch(&removal).await.unwrap_or_else(|error| {
                removal.trouble(error.to_string());
                false
            });
            if !goes_on {
                break;
            }
        }
        more |= goes_on;
    }
    let troubles = removal.into_troubles();
    let held_up = (!troubles.is_empty()).then(|| troubles.join("; "));
    PrunedNow { report: Report { held_up, ..ledger.read() }, more }
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
        shared.areas.ledger.change(|report| report.pages_given_back += shrunk.pages);
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
