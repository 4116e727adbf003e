//! What one call of retention removes.

use backstitch::retention::{Area, PrunedNow, prune_now};
use backstitch_modules::webhooks::Ages;

use crate::webhooks::stage::Stage;

/// Batches of each area in one call.
pub(crate) const BATCHES: usize = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pruned {
    pub(crate) deliveries: usize,
    pub(crate) dead_letters: usize,
    pub(crate) jobs: usize,
    pub(crate) attempts: usize,
    pub(crate) events: usize,
    /// There was more than one call looks at.
    pub(crate) more: bool,
}

impl From<&PrunedNow> for Pruned {
    fn from(pruned: &PrunedNow) -> Self {
        let removed = |kind| {
            let count = pruned.report.removed.get(kind).copied().unwrap_or_default();
            usize::try_from(count).unwrap()
        };
        Self {
            deliveries: removed("deliveries"),
            dead_letters: removed("dead_letters"),
            jobs: removed("jobs"),
            attempts: removed("attempts"),
            events: removed("events"),
            more: pruned.more,
        }
    }
}

/// Removes what is older than this, from the beginning on.
pub(crate) async fn prune(stage: &Stage, ages: &Ages) -> Pruned {
    let pruned = prune_now(&stage.engine, &stage.webhooks.retention(ages), BATCHES).await;
    assert_eq!(pruned.report.held_up, None);
    Pruned::from(&pruned)
}

/// Goes on where the call before stopped.
pub(crate) async fn prune_areas(stage: &Stage, areas: &[Area]) -> Pruned {
    Pruned::from(&prune_now(&stage.engine, areas, BATCHES).await)
}
