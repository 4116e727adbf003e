//! Finding sagas that nobody runs, and running them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::State;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{Driver, Shared};
use crate::live::{End, Live};
use crate::store::nodes::Notice;
use crate::store::{self, Stored};

/// Sagas taken over in one transaction.
const ADOPT_BATCH: usize = 1000;
/// Sagas read at once before they are run.
const LOAD_BATCH: usize = 64;
/// How long a saga waits that could not be taken up at once.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Takes over what is due or orphaned, for as long as the engine runs.
pub(super) async fn adopt_what_is_due(shared: Arc<Shared>) {
    // The first look takes what a former life left behind; so does the first after a new registration.
    let mut nudged = true;
    while !shared.is_stopping() {
        let wait = match look(&shared, nudged).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(%error, "cannot look for sagas that are due");
                shared.options.tick
            }
        };
        nudged = shared.adoption.wait(wait).await;
    }
}

/// Adopts everything there is to adopt; says how long to wait before the next look.
async fn look(shared: &Shared, nudged: bool) -> Result<Duration, store::Error> {
    let known = shared.registry.runnable(&*shared.store).await;
    if known.is_empty() {
        return Ok(shared.options.tick);
    }
    let now = shared.options.clock.now();
    let next = shared.store.next_wake(&known).await?;
    // Only on a shared store can a saga lose its owner while we watch.
    if nudged || shared.store.is_shared() || next.is_some_and(|due| due <= now) {
        loop {
            let adopted = shared.store.adopt(shared.node(), shared.epoch(), &known, now, ADOPT_BATCH).await?;
            for saga in &adopted {
                // The receiver lives as long as the engine; without it there is nothing left to run on.
                let _ = shared.backlog.send(*saga);
            }
            if adopted.len() < ADOPT_BATCH || shared.is_stopping() {
                break;
            }
        }
    }
    let next = shared.store.next_wake(&known).await?.map(|due| due.since(shared.options.clock.now()));
    Ok(next.map_or(shared.options.tick, |wait| wait.clamp(Duration::from_millis(1), shared.options.tick)))
}

/// Runs sagas that are ours as soon as there is room for them.
pub(super) async fn drive_backlog(shared: Arc<Shared>, mut waiting: mpsc::UnboundedReceiver<SagaId>) {
    loop {
        let entered = tokio::select! {
            entered = enter(&shared, &mut waiting) => entered,
            () = shared.stopping() => return,
        };
        let sagas: Vec<SagaId> = entered.keys().copied().collect();
        match shared.store.load(&sagas).await {
            Ok(found) => resume_all(&shared, entered, found),
            Err(error) => {
                tracing::warn!(%error, "cannot read sagas that are due");
                for saga in sagas {
                    shared.live.leave(saga, End::LetGo);
                    try_again(&shared, saga);
                }
            }
        }
    }
}

/// A saga's place among those under way.
struct Place {
    live: Arc<Live>,
    room: OwnedSemaphorePermit,
}

/// Waits for a saga and for room, and takes as many more as there are and as fit. They count as under way before they
/// are read, so that whoever leaves a message from now on knows whom to tell.
async fn enter(
    shared: &Arc<Shared>,
    waiting: &mut mpsc::UnboundedReceiver<SagaId>,
) -> HashMap<SagaId, Place> {
    let mut entered = HashMap::new();
    while entered.is_empty() {
        // In this order: room that waits for a saga would be room that nobody else can use.
        let saga = waiting.recv().await;
        let (Some(mut saga), Ok(mut room)) = (saga, shared.room.clone().acquire_owned().await) else {
            // Neither is ever closed while the engine runs.
            return std::future::pending().await;
        };
        loop {
            match shared.live.enter(saga) {
                Some(live) => {
                    entered.insert(saga, Place { live, room });
                }
                // Its former driver here is about to leave.
                None => try_again(shared, saga),
            }
            if entered.len() >= LOAD_BATCH {
                break;
            }
            let Ok(more) = shared.room.clone().try_acquire_owned() else { break };
            let Ok(next) = waiting.try_recv() else { break };
            (room, saga) = (more, next);
        }
    }
    entered
}

/// Puts a saga back after a moment.
fn try_again(shared: &Arc<Shared>, saga: SagaId) {
    let shared = shared.clone();
    tokio::spawn(async move {
        tokio::time::sleep(AGAIN_AFTER).await;
        // Nobody takes it only when the engine has stopped.
        let _ = shared.backlog.send(saga);
    });
}

fn resume_all(shared: &Arc<Shared>, mut entered: HashMap<SagaId, Place>, found: Vec<Stored>) {
    for stored in found {
        let saga = stored.summary.id;
        let Some(place) = entered.remove(&saga) else { continue };
        if !resume(shared, stored, place) {
            shared.live.leave(saga, End::LetGo);
        }
    }
    for saga in entered.into_keys() {
        shared.live.leave(saga, End::LetGo);
    }
}

/// Runs a saga on; `false` if it is not ours to run.
fn resume(shared: &Arc<Shared>, stored: Stored, place: Place) -> bool {
    let row = &stored.summary;
    let epoch = shared.epoch();
    if row.status.is_terminal() || row.owner != Some(epoch) {
        return false;
    }
    let Some(definition) = shared.registry.version(&row.definition, row.version) else { return false };
    let state = match State::fold(&definition.definition, &stored.log) {
        Ok(state) => state,
        Err(misfit) => {
            tracing::error!(saga = %row.id, %misfit, "the log does not fit the definition: this saga stays as it is");
            return false;
        }
    };
    place.live.advanced_to(state.seq);
    let driver = Driver::new(shared.clone(), row.id, definition, state, epoch, place.live, place.room);
    tokio::spawn(driver.run_adopted(stored.inbox, stored.inbox_seq));
    true
}

/// Tells running sagas of messages that other processes left for them.
pub(super) async fn fetch_mail(shared: Arc<Shared>) {
    while !shared.is_stopping() {
        match shared.store.mail(shared.epoch()).await {
            Ok(sagas) => {
                let under_way = sagas.into_iter().filter_map(|saga| shared.live.get(saga));
                under_way.for_each(|live| live.nudge_for_mail());
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
pub(super) async fn heed(shared: Arc<Shared>, mut notices: mpsc::Receiver<Notice>) {
    loop {
        let notice = tokio::select! {
            notice = notices.recv() => notice,
            () = shared.stopping() => None,
        };
        match notice {
            Some(Notice::Mail(saga)) => match shared.live.get(saga) {
                Some(live) => live.nudge_for_mail(),
                None => shared.adoption.nudge(),
            },
            Some(Notice::Started(_) | Notice::Missed) => shared.adoption.nudge(),
            None => return,
        }
    }
}
