//! A batch of decisions as the statement takes it: an array for each column of each table.

use std::time::SystemTime;

use backstitch_kernel::saga::{Recorded, codec};
use backstitch_kernel::{Payload, StepId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::commit_statement::Shape;
use super::values::{is_text, time};
use crate::store::{Claim, Commit, NewRow, RowUpdate, RowWrite, Verdict};

/// Why a decision need not be sent at all.
pub(super) fn judged_unsent(commit: &Commit) -> Option<Verdict> {
    let Some(first) = commit.events.first() else {
        return Some(Verdict::Fenced);
    };
    // A log begins with its row, and only a log that has begun goes on.
    if matches!(commit.row, Some(RowWrite::Insert(_))) != (first.seq == 1) {
        return Some(Verdict::Fenced);
    }
    refusal(commit).map(Verdict::Refused)
}

/// What of a decision no column can hold. Events' data and payloads are JSON, which has no such character.
fn refusal(commit: &Commit) -> Option<String> {
    let mut texts: Vec<(&str, &str)> = Vec::new();
    for recorded in &commit.events {
        if i32::try_from(recorded.seq).is_err()
            || recorded.event.attempt().is_some_and(|it| int(it).is_none())
        {
            return Some("the log or the attempts of the saga exceed two billion".to_owned());
        }
        texts.extend(recorded.event.step().map(|step| ("a step's id", step.as_str())));
    }
    match &commit.row {
        Some(RowWrite::Insert(row)) => {
            if int(row.version).is_none() {
                return Some("the version of the definition exceeds two billion".to_owned());
            }
            texts.push(("the name of the definition", &row.definition));
            texts.extend(row.failed_step.as_ref().map(|step| ("a step's id", step.as_str())));
            texts.extend(row.correlation_id.as_deref().map(|id| ("the correlation id", id)));
            for (name, value) in &row.attributes {
                texts.push(("the name of an attribute", name));
                texts.push(("the value of an attribute", value));
            }
        }
        Some(RowWrite::Update(row)) => {
            texts.extend(row.failed_step.as_ref().map(|step| ("a step's id", step.as_str())));
        }
        None => {}
    }
    if let Some(claim) = &commit.claim {
        texts.push(("the scope of the idempotency key", &claim.scope));
        texts.push(("the idempotency key", &claim.key));
    }
    for job in &commit.jobs {
        texts.push(("the queue of a job", &job.queue));
        texts.push(("the subject of a job", &job.subject));
    }
    texts.extend(commit.withdrawn_jobs.iter().map(|subject| ("the subject of a job", subject.as_str())));
    for message in &commit.messages {
        texts.push(("the topic of a message", &message.topic));
        texts.push(("the idempotency key of a message", &message.idempotency_key));
        texts.extend(message.ordering_key.as_deref().map(|key| ("the ordering key of a message", key)));
    }
    let (what, _) = texts.into_iter().find(|(_, text)| !is_text(text))?;
    Some(format!("{what} contains a NUL character, which PostgreSQL cannot hold"))
}

fn int(number: u32) -> Option<i32> {
    i32::try_from(number).ok()
}

/// Numbers that [`judged_unsent`] let pass fit.
fn fitting<N: TryInto<i32>>(number: N) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// The columns of one batch.
#[derive(Default)]
pub(super) struct Batch<'a> {
    claims: Claims<'a>,
    first: Events<'a>,
    claiming: Vec<bool>,
    inbox_seen: Vec<Option<i32>>,
    more: Events<'a>,
    changed: Changed<'a>,
    consumed: (Vec<Uuid>, Vec<i32>),
    new: New<'a>,
    attributes: (Vec<Uuid>, Vec<&'a str>, Vec<&'a str>),
    jobs: Jobs<'a>,
    withdrawn_jobs: (Vec<Uuid>, Vec<&'a str>),
    messages: Messages<'a>,
    bytes: usize,
}

#[derive(Default)]
struct Claims<'a> {
    at: Vec<SystemTime>,
    saga: Vec<Uuid>,
    scope: Vec<&'a str>,
    key: Vec<&'a str>,
    digest: Vec<&'a [u8]>,
    seq: Vec<i32>,
    inbox_seen: Vec<Option<i32>>,
}

#[derive(Default)]
struct Events<'a> {
    at: Vec<SystemTime>,
    saga: Vec<Uuid>,
    seq: Vec<i32>,
    attempt: Vec<Option<i32>>,
    name: Vec<&'a str>,
    step: Vec<Option<&'a str>>,
    data: Vec<Option<String>>,
}

#[derive(Default)]
struct New<'a> {
    id: Vec<Uuid>,
    created_at: Vec<SystemTime>,
    owner: Vec<Option<i64>>,
    wake_at: Vec<Option<SystemTime>>,
    version: Vec<i32>,
    status: Vec<&'a str>,
    definition: Vec<&'a str>,
    failed_step: Vec<Option<&'a str>>,
    correlation_id: Vec<Option<&'a str>>,
}

#[derive(Default)]
struct Changed<'a> {
    id: Vec<Uuid>,
    updated_at: Vec<SystemTime>,
    owner: Vec<Option<i64>>,
    wake_at: Vec<Option<SystemTime>>,
    paused: Vec<bool>,
    status: Vec<&'a str>,
    failed_step: Vec<Option<&'a str>>,
}

#[derive(Default)]
struct Jobs<'a> {
    due_at: Vec<SystemTime>,
    created_at: Vec<SystemTime>,
    saga: Vec<Uuid>,
    queue: Vec<&'a str>,
    subject: Vec<&'a str>,
    payload: Vec<&'a str>,
    alert: Vec<Option<&'a str>>,
}

#[derive(Default)]
struct Messages<'a> {
    at: Vec<SystemTime>,
    saga: Vec<Uuid>,
    topic: Vec<&'a str>,
    key: Vec<&'a str>,
    ordering_key: Vec<Option<&'a str>>,
    payload: Vec<&'a str>,
    expires_at: Vec<Option<SystemTime>>,
}

impl<'a> Batch<'a> {
    /// Lays out decisions that are sorted by saga, no saga twice.
    pub(super) fn of(commits: &[&'a Commit]) -> Self {
        let mut batch = Self::default();
        for commit in commits {
            batch.add(commit);
        }
        batch.claim_keys(commits);
        batch
    }

    /// Roughly what has to go over the wire.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What it has rows of.
    pub(super) fn shape(&self) -> Shape {
        Shape {
            claims: !self.claims.saga.is_empty(),
            more_events: !self.more.saga.is_empty(),
            changed_rows: !self.changed.id.is_empty(),
            new_rows: !self.new.id.is_empty(),
            attributes: !self.attributes.0.is_empty(),
            consumed: !self.consumed.0.is_empty(),
            withdrawn_jobs: !self.withdrawn_jobs.0.is_empty(),
            jobs: !self.jobs.saga.is_empty(),
            messages: !self.messages.saga.is_empty(),
        }
    }

    /// These of all parameters.
    pub(super) fn parameters(&self, places: &[usize]) -> Vec<&(dyn ToSql + Sync)> {
        let all = self.all_parameters();
        places.iter().filter_map(|place| all.get(*place).copied()).collect()
    }

    /// As the parts of the statement number them.
    fn all_parameters(&self) -> [&(dyn ToSql + Sync); 60] {
        let Self { claims, first, more, changed, new, jobs, messages, .. } = self;
        [
            &claims.at,
            &claims.saga,
            &claims.scope,
            &claims.key,
            &claims.digest,
            &claims.seq,
            &claims.inbox_seen,
            &first.at,
            &first.saga,
            &first.seq,
            &first.attempt,
            &first.name,
            &first.step,
            &first.data,
            &self.claiming,
            &self.inbox_seen,
            &more.at,
            &more.saga,
            &more.seq,
            &more.attempt,
            &more.name,
            &more.step,
            &more.data,
            &changed.id,
            &changed.updated_at,
            &changed.owner,
            &changed.wake_at,
            &changed.paused,
            &changed.status,
            &changed.failed_step,
            &new.id,
            &new.created_at,
            &new.owner,
            &new.wake_at,
            &new.version,
            &new.status,
            &new.definition,
            &new.failed_step,
            &new.correlation_id,
            &self.attributes.0,
            &self.attributes.1,
            &self.attributes.2,
            &self.consumed.0,
            &self.consumed.1,
            &jobs.due_at,
            &jobs.created_at,
            &jobs.saga,
            &jobs.queue,
            &jobs.subject,
            &jobs.payload,
            &messages.at,
            &messages.saga,
            &messages.topic,
            &messages.key,
            &messages.ordering_key,
            &messages.payload,
            &jobs.alert,
            &messages.expires_at,
            &self.withdrawn_jobs.0,
            &self.withdrawn_jobs.1,
        ]
    }

    fn add(&mut self, commit: &'a Commit) {
        let id = commit.saga.0;
        let Some((first, more)) = commit.events.split_first() else {
            return;
        };
        self.bytes += self.first.add(id, first);
        for recorded in more {
            self.bytes += self.more.add(id, recorded);
        }
        self.claiming.push(commit.claim.is_some());
        self.inbox_seen.push(inbox_seen(commit));
        match &commit.row {
            Some(RowWrite::Insert(row)) => self.add_new(id, row),
            Some(RowWrite::Update(row)) => self.changed.add(id, row),
            None => {}
        }
        if let Some(through) = commit.consume_inbox_through {
            self.consumed.0.push(id);
            self.consumed.1.push(fitting(through));
        }
        let at = time(first.at);
        for job in &commit.jobs {
            let jobs = &mut self.jobs;
            jobs.due_at.push(time(job.due_at));
            jobs.created_at.push(at);
            jobs.saga.push(id);
            jobs.queue.push(&job.queue);
            jobs.subject.push(&job.subject);
            jobs.payload.push(job.payload.as_str());
            jobs.alert.push(job.alert.as_ref().map(Payload::as_str));
            self.bytes += job.payload.len();
        }
        for subject in &commit.withdrawn_jobs {
            self.withdrawn_jobs.0.push(id);
            self.withdrawn_jobs.1.push(subject);
        }
        for message in &commit.messages {
            let messages = &mut self.messages;
            messages.at.push(at);
            messages.saga.push(id);
            messages.topic.push(&message.topic);
            messages.key.push(&message.idempotency_key);
            messages.ordering_key.push(message.ordering_key.as_deref());
            messages.payload.push(message.payload.as_str());
            messages.expires_at.push(message.expires_at.map(time));
            self.bytes += message.payload.len();
        }
    }

    fn add_new(&mut self, id: Uuid, row: &'a NewRow) {
        let new = &mut self.new;
        new.id.push(id);
        new.created_at.push(time(row.created_at));
        new.owner.push(row.owner);
        new.wake_at.push(row.wake_at.map(time));
        new.version.push(fitting(row.version));
        new.status.push(row.status.as_str());
        new.definition.push(&row.definition);
        new.failed_step.push(row.failed_step.as_ref().map(StepId::as_str));
        new.correlation_id.push(row.correlation_id.as_deref());
        for (name, value) in &row.attributes {
            self.attributes.0.push(id);
            self.attributes.1.push(name);
            self.attributes.2.push(value);
        }
    }

    /// Keys are claimed in one order by everybody, so that no two batches wait for each other.
    fn claim_keys(&mut self, commits: &[&'a Commit]) {
        let claiming = commits.iter().filter_map(|commit| Some((commit.claim.as_ref()?, *commit)));
        let mut claiming: Vec<(&'a Claim, &'a Commit)> = claiming.collect();
        claiming.sort_unstable_by_key(|(claim, _)| (&claim.scope, &claim.key));
        for (claim, commit) in claiming {
            let Some(first) = commit.events.first() else { continue };
            self.claims.at.push(time(first.at));
            self.claims.saga.push(commit.saga.0);
            self.claims.scope.push(&claim.scope);
            self.claims.key.push(&claim.key);
            self.claims.digest.push(&claim.digest.0);
            self.claims.seq.push(fitting(first.seq));
            self.claims.inbox_seen.push(inbox_seen(commit));
        }
    }
}

/// How many messages the decision has seen, if that matters to it.
fn inbox_seen(commit: &Commit) -> Option<i32> {
    match &commit.row {
        Some(RowWrite::Update(row)) => row.inbox_seen.map(fitting),
        Some(RowWrite::Insert(_)) | None => None,
    }
}

impl<'a> Events<'a> {
    fn add(&mut self, saga: Uuid, recorded: &'a Recorded) -> usize {
        let event = &recorded.event;
        let data = codec::data(event);
        let bytes = data.as_ref().map_or(0, String::len);
        self.at.push(time(recorded.at));
        self.saga.push(saga);
        self.seq.push(fitting(recorded.seq));
        self.attempt.push(event.attempt().map(fitting));
        self.name.push(event.name());
        self.step.push(event.step().map(StepId::as_str));
        self.data.push(data);
        bytes
    }
}

impl<'a> Changed<'a> {
    fn add(&mut self, id: Uuid, row: &'a RowUpdate) {
        self.id.push(id);
        self.updated_at.push(time(row.updated_at));
        self.owner.push(row.owner);
        self.wake_at.push(row.wake_at.map(time));
        self.paused.push(row.paused);
        self.status.push(row.status.as_str());
        self.failed_step.push(row.failed_step.as_ref().map(StepId::as_str));
    }
}
