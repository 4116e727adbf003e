//! A store that lives and dies with the process: for tests, and for sagas that need not survive it.

mod outbox;
mod survey;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::idempotency::{self, Digest};
use backstitch_kernel::lease::{self, Lease};
use backstitch_kernel::saga::{Event, Recorded, Status, codec};
use backstitch_kernel::{Payload, SagaId, Timestamp};

use super::declared::{Collected, Declared, InFlight, Version};
use super::jobs::{
    Answer, Job, LEASE_EXPIRED, Leased, Leasing, NewJob, OUTSIDE, Report as JobReport, Settled, Settlement,
    WITHDRAWN, Withdrawal,
};
use super::nodes::{AdoptedBatch, AdoptedSaga, Epoch, Joined, Known, Node, Registered};
use super::outbox::{
    ALERTS, Ages, Kept, Listing, NewMessage, Outgoing, Publication, Published, Rescued, Retried, Sent, Share,
    Waiting,
};
use super::retention::{Bulk, Gone, Key, KeyName, OldKeys, OldMessages, OldSagas};
use super::survey::Survey;
use super::{
    COUNTED, Claim, Commit, Counts, Cursor, Error, Filter, LogHead, NewRow, Page, RowWrite, Store, Stored,
    Summary, Unregistered, Verdict, Writers,
};
use crate::clock::Clock;
use crate::inbox::{Message, Posted, Received};
use outbox::Outbox;

/// Keeps everything in memory.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    sagas: BTreeMap<SagaId, Saga>,
    definitions: BTreeMap<(Arc<str>, u32), KeptDefinition>,
    /// By name: the active version and the staged one.
    declared: BTreeMap<Arc<str>, (Option<u32>, Option<u32>)>,
    ledger: HashMap<(String, String), Entry>,
    jobs: BTreeMap<i64, Job>,
    /// The highest number of a job so far: none is given twice.
    job_numbers: i64,
    /// What to tell if a job is given up.
    alerts: BTreeMap<i64, Payload>,
    outbox: Outbox,
    epochs: Epoch,
    left: bool,
    /// The newest incarnation.
    joined: Option<Joined>,
}

struct Saga {
    summary: Summary,
    attributes: BTreeMap<String, String>,
    log: Vec<Recorded>,
    inbox: Vec<Received>,
    inbox_seq: u64,
}

struct KeptDefinition {
    definition: Registered,
    at: Timestamp,
}

struct Entry {
    saga: SagaId,
    digest: Digest,
    at: Timestamp,
}

impl Entry {
    fn shown(&self, scope: &str, key: &str) -> Key {
        Key {
            scope: scope.to_owned(),
            key: key.to_owned(),
            digest: self.digest,
            state: "accepted".to_owned(),
            result: None,
            at: self.at,
            saga: Some(self.saga),
        }
    }
}

impl MemoryStore {
    /// An empty store that tells due times by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, tables: Mutex::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Nothing here panics half-way through a change, so a poisoned lock still guards whole tables.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Keeps a version of a declared definition; the standing of its name, unless it is not the next version or the name
    /// belongs to a program's code.
    fn keep_declared(
        &mut self,
        definition: &Registered,
        at: Timestamp,
    ) -> Option<&mut (Option<u32>, Option<u32>)> {
        let Registered { name, version, .. } = definition;
        let versions =
            self.definitions.keys().filter(|(known, _)| known == name).map(|(_, version)| *version);
        let next = versions.max().unwrap_or(0) + 1;
        if *version != next || (next > 1 && !self.declared.contains_key(name)) {
            return None;
        }
        self.definitions
            .insert((name.clone(), *version), KeptDefinition { definition: definition.clone(), at });
        Some(self.declared.entry(name.clone()).or_default())
    }

    fn commit(&mut self, commit: &Commit) -> Verdict {
        if let Some(verdict) = commit.claim.as_ref().and_then(|claim| self.judge(claim)) {
            return verdict;
        }
        let Some(first) = commit.events.first() else {
            return Verdict::Fenced;
        };
        let head = self.sagas.get(&commit.saga).map_or(0, |saga| saga.log.len() as u64);
        if first.seq != head + 1 {
            return Verdict::Fenced;
        }
        match (&commit.row, self.sagas.get_mut(&commit.saga)) {
            (Some(RowWrite::Insert(row)), None) => {
                self.sagas.insert(commit.saga, Saga::new(commit.saga, row));
            }
            (Some(RowWrite::Insert(_)), Some(_)) | (_, None) => return Verdict::Fenced,
            (row, Some(saga)) if !saga.takes(row.as_ref()) => return Verdict::Fenced,
            (Some(RowWrite::Update(update)), Some(saga)) => {
                if update.inbox_seen.is_some_and(|seen| seen != saga.inbox_seq) {
                    return Verdict::MailWaiting;
                }
                let row = &mut saga.summary;
                row.status = update.status;
                row.paused = update.paused;
                row.failed_step.clone_from(&update.failed_step);
                row.owner = update.owner;
                row.wake_at = update.wake_at;
                row.updated_at = update.updated_at;
            }
            (None, Some(_)) => {}
        }
        if let Some(saga) = self.sagas.get_mut(&commit.saga) {
            saga.log.extend(commit.events.iter().cloned());
            if let Some(through) = commit.consume_inbox_through {
                saga.inbox.retain(|received| received.seq > through);
            }
        }
        if let Some(claim) = &commit.claim {
            let entry = Entry { saga: commit.saga, digest: claim.digest, at: first.at };
            self.ledger.insert((claim.scope.clone(), claim.key.clone()), entry);
        }
        for job in self.jobs.values_mut().filter(|job| job.saga == commit.saga) {
            if job.lease.status == lease::Status::Pending && commit.withdrawn_jobs.contains(&job.subject) {
                job.lease.status = lease::Status::Failed;
                job.last_error = Some(WITHDRAWN.to_owned());
            }
        }
        for job in &commit.jobs {
            self.ask_for(commit.saga, job);
        }
        for message in &commit.messages {
            self.outbox.enqueue(message, None, first.at);
        }
        Verdict::Applied
    }

    fn judge(&self, claim: &Claim) -> Option<Verdict> {
        let entry = self.ledger.get(&(claim.scope.clone(), claim.key.clone()));
        match (idempotency::judge(entry.map(|entry| &entry.digest), &claim.digest), entry) {
            (idempotency::Verdict::Replay, Some(entry)) => Some(Verdict::Replay(entry.saga)),
            (idempotency::Verdict::Conflict, Some(entry)) => {
                Some(Verdict::Conflict { saga: entry.saga, digest: entry.digest, at: entry.at })
            }
            _ => None,
        }
    }

    /// Whether it has been at this end for longer than `age` and has nothing left to do.
    fn may_go(&self, saga: &Saga, status: Status, age: Duration, now: Timestamp) -> bool {
        let row = &saga.summary;
        let is_open = |job: &Job| matches!(job.lease.status, lease::Status::Pending | lease::Status::Leased);
        row.status == status
            && row.updated_at.plus(age) < now
            && !self.jobs.values().any(|job| job.saga == row.id && is_open(job))
    }

    /// The job that is already under way stands for a repeated one.
    fn ask_for(&mut self, saga: SagaId, job: &NewJob) {
        let active = self.jobs.values().any(|known| {
            known.saga == saga
                && known.subject == job.subject
                && matches!(known.lease.status, lease::Status::Pending | lease::Status::Leased)
        });
        if !active {
            self.job_numbers += 1;
            let id = self.job_numbers;
            self.alerts.extend(job.alert.clone().map(|alert| (id, alert)));
            let job = Job {
                id,
                saga,
                queue: job.queue.clone(),
                subject: job.subject.clone(),
                payload: job.payload.clone(),
                lease: Lease::due_at(job.due_at),
                last_error: None,
            };
            self.jobs.insert(id, job);
        }
    }

    fn tell_if_given_up(&mut self, job: i64, now: Timestamp) {
        let given_up = self.jobs.get(&job).filter(|job| job.lease.status == lease::Status::Failed);
        let Some((job, alert)) = given_up.zip(self.alerts.get(&job)) else {
            return;
        };
        let Ok(serde_json::Value::Object(mut body)) = alert.decode() else {
            return;
        };
        body.insert("error".to_owned(), job.last_error.clone().into());
        let message = NewMessage {
            topic: ALERTS.to_owned(),
            idempotency_key: format!("job:{}", job.id),
            ordering_key: None,
            payload: Payload::encode(&body).unwrap_or_else(|_| alert.clone()),
            expires_at: None,
        };
        self.outbox.enqueue(&message, None, now);
    }

    fn post(&mut self, saga: SagaId, message: &Message, at: Timestamp) -> Posted {
        let Some(saga) = self.sagas.get_mut(&saga) else {
            return Posted::Unknown;
        };
        if !saga.is_active() {
            return Posted::Ended(saga.summary.status);
        }
        saga.inbox_seq += 1;
        saga.inbox.push(Received { seq: saga.inbox_seq, message: message.clone() });
        saga.summary.wake_at = Some(at);
        Posted::Accepted
    }
}

impl Saga {
    fn new(id: SagaId, row: &NewRow) -> Self {
        let summary = Summary {
            id,
            definition: row.definition.clone(),
            version: row.version,
            status: row.status,
            paused: false,
            failed_step: row.failed_step.clone(),
            stuck: None,
            owner: row.owner,
            wake_at: row.wake_at,
            correlation_id: row.correlation_id.clone(),
            created_at: row.created_at,
            updated_at: row.created_at,
        };
        Self { summary, attributes: row.attributes.clone(), log: Vec::new(), inbox: Vec::new(), inbox_seq: 0 }
    }

    fn is_active(&self) -> bool {
        !self.summary.status.is_terminal()
    }

    /// Whether a decision with this row can follow: nothing follows a good end, and only a new try a failed rollback.
    fn takes(&self, row: Option<&RowWrite>) -> bool {
        match self.summary.status {
            Status::Pending | Status::Running | Status::Compensating => true,
            Status::Failed => {
                matches!(row, Some(RowWrite::Update(update)) if update.status == Status::Compensating)
            }
            Status::Succeeded | Status::Compensated => false,
        }
    }

    fn is_of(&self, known: &[Known]) -> bool {
        let row = &self.summary;
        known.iter().any(|known| known.version == row.version && known.name == row.definition)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.summary.wake_at.is_some_and(|wake_at| wake_at <= now)
    }

    fn matches(&self, filter: &Filter) -> bool {
        let row = &self.summary;
        filter.status.is_none_or(|status| status == row.status)
            && filter.definition.as_deref().is_none_or(|definition| definition == &*row.definition)
            && filter.correlation_id.as_ref().is_none_or(|id| Some(id) == row.correlation_id.as_ref())
            && filter.attributes.iter().all(|(name, value)| self.attributes.get(name) == Some(value))
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn writers(&self) -> Writers {
        Writers::Tasks(1)
    }

    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        let mut tables = self.tables();
        Ok(batch.iter().map(|commit| tables.commit(commit)).collect())
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        let tables = self.tables();
        let found = sagas.iter().filter_map(|id| tables.sagas.get(id));
        Ok(found
            .map(|saga| Stored {
                summary: saga.summary.clone(),
                log: saga.log.clone(),
                inbox: saga.inbox.clone(),
                inbox_seq: saga.inbox_seq,
            })
            .collect())
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        let tables = self.tables();
        let log = tables.sagas.get(&saga).map_or(&[][..], |saga| &saga.log);
        Ok(log.iter().filter(|recorded| recorded.seq > after).take(limit).cloned().collect())
    }

    async fn durable_log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.log(saga, after, limit).await
    }

    async fn heads(&self, logs: &[SagaId]) -> Result<Vec<LogHead>, Error> {
        let tables = self.tables();
        let heads = logs.iter().filter_map(|id| {
            let saga = tables.sagas.get(id)?;
            Some(LogHead { log: *id, seq: saga.log.len() as u64 })
        });
        Ok(heads.collect())
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        let tables = self.tables();
        let older =
            tables.sagas.iter().rev().filter(|(id, _)| cursor.before.is_none_or(|before| **id < before));
        let mut items: Vec<Summary> = older
            .filter(|(_, saga)| saga.matches(filter))
            .take(cursor.limit + 1)
            .map(|(_, saga)| saga.summary.clone())
            .collect();
        let more = items.len() > cursor.limit;
        items.truncate(cursor.limit);
        let next = items.last().map(|row| row.id).filter(|_| more);
        Ok(Page { items, next })
    }

    async fn rows(&self, sagas: &[SagaId]) -> Result<Vec<Summary>, Error> {
        let tables = self.tables();
        Ok(sagas.iter().filter_map(|id| Some(tables.sagas.get(id)?.summary.clone())).collect())
    }

    async fn counts(&self, known: &[Known]) -> Result<Counts, Error> {
        let now = self.clock.now();
        let tables = self.tables();
        let mut counts = Counts::default();
        let mut waiting: BTreeMap<(String, u32), u64> = BTreeMap::new();
        for saga in tables.sagas.values() {
            let row = &saga.summary;
            if matches!(row.status, Status::Succeeded | Status::Compensated) {
                continue;
            }
            *counts.active.entry(row.status).or_default() += 1;
            // An owner of an earlier life is as good as none.
            let left = row.owner.map_or(saga.is_due(now), |owner| owner != tables.epochs);
            if saga.is_active() && left && !saga.is_of(known) {
                *waiting.entry((row.definition.to_string(), row.version)).or_default() += 1;
            }
        }
        for count in counts.active.values_mut() {
            *count = (*count).min(COUNTED + 1);
        }
        counts.unregistered = waiting
            .into_iter()
            .map(|((definition, version), sagas)| Unregistered {
                definition,
                version,
                sagas: sagas.min(COUNTED + 1),
            })
            .collect();
        Ok(counts)
    }

    async fn stuck(&self, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error> {
        Ok(self.tables().stuck(since, limit))
    }

    async fn survey(&self, limit: usize) -> Result<Survey, Error> {
        Ok(self.tables().survey(self.clock.now(), limit))
    }

    async fn nodes(&self, limit: usize) -> Result<Vec<Joined>, Error> {
        let tables = self.tables();
        Ok(tables.joined.iter().filter(|_| !tables.left).take(limit).cloned().collect())
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        let now = self.clock.now();
        let mut tables = self.tables();
        tables.epochs += 1;
        tables.left = false;
        tables.joined = Some(Joined {
            epoch: tables.epochs,
            name: node.name.clone(),
            started_at: now,
            heartbeat_at: now,
            lives: true,
        });
        Ok(tables.epochs)
    }

    async fn probe(&self, _: bool) -> Result<(), Error> {
        // The store runs in this process: it cannot stop answering alone.
        Ok(())
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        // Only one engine can have this store, so only the newest incarnation lives.
        let now = self.clock.now();
        let mut tables = self.tables();
        let lives = tables.epochs == epoch && !tables.left;
        if let Some(joined) = tables.joined.as_mut().filter(|_| lives) {
            joined.heartbeat_at = now;
        }
        Ok(lives)
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        let now = self.clock.now();
        let mut tables = self.tables();
        tables.left |= tables.epochs == epoch;
        for saga in tables.sagas.values_mut() {
            if saga.summary.owner == Some(epoch) && saga.is_active() {
                saga.summary.owner = None;
                saga.summary.wake_at = Some(now);
            }
        }
        Ok(())
    }

    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<AdoptedBatch, Error> {
        let now = self.clock.now();
        let mut adopted = Vec::new();
        let mut tables = self.tables();
        let Tables { sagas, outbox, .. } = &mut *tables;
        for (id, saga) in sagas {
            if adopted.len() == limit {
                break;
            }
            let free = match saga.summary.owner {
                Some(owner) => owner != epoch,
                None => saga.is_due(now),
            };
            if !(free && saga.is_active() && saga.is_of(known)) {
                continue;
            }
            let mut appended = None;
            // A saga without an owner was released by it: there is no decision of an old owner to keep out.
            if saga.summary.owner.is_some() {
                let at = saga.log.last().map_or(at, |head| head.at.max(at));
                let event = Event::SagaAdopted { node: node.name.clone(), epoch };
                let recorded = Recorded { seq: saga.log.len() as u64 + 1, at, event };
                if let Some(message) = node.announced.message(*id, &saga.summary.definition, &recorded) {
                    outbox.enqueue(&message, None, at);
                }
                appended = Some(recorded.seq);
                saga.log.push(recorded);
            }
            saga.summary.owner = Some(epoch);
            saga.summary.wake_at = None;
            adopted.push(AdoptedSaga { id: *id, seq: appended });
        }
        let more = adopted.len() == limit;
        Ok(AdoptedBatch { sagas: adopted, more })
    }

    async fn let_go(
        &self,
        saga: SagaId,
        epoch: Epoch,
        seq: u64,
        wake_at: Option<Timestamp>,
        inbox_seen: u64,
    ) -> Result<bool, Error> {
        let mut tables = self.tables();
        let ours = tables.sagas.get_mut(&saga);
        let ours = ours.filter(|saga| {
            saga.summary.owner == Some(epoch) && saga.log.len() as u64 == seq && saga.inbox_seq == inbox_seen
        });
        Ok(ours.is_some_and(|saga| {
            saga.summary.owner = None;
            saga.summary.wake_at = wake_at;
            saga.inbox.clear();
            true
        }))
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        let tables = self.tables();
        let mine = tables.sagas.values().filter(|saga| saga.summary.owner == Some(epoch));
        Ok(mine.map(|saga| saga.summary.id).collect())
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        let tables = self.tables();
        let unowned = tables.sagas.values().filter(|saga| saga.is_active() && saga.summary.owner.is_none());
        Ok(unowned.filter(|saga| saga.is_of(known)).filter_map(|saga| saga.summary.wake_at).min())
    }

    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        Ok(self.tables().post(saga, message, at))
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error> {
        let tables = self.tables();
        let mine = tables.sagas.iter().filter(|(_, saga)| saga.summary.owner == Some(epoch));
        Ok(mine.filter_map(|(id, saga)| Some((*id, saga.inbox.last()?.seq))).collect())
    }

    async fn register(&self, definition: &Registered) -> Result<Registered, Error> {
        let at = self.clock.now();
        let key = (definition.name.clone(), definition.version);
        let mut tables = self.tables();
        let kept = tables
            .definitions
            .entry(key)
            .or_insert_with(|| KeptDefinition { definition: definition.clone(), at });
        Ok(kept.definition.clone())
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
        let tables = self.tables();
        let definitions = tables.definitions.values().map(|kept| &kept.definition);
        let versions = definitions.filter(|definition| {
            &*definition.name == name && version.is_none_or(|version| version == definition.version)
        });
        Ok(versions.max_by_key(|definition| definition.version).cloned())
    }

    async fn stage(&self, definition: &Registered) -> Result<bool, Error> {
        let (at, version) = (self.clock.now(), definition.version);
        let standing = self.tables().keep_declared(definition, at).map(|(_, staged)| *staged = Some(version));
        Ok(standing.is_some())
    }

    async fn activate(&self, definition: &Registered) -> Result<bool, Error> {
        let (at, version) = (self.clock.now(), definition.version);
        let becomes = (Some(version), None);
        Ok(self.tables().keep_declared(definition, at).map(|standing| *standing = becomes).is_some())
    }

    async fn apply_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        let mut tables = self.tables();
        let Some((active, staged)) = tables.declared.get_mut(name) else { return Ok(None) };
        let applied = staged.take_if(|staged| expected.is_none_or(|expected| expected == *staged));
        *active = applied.or(*active);
        Ok(applied)
    }

    async fn discard_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        let meant = |staged: &mut u32| expected.is_none_or(|expected| expected == *staged);
        Ok(self.tables().declared.get_mut(name).and_then(|(_, staged)| staged.take_if(meant)))
    }

    async fn declared(&self, name: Option<&str>) -> Result<Vec<Declared>, Error> {
        let tables = self.tables();
        let mut found = Collected::default();
        for (known, (active, staged)) in &tables.declared {
            if name.is_none_or(|name| name == &**known) {
                let versions = tables.definitions.values().filter(|kept| kept.definition.name == *known);
                for kept in versions {
                    let version = Version { number: kept.definition.version, created_at: kept.at };
                    found.add(known, *active, *staged, version);
                }
            }
        }
        Ok(found.all())
    }

    async fn durably_declared(&self, name: &str) -> Result<Option<Declared>, Error> {
        Ok(self.declared(Some(name)).await?.pop())
    }

    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        let tables = self.tables();
        let mut versions: BTreeMap<u32, u64> = BTreeMap::new();
        let unfinished = tables.sagas.values().filter(|saga| saga.is_active());
        for saga in unfinished.filter(|saga| &*saga.summary.definition == definition) {
            *versions.entry(saga.summary.version).or_default() += 1;
        }
        let counted = |(version, sagas): (u32, u64)| InFlight { version, sagas: sagas.min(COUNTED + 1) };
        Ok(versions.into_iter().map(counted).collect())
    }

    async fn lease_jobs(&self, queues: &[String], lease: Duration, limit: usize) -> Result<Leasing, Error> {
        let now = self.clock.now();
        let mut tables = self.tables();
        let Tables { jobs, sagas, .. } = &mut *tables;
        let mine = jobs.values_mut().filter(|job| queues.contains(&job.queue));
        // A saga that is paused starts nothing: no worker gets what waits for one.
        let rests = |job: &Job| {
            let paused = |saga: &Saga| saga.is_active() && saga.summary.paused;
            job.queue.starts_with(OUTSIDE) && sagas.get(&job.saga).is_some_and(paused)
        };
        let mut leased = Vec::new();
        let mut expired_jobs = Vec::new();
        let mut lost = Vec::new();
        for job in mine {
            let is_for_us = |lease: &Lease| lease.status != lease::Status::Failed || !job.is_of_a_product();
            if let Some(expired) = job.lease.expire(now).filter(is_for_us) {
                job.last_error = Some(LEASE_EXPIRED.to_owned());
                job.lease = expired;
                expired_jobs.push(job.id);
                if job.lease.status == lease::Status::Failed {
                    lost.extend(job.lost().map(|message| (job.saga, message)));
                }
            }
            if leased.len() < limit
                && !rests(job)
                && let Ok(taken) = job.lease.lease(lease, now)
            {
                job.lease = taken;
                leased.push(Leased { job: job.clone() });
            }
        }
        for job in expired_jobs {
            tables.tell_if_given_up(job, now);
        }
        for Leased { job } in &leased {
            if let Some(message) = job.taken(now) {
                tables.post(job.saga, &message, now);
            }
        }
        lost.retain(|(saga, message)| tables.post(*saga, message, now) == Posted::Accepted);
        Ok(Leasing { leased, told: lost.into_iter().map(|(saga, _)| saga).collect() })
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        let now = self.clock.now();
        let mut tables = self.tables();
        Ok(settlements
            .iter()
            .map(|settlement| {
                let unknown = backstitch_kernel::lease::Refused::Unavailable;
                let job = tables.jobs.get_mut(&settlement.id).ok_or(unknown)?;
                job.lease = match &settlement.report {
                    JobReport::Completed => job.lease.complete(settlement.token)?,
                    JobReport::StillWorking { lease } => {
                        job.lease.heartbeat(settlement.token, *lease, now)?
                    }
                    JobReport::GivenBack => job.lease.give_back(settlement.token, now)?,
                    JobReport::Failed { error, retry_after } => {
                        let due = retry_after.map(|wait| now.plus(wait));
                        let failed = job.lease.fail(settlement.token, due)?;
                        job.last_error = Some(error.clone());
                        failed
                    }
                };
                tables.tell_if_given_up(settlement.id, now);
                Ok(())
            })
            .collect())
    }

    async fn answer_job(&self, answer: &Answer, at: Timestamp) -> Result<Settled, Error> {
        let now = self.clock.now();
        let mut tables = self.tables();
        let Some(job) = tables.jobs.get_mut(&answer.id) else {
            return Ok(Err(lease::Refused::Unavailable));
        };
        let settled = match answer.error {
            None => job.lease.complete(answer.token),
            Some(_) => job.lease.fail(answer.token, None),
        };
        job.lease = match settled {
            Ok(settled) => settled,
            Err(refused) => return Ok(Err(refused)),
        };
        if answer.error.is_some() {
            job.last_error.clone_from(&answer.error);
        }
        let saga = job.saga;
        tables.tell_if_given_up(answer.id, now);
        tables.post(saga, &answer.message, at);
        Ok(Ok(()))
    }

    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
        let now = self.clock.now();
        let mut tables = self.tables();
        let found = tables.jobs.values_mut().find(|job| {
            let lease = &job.lease;
            let nobody_has_it = match lease.status {
                lease::Status::Pending => true,
                lease::Status::Leased => lease.until <= now,
                lease::Status::Completed | lease::Status::Failed => false,
            };
            job.saga == withdrawal.saga && job.subject == withdrawal.subject && nobody_has_it
        });
        let Some(job) = found else { return Ok(false) };
        job.lease.status = lease::Status::Failed;
        job.last_error = Some(WITHDRAWN.to_owned());
        let token = job.lease.token;
        tables.post(withdrawal.saga, withdrawal.message(token), at);
        Ok(true)
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        Ok(self.tables().jobs.get(&id).cloned())
    }

    async fn publish(&self, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Error> {
        let outbox = &mut self.tables().outbox;
        Ok(batch.iter().map(|publication| outbox.publish(publication, at)).collect())
    }

    async fn waiting_topics(&self) -> Result<Vec<Waiting>, Error> {
        Ok(self.tables().outbox.waiting(self.clock.now()))
    }

    async fn claim_outbox(&self, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error> {
        let now = self.clock.now();
        let outbox = &mut self.tables().outbox;
        Ok(shares.iter().flat_map(|share| outbox.claim(share, sender, now)).collect())
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        let now = self.clock.now();
        let outbox = &mut self.tables().outbox;
        for sent in sent {
            outbox.settle(sent, now);
        }
        Ok(())
    }

    async fn rescue_outbox(&self, limit: usize) -> Result<Rescued, Error> {
        Ok(self.tables().outbox.rescue(limit, self.clock.now()))
    }

    async fn old_sagas(
        &self,
        status: Status,
        age: Duration,
        after: Option<SagaId>,
        limit: usize,
    ) -> Result<OldSagas, Error> {
        let now = self.clock.now();
        let tables = self.tables();
        let behind = tables
            .sagas
            .iter()
            .filter(|(id, saga)| saga.summary.status == status && after.is_none_or(|after| **id > after));
        let page: Vec<&Saga> = behind.map(|(_, saga)| saga).take(limit).collect();
        let old = page.iter().filter(|saga| tables.may_go(saga, status, age, now));
        let old = old.map(|saga| saga.summary.id).collect();
        let last = page.last().filter(|saga| page.len() == limit && saga.summary.created_at.plus(age) < now);
        Ok(OldSagas { old, next: last.map(|saga| saga.summary.id) })
    }

    async fn bulk_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error> {
        let tables = self.tables();
        let bulk = |id: &SagaId| {
            let log = &tables.sagas.get(id)?.log;
            let bytes = log.iter().filter_map(|recorded| codec::data(&recorded.event));
            let bytes = bytes.map(|data| data.len() as u64).sum();
            Some((*id, Bulk { rows: log.len() as u64, bytes }))
        };
        Ok(sagas.iter().filter_map(bulk).collect())
    }

    async fn keys_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<Key>, Error> {
        let tables = self.tables();
        let of_these = tables.ledger.iter().filter(|(_, entry)| sagas.contains(&entry.saga));
        let mut keys: Vec<Key> = of_these.map(|((scope, key), entry)| entry.shown(scope, key)).collect();
        keys.sort_by(|a, b| (&a.scope, &a.key).cmp(&(&b.scope, &b.key)));
        Ok(keys)
    }

    async fn remove_sagas(&self, sagas: &[SagaId], status: Status, age: Duration) -> Result<Gone, Error> {
        let now = self.clock.now();
        let mut tables = self.tables();
        let mut gone = Gone::default();
        for id in sagas {
            if !tables.sagas.get(id).is_some_and(|saga| tables.may_go(saga, status, age, now)) {
                continue;
            }
            gone.sagas += 1;
            gone.events += tables.sagas.remove(id).map_or(0, |saga| saga.log.len() as u64);
            let (keys, jobs) = (tables.ledger.len(), tables.jobs.len());
            tables.ledger.retain(|_, entry| entry.saga != *id);
            tables.jobs.retain(|_, job| job.saga != *id);
            gone.keys += (keys - tables.ledger.len()) as u64;
            gone.jobs += (jobs - tables.jobs.len()) as u64;
        }
        Ok(gone)
    }

    async fn old_messages(
        &self,
        status: super::outbox::Status,
        age: Duration,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<OldMessages, Error> {
        let now = self.clock.now();
        let is_old = |at| outbox::is_older(at, age, now);
        Ok(self.tables().outbox.old(status, &is_old, besides, after, limit))
    }

    async fn remove_messages(&self, messages: &[i64]) -> Result<u64, Error> {
        Ok(self.tables().outbox.remove(messages))
    }

    async fn old_keys(&self, age: Duration, after: Option<&KeyName>, limit: usize) -> Result<OldKeys, Error> {
        Ok(self.tables().outbox.old_keys(age, after, limit, self.clock.now()))
    }

    async fn remove_keys(&self, keys: &[KeyName]) -> Result<u64, Error> {
        Ok(self.tables().outbox.remove_keys(keys))
    }

    async fn message(&self, id: i64) -> Result<Option<Kept>, Error> {
        Ok(self.tables().outbox.get(id))
    }

    async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error> {
        Ok(self.tables().outbox.newest(topic, key))
    }

    async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error> {
        Ok(self.tables().outbox.list(listing, limit))
    }

    async fn retry_message(&self, id: i64, at: Timestamp) -> Result<Retried, Error> {
        Ok(self.tables().outbox.retry(id, at))
    }

    async fn outbox_ages(&self) -> Result<Ages, Error> {
        Ok(self.tables().outbox.ages())
    }
}
