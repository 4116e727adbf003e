//! A batch of wishes, decided one after another: what is to be written for each, and what each is answered.
//!
//! Nothing here asks a database: whoever does gives what it has read and locked, and writes what comes out.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use backstitch::jobs::{LEASE_EXPIRED, NewJob};
use backstitch::kernel::lease::{self, Lease};
use backstitch::kernel::lifecycle::{self, Decision, Input, Instance, Machine, Recorded, Refused};
use backstitch::outbox::Routes;
use backstitch::{Payload, SagaId, Timestamp};
use tokio::time::Instant;

use super::announcement::{self, Message};
use super::base::Known;
use super::seats::{Seat, Seats};
use super::standing::{Moved, Standing};
use crate::question::tidied;

/// What somebody wants of one key.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) machine: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) input: Input,
    /// The number of the event after which this is meant, and after no other; whichever it is, unless told.
    pub(super) after: Option<u64>,
    /// The id of what may begin with this.
    pub(super) id: SagaId,
    /// The job that this is a report about.
    pub(super) job: Option<Report>,
    /// The place of whoever performed the action, who performs the next one too.
    pub(super) seat: Option<Seat>,
}

impl Ask {
    /// About how much comes with it.
    pub(super) fn bytes(&self) -> usize {
        match &self.input {
            Input::Transition { data: Some(data), .. } | Input::Answered { outcome: Ok(data), .. } => {
                data.len()
            }
            Input::Start(_)
            | Input::Transition { .. }
            | Input::Fail(_)
            | Input::Abandon { .. }
            | Input::PauseExpired { .. }
            | Input::Leased { .. }
            | Input::WorkerTimedOut { .. }
            | Input::Answered { .. } => 0,
        }
    }
}

/// A worker's report, or that there will be none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) job: i64,
    pub(super) token: i64,
    /// Its last lease has run out: nobody brings it back.
    pub(super) is_lost: bool,
}

/// What an ask is answered.
pub(super) type Answer = Result<Moved, NotMoved>;

/// Why nothing was written.
#[derive(Clone, Debug)]
pub(super) enum NotMoved {
    UnknownMachine,
    NothingApplied,
    Refused {
        why: Refused,
        standing: Option<Box<Standing>>,
    },
    /// The report is not about a job that its sender has.
    Job(Option<lease::Refused>),
    /// Something has happened since whoever asks looked.
    MovedOn,
}

/// An action that this process performs.
pub(super) struct Held {
    pub(super) standing: Standing,
    pub(super) machine: Arc<Machine>,
    pub(super) seat: Seat,
    /// From before its claim was asked for: the claim is at least as young.
    pub(super) since: Instant,
}

/// What a batch was decided on.
pub(super) struct Read {
    pub(super) now: Timestamp,
    /// What exists of what is asked about, locked.
    pub(super) standing: HashMap<(Arc<str>, Arc<str>), Standing>,
    /// The versions that new instances take.
    pub(super) active: HashMap<Arc<str>, Option<u32>>,
    /// The jobs that are reported about.
    pub(super) jobs: HashMap<i64, Lease>,
}

/// Who decides.
pub(super) struct Decider<'a> {
    pub(super) known: &'a Known,
    pub(super) seats: &'a Seats,
    pub(super) routes: &'a Routes,
    pub(super) node: &'a str,
    /// How long a claim of an action lasts without a word.
    pub(super) lease: Duration,
    /// When this was asked for.
    pub(super) since: Instant,
}

/// What is to be written.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) rows: Vec<Row>,
    pub(super) events: Vec<(SagaId, Recorded)>,
    pub(super) messages: Vec<Message>,
    pub(super) jobs: Vec<(SagaId, NewJob)>,
    /// Jobs that were reported about.
    pub(super) settled: Vec<(i64, Lease, Option<String>)>,
    /// Jobs that nobody waits for any more, with whoever asked for them.
    pub(super) unwanted: Vec<SagaId>,
}

/// A row as it is to be.
pub(super) struct Row {
    /// The number of the event it was decided after; none for what begins.
    pub(super) expected: Option<u64>,
    pub(super) standing: Standing,
}

/// A batch that was decided.
pub(super) struct Decided {
    pub(super) writes: Writes,
    pub(super) answers: Vec<Answer>,
    pub(super) held: Vec<Held>,
}

/// The queue of jobs that workers of `queue` take.
pub(super) fn queue(queue: &str) -> String {
    format!("{QUEUES}{queue}")
}

/// Why a job ends whose attempt is no longer wanted.
pub(super) const UNWANTED: &str = "nobody waits for it any more";
/// What the queues of lifecycles begin with, beside those of sagas: they are a product's.
pub(super) const QUEUES: &str = "product/lifecycle/";

/// What a job is about.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Offered {
    pub(super) machine: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) entry: u64,
    pub(super) attempt: u32,
}

impl Decider<'_> {
    /// Decides about all of these, in their order.
    pub(super) fn decide(&self, asks: &[Ask], read: Read) -> Decided {
        let mut course = Course {
            decider: self,
            read,
            writes: Writes::default(),
            rows: HashMap::new(),
            held: HashMap::new(),
        };
        let answers = asks.iter().map(|ask| course.take(ask)).collect();
        let Course { mut writes, rows, held, .. } = course;
        writes.rows = rows.into_values().collect();
        // In one order, so that no two batches wait for each other.
        writes.rows.sort_by(|one, other| {
            let key = |row: &Row| (row.standing.machine.clone(), row.standing.key.clone());
            key(one).cmp(&key(other))
        });
        Decided { writes, answers, held: held.into_values().collect() }
    }
}

struct Course<'a> {
    decider: &'a Decider<'a>,
    read: Read,
    writes: Writes,
    rows: HashMap<SagaId, Row>,
    held: HashMap<SagaId, Held>,
}

impl Course<'_> {
    fn take(&mut self, ask: &Ask) -> Answer {
        let place = (ask.machine.clone(), ask.key.clone());
        let before = self.read.standing.get(&place).cloned();
        let seq = before.as_ref().map(|standing| standing.instance.seq);
        if ask.after.is_some() && ask.after != seq {
            return Err(NotMoved::MovedOn);
        }
        let version = match &before {
            Some(standing) => standing.version,
            None => match self.read.active.get(&ask.machine) {
                Some(Some(version)) => *version,
                Some(None) => return Err(NotMoved::NothingApplied),
                None => return Err(NotMoved::UnknownMachine),
            },
        };
        let Some(machine) = self.decider.known.get(&ask.machine, version) else {
            return Err(NotMoved::UnknownMachine);
        };
        let lease = match ask.job {
            Some(report) => Some(self.report(report, ask)?),
            None => None,
        };
        let instance = before.as_ref().map(|standing| &standing.instance);
        let decision = lifecycle::decide(&machine, &ask.key, instance, ask.input.clone(), self.read.now)
            .map_err(|why| NotMoved::Refused { why, standing: before.clone().map(Box::new) })?;
        if let (Some(report), Some(lease)) = (ask.job, lease) {
            self.read.jobs.insert(report.job, lease.clone());
            self.writes.settled.push((report.job, lease, reported_error(report, &ask.input)));
        }
        Ok(self.keep(ask, &machine, before.as_ref(), decision))
    }

    /// What a report makes of its job.
    fn report(&self, report: Report, ask: &Ask) -> Result<Lease, NotMoved> {
        let lease = self.read.jobs.get(&report.job).ok_or(NotMoved::Job(None))?;
        if report.is_lost {
            let lost = lease.expire(self.read.now).filter(|next| next.status == lease::Status::Failed);
            let lost = lost.filter(|next| next.token == report.token);
            return lost.ok_or(NotMoved::Job(Some(lease::Refused::Unavailable)));
        }
        let failed = matches!(&ask.input, Input::Answered { outcome: Err(_), .. });
        let next = if failed { lease.fail(report.token, None) } else { lease.complete(report.token) };
        next.map_err(|why| NotMoved::Job(Some(why)))
    }

    fn keep(
        &mut self,
        ask: &Ask,
        machine: &Arc<Machine>,
        before: Option<&Standing>,
        decision: Decision,
    ) -> Moved {
        let Decision { from, events, instance, offer } = decision;
        let expected = before.map(|standing| standing.instance.seq);
        let changes_place = before.is_none_or(|before| {
            before.instance.entry != instance.entry || before.instance.failures != instance.failures
        });
        if changes_place
            && let Some(before) = before
            && machine.outside(&before.instance.state).is_some()
        {
            self.writes.unwanted.push(before.id);
        }
        let mut standing = match before {
            Some(before) => before.after(machine, instance),
            None => begun(ask, machine, instance, self.read.now),
        };
        if changes_place {
            self.hold(ask, machine, &mut standing);
        }
        if matches!(ask.input, Input::Leased { .. }) {
            // A process may have claimed the end of the wait for a worker: that has not come.
            standing.holder = None;
            standing.instance.token += 1;
        }
        if let Some(offer) = offer {
            self.writes.jobs.push(job(&standing, &offer));
        }
        for recorded in &events {
            self.writes.messages.extend(announcement::of(machine, self.decider.routes, &standing, recorded));
            self.writes.events.push((standing.id, recorded.clone()));
        }
        let row = Row { expected, standing: standing.clone() };
        // What is decided twice in one batch was read once.
        let expected = self.rows.get(&standing.id).map_or(expected, |earlier| earlier.expected);
        self.rows.insert(standing.id, Row { expected, ..row });
        self.read.standing.insert((ask.machine.clone(), ask.key.clone()), standing.clone());
        Moved { from, standing, events }
    }

    /// Keeps an action that is due now for this process, if it has room for it: nobody has to look for it then.
    fn hold(&mut self, ask: &Ask, machine: &Arc<Machine>, standing: &mut Standing) {
        self.held.remove(&standing.id);
        let state = &standing.instance.state;
        let performer = machine.action(state).and_then(|action| action.performer.as_ref());
        let is_ours = performer.is_some_and(|performer| performer.queue().is_none());
        let is_due = standing.instance.due_at.is_some_and(|due| due <= self.read.now);
        if !is_ours || !is_due || self.decider.seats.are_closed() {
            return;
        }
        let Some(seat) = ask.seat.clone().or_else(|| self.decider.seats.take(&standing.machine)) else {
            return;
        };
        standing.instance.token += 1;
        standing.instance.due_at = Some(self.read.now.plus(self.decider.lease));
        standing.holder = Some(self.decider.node.to_owned());
        let held =
            Held { standing: standing.clone(), machine: machine.clone(), seat, since: self.decider.since };
        self.held.insert(standing.id, held);
    }
}

fn begun(ask: &Ask, machine: &Machine, instance: Instance, now: Timestamp) -> Standing {
    Standing {
        id: ask.id,
        machine: ask.machine.clone(),
        key: ask.key.clone(),
        version: machine.version(),
        ended: instance.has_ended(machine),
        created_at: now,
        stuck_at: instance.stuck_at(machine),
        instance,
        holder: None,
        interruptions: 0,
    }
}

/// The jobs that are reported about.
pub(super) fn reported_jobs(asks: &[Ask]) -> Vec<i64> {
    let jobs: BTreeSet<i64> = asks.iter().filter_map(|ask| ask.job.map(|report| report.job)).collect();
    jobs.into_iter().collect()
}

/// An attempt for an outside worker.
fn job(standing: &Standing, offer: &lifecycle::Offer) -> (SagaId, NewJob) {
    let Standing { id, machine, key, instance, .. } = standing;
    let offered =
        Offered { machine: machine.clone(), key: key.clone(), entry: instance.entry, attempt: offer.attempt };
    let job = NewJob {
        queue: queue(&offer.queue),
        subject: format!("{}@{}", instance.entry, offer.attempt),
        // Names and numbers have a JSON form.
        payload: Payload::encode(&offered).unwrap_or_else(|_| Payload::null()),
        due_at: offer.due_at,
        alert: None,
    };
    (*id, job)
}

fn reported_error(report: Report, input: &Input) -> Option<String> {
    match input {
        _ if report.is_lost => Some(LEASE_EXPIRED.to_owned()),
        Input::Answered { outcome: Err(error), .. } => Some(tidied(&error.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use backstitch::jobs::PRODUCT_QUEUES;

    use super::*;

    #[test]
    fn only_lifecycles_fail_their_jobs_after_the_last_lease() {
        assert!(queue("drivers").starts_with(PRODUCT_QUEUES));
    }
}
