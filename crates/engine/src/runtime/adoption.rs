//! Finding sagas that nobody runs, and running them.

use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::State;
use tokio::sync::mpsc;

use super::{Driver, Shared};
use crate::store::{self, Stored};

/// Sagas taken over in one transaction.
const ADOPT_BATCH: usize = 1000;
/// Sagas read at once before they are run.
const LOAD_BATCH: usize = 64;

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
        let before = tokio::time::Instant::now();
        shared.adoption.wait(wait).await;
        nudged = before.elapsed() < wait;
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
    let mut batch = Vec::with_capacity(LOAD_BATCH);
    while waiting.recv_many(&mut batch, LOAD_BATCH).await > 0 {
        if shared.is_stopping() {
            return;
        }
        match shared.store.load(&batch).await {
            Ok(found) => {
                for stored in found {
                    resume(&shared, stored).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read sagas that are due");
                tokio::time::sleep(shared.options.tick).await;
                for saga in &batch {
                    let _ = shared.backlog.send(*saga);
                }
            }
        }
        batch.clear();
    }
}

async fn resume(shared: &Arc<Shared>, stored: Stored) {
    let row = &stored.summary;
    let epoch = shared.epoch();
    if row.status.is_terminal() || row.owner != Some(epoch) {
        return;
    }
    let Some(definition) = shared.registry.version(&row.definition, row.version) else {
        return;
    };
    let state = match State::fold(&definition.definition, &stored.log) {
        Ok(state) => state,
        Err(misfit) => {
            tracing::error!(saga = %row.id, %misfit, "the log does not fit the definition: this saga stays as it is");
            return;
        }
    };
    let Ok(room) = shared.room.clone().acquire_owned().await else {
        return;
    };
    let Some(live) = shared.live.enter(row.id) else {
        return;
    };
    live.advanced_to(state.seq);
    let driver = Driver::new(shared.clone(), row.id, definition, state, epoch, live, room);
    tokio::spawn(driver.run_adopted(stored.inbox, stored.inbox_seq));
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
        tokio::time::sleep(shared.options.tick).await;
    }
}
