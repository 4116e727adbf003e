//! The first decision this process makes about a saga: committed, and then driven on.

use std::sync::Arc;

use backstitch_kernel::saga::{Decision, Status};
use tokio::sync::OwnedSemaphorePermit;

use super::room::Reservation;
use super::{Driver, Planned, Seat, Shared, Waiter};
use crate::group_commit::ItemResult;
use crate::registry::Registered;
use crate::store::nodes::Epoch;
use crate::store::{self, Verdict};

/// Everything that takes.
pub(crate) struct Launch {
    pub(crate) seat: Seat,
    pub(crate) definition: Arc<Registered>,
    pub(crate) decision: Decision,
    pub(crate) planned: Planned,
    pub(crate) epoch: Epoch,
    /// Messages answered so far.
    pub(crate) inbox_seen: u64,
    /// Without a slot the saga waits for its turn, durably.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
    /// Room for the attempts that the decision starts.
    pub(crate) reserved: Vec<Reservation>,
}

impl Launch {
    /// Commits and drives on. If whoever asked goes away meanwhile, the sweep finds the saga.
    pub(crate) async fn commit(self, shared: &Arc<Shared>) -> Result<Verdict, Arc<store::Error>> {
        let Self { seat, definition, decision, planned, epoch, inbox_seen, slot, reserved } = self;
        let saga = seat.saga();
        let Ok(ItemResult { item: commit, result: verdict }) = shared.committer.commit(planned.commit).await
        else {
            return Err(Arc::new(store::Error::Unavailable("the engine has stopped".to_owned())));
        };
        let written = match &verdict {
            Ok(Verdict::Applied) => true,
            Ok(_) => return verdict,
            // It may be on its way: the driver finds out.
            Err(_) => false,
        };
        if written {
            shared.told(&commit.messages);
        }
        if written && !commit.jobs.is_empty() {
            shared.work.notify_waiters();
        }
        let mut events = commit.events;
        let state = Arc::new(decision.state);
        if written {
            shared.announce(saga, &definition, &state, std::mem::take(&mut events), seat.live());
        }
        match slot {
            // Whether or not it is on disk: nobody's, it is found when it is due.
            _ if planned.released => {}
            Some(slot) => {
                let driver = Driver::new(shared.clone(), definition, state, epoch, seat, slot, reserved);
                if written {
                    shared.drive(saga, driver.go_on(decision.effects, inbox_seen));
                } else {
                    shared.drive(saga, driver.go_on_if_written(events, decision.effects, inbox_seen));
                }
            }
            None => {
                let is_rollback = state.status == Status::Compensating;
                let waiter =
                    Waiter { definition: Some(definition.name.clone()), is_rollback, adoption: None };
                drop(seat);
                shared.run_queue.push(saga, waiter);
            }
        }
        verdict
    }
}
