//! What nobody may be looking after.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use backstitch_kernel::{Timestamp, lease};

use super::{Saga, Tables};
use crate::store::Summary;
use crate::store::nodes::Epoch;
use crate::store::survey::{Heard, Owner, Queue, Survey, Waiting};

impl Tables {
    pub(super) fn survey(&self, now: Timestamp, limit: usize) -> Survey {
        let live = || self.sagas.values().filter(|saga| saga.is_active()).map(|saga| &saga.summary);
        let mut owners: BTreeMap<(&str, u32, Epoch), Option<Heard>> = BTreeMap::new();
        let mut waiting: BTreeMap<(&str, u32), Timestamp> = BTreeMap::new();
        for row in live() {
            match (row.owner, row.wake_at) {
                (Some(owner), _) => {
                    let heard =
                        self.lives(owner).then(|| Heard { node: String::new(), late: Duration::ZERO });
                    owners.insert((&row.definition, row.version, owner), heard);
                }
                (None, Some(due)) => {
                    let first = waiting.entry((&row.definition, row.version)).or_insert(due);
                    *first = due.min(*first);
                }
                (None, None) => {}
            }
        }
        let owners = owners.into_iter().map(|((definition, version, epoch), heard)| Owner {
            definition: definition.to_owned(),
            version,
            epoch,
            heard,
        });
        let waiting = waiting.into_iter().map(|((definition, version), due)| Waiting {
            definition: definition.to_owned(),
            version,
            late: now.since(due),
        });
        let adrift = self.sagas.values().filter(|saga| self.is_adrift(saga));
        Survey {
            adrift: adrift.map(|saga| saga.summary.clone()).take(limit).collect(),
            owners: owners.take(limit).collect(),
            waiting: waiting.take(limit).collect(),
            leased: self.queues(lease::Status::Leased, now, limit),
            pending: self.queues(lease::Status::Pending, now, limit),
        }
    }

    pub(super) fn stuck(&self, since: Timestamp, limit: usize) -> Vec<Summary> {
        let live = self.sagas.values().filter(|saga| saga.is_active()).map(|saga| &saga.summary);
        let due_later = |row: &Summary| row.wake_at.is_some_and(|wake_at| wake_at > since);
        let has_somebody = |row: &Summary| row.owner.is_some_and(|owner| self.lives(owner));
        // Whoever has the sagas of a former life now has not had them for longer.
        let begun = self.joined.as_ref().filter(|_| !self.left).map(|joined| joined.started_at);
        let left_lately = |row: &Summary| row.owner.is_some() && begun.is_some_and(|begun| begun > since);
        let stands = |row: &Summary| row.updated_at <= since && !row.paused && !due_later(row);
        let stuck = live.filter(|row| stands(row) && !has_somebody(row) && !left_lately(row));
        let mut stuck: Vec<Summary> = stuck.cloned().collect();
        stuck.sort_by_key(|row| (row.updated_at, row.id));
        stuck.truncate(limit);
        stuck
    }

    fn lives(&self, owner: Epoch) -> bool {
        owner == self.epochs && !self.left
    }

    fn is_adrift(&self, saga: &Saga) -> bool {
        let row = &saga.summary;
        let has_job = || self.jobs.values().any(|job| job.saga == row.id && is_active(job.lease.status));
        saga.is_active() && row.owner.is_none() && row.wake_at.is_none() && !row.paused && !has_job()
    }

    fn queues(&self, status: lease::Status, now: Timestamp, limit: usize) -> Vec<Queue> {
        let mut first: BTreeMap<&str, (Timestamp, i64)> = BTreeMap::new();
        for job in self.jobs.values().filter(|job| job.lease.status == status) {
            let next = (job.lease.until, job.id);
            let first = first.entry(&job.queue).or_insert(next);
            *first = next.min(*first);
        }
        let queue = |(queue, (until, job)): (&str, (Timestamp, i64))| Queue {
            queue: queue.to_owned(),
            job,
            late: now.since(until),
        };
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut is_within = |queue: &Queue| {
            let count = counts.entry(queue.kind().to_owned()).or_default();
            *count += 1;
            *count <= limit
        };
        first.into_iter().map(queue).filter(|queue| is_within(queue)).collect()
    }
}

fn is_active(status: lease::Status) -> bool {
    matches!(status, lease::Status::Pending | lease::Status::Leased)
}
