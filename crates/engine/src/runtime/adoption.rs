//! Finding sagas that nobody runs, and running them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::saga::{State, Status};
use backstitch_kernel::{SagaId, Timestamp};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::room::Reservation;
use super::run_queue::Taken;
use super::{Driver, Grant, STORE_RETRY, Seat, Shared, Waiter};
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
/// How often it is checked that everything that is ours is driven.
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
            if let Err(error) = queue_what_nobody_drives(&shared).await {
                tracing::warn!(%error, "cannot look for sagas that are ours");
            }
        }
        let nudged = shared.adoption.wait(wait).await;
        // With the sweep, for a saga of a former life whose adoption the store rejected before.
        thorough = nudged || sweep || (thorough && !complete);
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
                shared.outbox.nudge();
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

/// Queues sagas that are ours by the store's word but that nobody here drives, such as those whose adoption was never
/// answered, or whose starter went away in the middle.
async fn queue_what_nobody_drives(shared: &Shared) -> Result<(), store::Error> {
    let ours: HashSet<SagaId> = shared.store.owned(shared.epoch()).await?.into_iter().collect();
    shared.undriven.keep(&ours);
    let mut undriven: Vec<SagaId> = ours.into_iter().collect();
    undriven.retain(|saga| shared.live.get(*saga).is_none() && !shared.run_queue.has(*saga));
    let undriven: Vec<_> = undriven.into_iter().map(|id| AdoptedSaga { id, seq: None }).collect();
    queue(shared, &undriven).await
}

/// Queues sagas that are ours. What they are is looked up only where they cannot all run at once.
async fn queue(shared: &Shared, sagas: &[AdoptedSaga]) -> Result<(), store::Error> {
    let mut waiters: HashMap<SagaId, Waiter> = HashMap::new();
    if sagas.len() > shared.slots.available_permits() {
        // One row that cannot be read keeps none from running: its own load tells of it.
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

/// Runs sagas that are ours as soon as there is a slot for them, and room for what they wait for.
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
            // What cannot be read, be it a row or its page, must not keep its neighbours from running.
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

/// Runs on what can be read alone. A saga that cannot be, while others can, is told; while the store is away, all wait.
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
            shared.cannot_drive(saga, why);
        }
    } else {
        for (saga, place, _) in unanswered {
            let Place { since, waiter, .. } = place;
            shared.run_queue.put_back(saga, waiter, since);
        }
        tokio::time::sleep(STORE_RETRY).await;
    }
}

/// Reads each alone and runs on what can be read; those are left for which the store has no answer now.
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
            Err(error) => shared.cannot_drive(saga, error.to_string()),
        }
    }
    unanswered
}

/// A saga that is about to be driven.
struct Place {
    /// Since when it has waited for it.
    since: Timestamp,
    waiter: Waiter,
    seat: Seat,
    slot: OwnedSemaphorePermit,
    /// The room it waited for.
    reservation: Option<Reservation>,
}

/// Gives sagas that run here what they wait for besides a slot: each uses the slot that it holds. Says whether any got
/// something.
fn grant_to_holders(shared: &Arc<Shared>) -> bool {
    let mut granted = false;
    let holds_slot = |saga| shared.live.get(saga).is_some_and(|live| live.holds_slot());
    while let Some(Taken { saga, since, waiter, reservation }) = shared.run_queue.take_holder(holds_slot) {
        granted = true;
        let grant = Grant { slot: None, reservation };
        if !shared.live.get(saga).is_some_and(|live| live.grant(grant)) {
            try_again(shared, saga, waiter, since);
        }
    }
    granted
}

/// Gives sagas slots for as long as there are both. Those with a driver go on at once; the others count as under way before
/// they are read, so that later messages wake this process.
fn enter(shared: &Arc<Shared>, slot: OwnedSemaphorePermit) -> HashMap<SagaId, Place> {
    let mut entered = HashMap::new();
    let mut slot = Some(slot);
    while let Some(free) = slot.take()
        && let Some(Taken { saga, since, waiter, reservation }) = shared.run_queue.take()
    {
        if let Some(live) = shared.live.get(saga) {
            if !live.grant(Grant { slot: Some(free), reservation }) {
                // Its driver here is about to leave.
                try_again(shared, saga, waiter, since);
            }
        } else if let Some(seat) = Seat::take(shared, saga) {
            entered.insert(saga, Place { since, waiter, seat, slot: free, reservation });
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
            resume(shared, stored, place);
        }
    }
}

/// Runs a saga on, if it is ours to run.
fn resume(shared: &Arc<Shared>, stored: Stored, place: Place) {
    let row = &stored.summary;
    let epoch = shared.epoch();
    if row.status.is_terminal() || row.owner != Some(epoch) {
        return;
    }
    let Some(definition) = shared.registry.version(&row.definition, row.version) else {
        let (name, version) = (&row.definition, row.version);
        shared.cannot_drive(row.id, format!("version {version} of `{name}` is not registered here"));
        return;
    };
    let state = match State::fold(&definition.definition, &stored.log) {
        Ok(state) => Arc::new(state),
        Err(misfit) => {
            shared.cannot_drive(row.id, format!("its log does not fit its definition: {misfit}"));
            return;
        }
    };
    match stored.log.last() {
        Some(adopted) if place.waiter.adoption == Some(adopted.seq) => {
            shared.announce(row.id, &definition, &state, vec![adopted.clone()], place.seat.live());
        }
        _ => place.seat.live().log().advanced_to(state.seq),
    }
    let reserved = place.reservation.into_iter().collect();
    let driver = Driver::new(shared.clone(), definition, state, epoch, place.seat, place.slot, reserved);
    shared.drive(row.id, driver.run_adopted(stored.inbox, stored.inbox_seq));
}

/// Tells running sagas of messages that other processes left for them.
pub(super) async fn fetch_mail(shared: Arc<Shared>) {
    while !shared.is_stopping() {
        match shared.store.mail(shared.epoch()).await {
            Ok(sagas) => {
                for (saga, newest) in sagas {
                    match shared.live.get(saga) {
                        Some(live) => live.nudge_for_newer_mail(newest),
                        None => shared.run_queue.wake_for_newer_mail(saga, newest),
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
            Some(Notice::Mail(saga)) => shared.mail_came_for(saga),
            Some(Notice::Started(_)) => shared.adoption.nudge(),
            Some(Notice::Applied) => shared.definitions.nudge(),
            Some(Notice::Published) => shared.outbox.nudge(),
            Some(Notice::Missed) => {
                shared.definitions.nudge();
                shared.adoption.nudge();
            }
            None => return,
        }
    }
}
