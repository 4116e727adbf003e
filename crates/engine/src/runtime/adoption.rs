//! Finds sagas that no node executes, adopts them, and has them executed as soon as there is a slot.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::saga::Status;
use backstitch_kernel::{SagaId, Timestamp};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::executor::{self, Resumption};
use super::room::Reservation;
use super::run_queue::Taken;
use super::{Grant, RunSlot, STORE_RETRY, Shared, Waiter};
use crate::registry::Runnable;
use crate::store::nodes::{AdoptedSaga, Notice};
use crate::store::{self, Stored};

/// Sagas taken over in one transaction.
const ADOPT_BATCH: usize = 1000;
/// Sagas read at once before they are run.
const LOAD_BATCH: usize = 64;
/// How often a saga is read alone before it is what keeps the store from answering.
const ASKED_ALONE: usize = 2;
/// How long a saga waits that could not be taken up at once.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Interval of the sweep for sagas that this node owns and does not execute.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Takes over what is due or orphaned, for as long as the engine runs.
pub(super) async fn adopt_what_is_due(shared: Arc<Shared>) {
    // The first look takes what a former life left behind; so does the first after a new registration.
    let mut thorough = true;
    let mut swept = Instant::now();
    while !shared.is_stopping() {
        let looked = look(&shared, thorough).await;
        let sweep = looked.is_err() || swept.elapsed() >= SWEEP_EVERY;
        // A thorough look that did not get through is owed still.
        let (wait, complete) = match looked {
            Ok(Looked { wait, complete }) => (wait, complete),
            Err(error) => {
                tracing::warn!(%error, "cannot look for sagas that are due");
                (shared.options.tick, false)
            }
        };
        if sweep {
            swept = Instant::now();
            if let Err(error) = queue_inactive(&shared).await {
                tracing::warn!(%error, "cannot look for sagas that this node owns");
            }
        }
        let was_woken = shared.adoption.wait(wait).await;
        // With the sweep, for a saga of a former life whose adoption the store rejected before.
        thorough = was_woken || sweep || (thorough && !complete);
    }
}

struct Looked {
    /// How long to wait before the next look.
    wait: Duration,
    /// Whether everything that is registered was looked for.
    complete: bool,
}

/// Adopts everything there is to adopt.
async fn look(shared: &Shared, thorough: bool) -> Result<Looked, store::Error> {
    let Runnable { known, complete } = shared.registry.runnable(&*shared.store).await;
    let tick = shared.options.tick;
    if known.is_empty() {
        return Ok(Looked { wait: tick, complete });
    }
    let now = shared.options.clock.now();
    let next = shared.store.next_wake(&known).await?;
    // Only on a shared store can a saga lose its owner while we watch.
    if thorough || shared.store.is_shared() || next.is_some_and(|due| due <= now) {
        loop {
            let adopted = shared.store.adopt(shared.node(), shared.epoch(), &known, now, ADOPT_BATCH).await?;
            queue(shared, &adopted.sagas).await?;
            if !adopted.sagas.is_empty() && shared.options.announced.includes("saga.adopted") {
                shared.outbox.wake();
            }
            if !adopted.more || shared.is_stopping() {
                break;
            }
        }
    }
    let now = shared.options.clock.now();
    let next = shared.store.next_wake(&known).await?;
    // What is due by our clock and was not adopted is not due by the store's: it is looked at again at the next tick.
    let wait = next.filter(|due| *due > now).map_or(tick, |due| due.since(now).min(tick));
    Ok(Looked { wait, complete })
}

/// Queues sagas that this node owns and does not execute, such as those whose adoption was never answered, or whose caller
/// went away in the middle of a start.
async fn queue_inactive(shared: &Shared) -> Result<(), store::Error> {
    let owned: HashSet<SagaId> = shared.store.owned(shared.epoch()).await?.into_iter().collect();
    shared.stalled.keep(&owned);
    let mut inactive: Vec<SagaId> = owned.into_iter().collect();
    inactive.retain(|saga| shared.active.get(*saga).is_none() && !shared.run_queue.has(*saga));
    let inactive: Vec<_> = inactive.into_iter().map(|id| AdoptedSaga { id, seq: None }).collect();
    queue(shared, &inactive).await
}

/// Queues sagas that this node owns. Their rows are read only where they cannot all run at once.
async fn queue(shared: &Shared, sagas: &[AdoptedSaga]) -> Result<(), store::Error> {
    let mut waiters: HashMap<SagaId, Waiter> = HashMap::new();
    if sagas.len() > shared.slots.available_permits() {
        // One row that cannot be read keeps no other saga from running: its own load reports it.
        let ids: Vec<SagaId> = sagas.iter().map(|saga| saga.id).collect();
        match shared.store.rows(&ids).await {
            Ok(rows) => waiters.extend(rows.into_iter().map(|row| {
                let is_rollback = row.status == Status::Compensating;
                (row.id, Waiter { definition: Some(row.definition), is_rollback, adoption: None })
            })),
            Err(error) => tracing::warn!(%error, "cannot read what kind of sagas are queued"),
        }
    }
    for AdoptedSaga { id, seq } in sagas {
        let waiter = waiters.remove(id).unwrap_or_default();
        shared.run_queue.push(*id, Waiter { adoption: *seq, ..waiter });
    }
    Ok(())
}

/// Executes queued sagas as soon as there is a slot for them, and room for what they wait for.
pub(super) async fn run_queued(shared: Arc<Shared>) {
    let queue = &shared.run_queue;
    queue.restart();
    let mut room = FuturesUnordered::new();
    let mut slot = None;
    loop {
        // Until no more is granted: a lane that gave its room away needs a task that waits for more.
        loop {
            room.extend(queue.lanes_without_room().into_iter().map(|(lane, limits)| async move {
                let permits = limits.acquire().await;
                (lane, permits)
            }));
            if !grant_to_holders(&shared) {
                break;
            }
        }
        if queue.is_ready() {
            slot.get_or_insert_with(|| Box::pin(shared.slots.clone().acquire_owned()));
        } else {
            // A slot that is held for a waiting saga is lost to the others.
            slot = None;
        }
        let due = queue.next_due().map(|due| due.since(shared.options.clock.now()));
        let entered = tokio::select! {
            biased;
            () = shared.stopping() => return,
            Some((lane, permits)) = room.next(), if !room.is_empty() => {
                queue.has_room(&lane, permits);
                continue;
            }
            Some(Ok(free)) = maybe(slot.as_mut()) => {
                slot = None;
                enter(&shared, free)
            }
            () = queue.changed() => continue,
            () = tokio::time::sleep(due.unwrap_or(Duration::MAX)), if due.is_some() => {
                queue.wake_due();
                continue;
            }
        };
        if entered.is_empty() {
            continue;
        }
        let sagas: Vec<SagaId> = entered.keys().copied().collect();
        match shared.store.load(&sagas).await {
            Ok(found) => resume_all(&shared, entered, found),
            // A row or page that cannot be read must not keep the others from running.
            Err(error) => resume_each(&shared, entered, &error).await,
        }
    }
}

/// The future's result; waits forever where there is no future.
async fn maybe<F: Future + Unpin>(future: Option<F>) -> Option<F::Output> {
    match future {
        Some(future) => Some(future.await),
        None => std::future::pending().await,
    }
}

/// Executes the sagas that can be read alone. One that cannot, while others can, is stalled; while the store is away, all wait.
async fn resume_each(shared: &Arc<Shared>, entered: HashMap<SagaId, Place>, error: &store::Error) {
    tracing::warn!(%error, "cannot read sagas that are due");
    let mut unanswered: Vec<(SagaId, Place, String)> =
        entered.into_iter().map(|(saga, place)| (saga, place, error.to_string())).collect();
    // First: each of them might wait for a store that is away until that is given up.
    let mut is_there = shared.answers_about_sagas().await;
    for _ in 0..ASKED_ALONE {
        if !is_there {
            break;
        }
        unanswered = resume_readable(shared, unanswered).await;
        if unanswered.is_empty() || shared.is_stopping() {
            return;
        }
        tokio::time::sleep(STORE_RETRY).await;
        is_there = shared.answers_about_sagas().await;
    }
    if is_there {
        for (saga, _, why) in unanswered {
            // The sweep tries it again.
            shared.cannot_execute(saga, why);
        }
    } else {
        for (saga, place, _) in unanswered {
            let Place { since, waiter, .. } = place;
            shared.run_queue.put_back(saga, waiter, since);
        }
        tokio::time::sleep(STORE_RETRY).await;
    }
}

/// Reads each alone and executes those that can be read; returns those for which the store has no answer now.
async fn resume_readable(
    shared: &Arc<Shared>,
    sagas: Vec<(SagaId, Place, String)>,
) -> Vec<(SagaId, Place, String)> {
    let mut unanswered = Vec::new();
    for (saga, place, _) in sagas {
        if shared.is_stopping() {
            break;
        }
        match shared.store.load(&[saga]).await {
            Ok(found) => resume_all(shared, HashMap::from([(saga, place)]), found),
            Err(error @ store::Error::Unavailable(_)) => unanswered.push((saga, place, error.to_string())),
            // The sweep tries it again.
            Err(error) => shared.cannot_execute(saga, error.to_string()),
        }
    }
    unanswered
}

/// A saga that is about to be executed.
struct Place {
    /// Since when it has waited for it.
    since: Timestamp,
    waiter: Waiter,
    run_slot: RunSlot,
    slot: OwnedSemaphorePermit,
    /// The room it waited for.
    reservation: Option<Reservation>,
}

/// Grants sagas with a slot what else they wait for. Returns whether any got something.
fn grant_to_holders(shared: &Arc<Shared>) -> bool {
    let mut granted = false;
    let holds_slot = |saga| shared.active.get(saga).is_some_and(|active| active.holds_slot());
    while let Some(Taken { saga, since, waiter, reservation }) = shared.run_queue.take_holder(holds_slot) {
        granted = true;
        let grant = Grant { slot: None, reservation };
        if !shared.active.get(saga).is_some_and(|active| active.grant(grant)) {
            try_again(shared, saga, waiter, since);
        }
    }
    granted
}

/// Gives slots to waiting sagas for as long as there are both. Those with an executor go on at once; the others are active
/// before they are read, so that later messages wake this process.
fn enter(shared: &Arc<Shared>, slot: OwnedSemaphorePermit) -> HashMap<SagaId, Place> {
    let mut entered = HashMap::new();
    let mut slot = Some(slot);
    while let Some(free) = slot.take()
        && let Some(Taken { saga, since, waiter, reservation }) = shared.run_queue.take()
    {
        if let Some(active) = shared.active.get(saga) {
            if !active.grant(Grant { slot: Some(free), reservation }) {
                // Its executor is about to stop.
                try_again(shared, saga, waiter, since);
            }
        } else if let Some(run_slot) = RunSlot::take(shared, saga) {
            entered.insert(saga, Place { since, waiter, run_slot, slot: free, reservation });
        } else {
            try_again(shared, saga, waiter, since);
        }
        if entered.len() >= LOAD_BATCH {
            break;
        }
        slot = shared.slots.clone().try_acquire_owned().ok();
    }
    entered
}

/// Puts a saga back after a moment.
fn try_again(shared: &Arc<Shared>, saga: SagaId, waiter: Waiter, since: Timestamp) {
    let later = shared.clone();
    shared.spawn(async move {
        tokio::time::sleep(AGAIN_AFTER).await;
        later.run_queue.put_back(saga, waiter, since);
    });
}

fn resume_all(shared: &Arc<Shared>, mut entered: HashMap<SagaId, Place>, found: Vec<Stored>) {
    for stored in found {
        if let Some(place) = entered.remove(&stored.summary.id) {
            let Place { waiter, run_slot, slot, reservation, .. } = place;
            let resumption = Resumption { run_slot, slot, reservation, adoption: waiter.adoption };
            executor::resume(shared, stored, resumption);
        }
    }
}

/// Wakes sagas for messages that other processes left for them.
pub(super) async fn poll_inboxes(shared: Arc<Shared>) {
    while !shared.is_stopping() {
        match shared.store.mail(shared.epoch()).await {
            Ok(sagas) => {
                for (saga, newest) in sagas {
                    match shared.active.get(saga) {
                        Some(active) => active.wake_for_newer_inbox(newest),
                        None => shared.run_queue.wake_for_newer_inbox(saga, newest),
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot look for messages"),
        }
        tokio::select! {
            () = tokio::time::sleep(shared.options.tick) => {}
            () = shared.stopping() => {}
        }
    }
}

/// Looks at once at what other processes have just done, instead of at the next tick.
pub(super) async fn heed(shared: Arc<Shared>, notices: Arc<Mutex<mpsc::Receiver<Notice>>>) {
    let mut notices = notices.lock().await;
    loop {
        let notice = tokio::select! {
            notice = notices.recv() => notice,
            () = shared.stopping() => None,
        };
        match notice {
            Some(Notice::InboxChanged(saga)) => shared.inbox_changed(saga),
            Some(Notice::Started(_)) => shared.adoption.wake(),
            Some(Notice::Applied) => shared.definitions.wake(),
            Some(Notice::Published) => shared.outbox.wake(),
            Some(Notice::Missed) => {
                shared.definitions.wake();
                shared.adoption.wake();
            }
            None => return,
        }
    }
}
