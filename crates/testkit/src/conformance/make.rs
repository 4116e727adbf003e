//! Builders for conformance cases and other store tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch::Announced;
use backstitch::jobs::NewJob;
use backstitch::store::nodes::{Epoch, Known, Node};
use backstitch::store::outbox::{NewMessage, Outgoing, Share, Waiting};
use backstitch::store::{Claim, Commit, NewRow, RowUpdate, RowWrite, Store, Stored, Verdict};
use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::saga::event::Started;
use backstitch_kernel::saga::{Event, Recorded, Status};
use backstitch_kernel::{Payload, SagaId, StepId, Timestamp};
use uuid::Uuid;

/// The duration of every lease.
pub const LEASE: Duration = Duration::from_secs(10);
/// The smallest time step.
pub const A_MOMENT: Duration = Duration::from_millis(1);

/// A saga's id; higher numbers are later.
#[must_use]
pub fn saga(number: u64) -> SagaId {
    let (version_7, variant) = (0x7_u128 << 76, 0x2_u128 << 62);
    SagaId(Uuid::from_u128(0x019b_0000_0000_u128 << 80 | version_7 | variant | u128::from(number)))
}

/// A process named `a`.
#[must_use]
pub fn node() -> Node {
    Node { name: "a".to_owned(), lease: LEASE, announced: Announced::default() }
}

/// A definition that a node can run.
#[must_use]
pub fn known(name: &str, version: u32) -> Known {
    Known { name: name.into(), version }
}

/// The definition of [`started`].
#[must_use]
pub fn deploy() -> Known {
    known("deploy", 1)
}

/// A newly started, unowned saga that is not due.
#[must_use]
pub fn started(saga: SagaId, at: Timestamp) -> Commit {
    let started = Started {
        definition: "deploy".to_owned(),
        version: 1,
        input: Payload::parse(r#"{"pr":7}"#).unwrap(),
        correlation_id: None,
        deadline: None,
        attributes: BTreeMap::new(),
    };
    let row = NewRow {
        definition: "deploy".into(),
        version: 1,
        status: Status::Running,
        owner: None,
        wake_at: None,
        failed_step: None,
        correlation_id: None,
        attributes: BTreeMap::new(),
        created_at: at,
    };
    Commit {
        saga,
        events: vec![Recorded { seq: 1, at, event: Event::SagaStarted(Arc::new(started)) }],
        row: Some(RowWrite::Insert(row)),
        consume_inbox_through: None,
        jobs: Vec::new(),
        withdrawn_jobs: Vec::new(),
        messages: Vec::new(),
        rows: Vec::new(),
        claim: None,
    }
}

/// The same start with a changed row.
#[must_use]
pub fn started_with(saga: SagaId, at: Timestamp, change: impl FnOnce(&mut NewRow)) -> Commit {
    let mut commit = started(saga, at);
    if let Some(RowWrite::Insert(row)) = &mut commit.row {
        change(row);
    }
    commit
}

/// The same start, owned.
#[must_use]
pub fn owned(saga: SagaId, at: Timestamp, owner: Epoch) -> Commit {
    started_with(saga, at, |row| row.owner = Some(owner))
}

/// A decision that appends one event and changes nothing else.
#[must_use]
pub fn appended(saga: SagaId, seq: u64, at: Timestamp) -> Commit {
    let event = Event::StepStarted { step: StepId::from("build"), attempt: 1, outside: None };
    Commit {
        saga,
        events: vec![Recorded { seq, at, event }],
        row: None,
        consume_inbox_through: None,
        jobs: Vec::new(),
        withdrawn_jobs: Vec::new(),
        messages: Vec::new(),
        rows: Vec::new(),
        claim: None,
    }
}

/// A decision that appends one event and changes the row.
#[must_use]
pub fn updated(saga: SagaId, seq: u64, at: Timestamp, change: impl FnOnce(&mut RowUpdate)) -> Commit {
    let mut update = RowUpdate {
        status: Status::Running,
        paused: false,
        failed_step: None,
        owner: None,
        wake_at: None,
        updated_at: at,
        inbox_seen: None,
    };
    change(&mut update);
    Commit { row: Some(RowWrite::Update(update)), ..appended(saga, seq, at) }
}

/// A decision that ends the saga.
#[must_use]
pub fn ended(saga: SagaId, seq: u64, at: Timestamp) -> Commit {
    let events = vec![Recorded { seq, at, event: Event::SagaSucceeded }];
    Commit { events, ..updated(saga, seq, at, |row| row.status = Status::Succeeded) }
}

/// A key of the scope `saga/deploy`, for a request with this digest.
#[must_use]
pub fn claim(key: &str, digest: u8) -> Claim {
    Claim { scope: "saga/deploy".to_owned(), key: key.to_owned(), digest: Digest([digest; 32]) }
}

/// Some work.
#[must_use]
pub fn job(queue: &str, subject: &str, due_at: Timestamp) -> NewJob {
    NewJob {
        alert: None,
        queue: queue.to_owned(),
        subject: subject.to_owned(),
        payload: Payload::parse(r#"{"do":"it"}"#).unwrap(),
        due_at,
    }
}

/// Something to say about deployments.
#[must_use]
pub fn message(key: &str) -> NewMessage {
    NewMessage {
        topic: "deployments".to_owned(),
        idempotency_key: key.to_owned(),
        ordering_key: None,
        payload: Payload::parse(r#"{"say":"it"}"#).unwrap(),
        expires_at: None,
    }
}

/// Claims up to this many messages of each topic, after returning abandoned ones.
pub async fn claim_messages(store: &dyn Store, limit: usize) -> Vec<Outgoing> {
    store.rescue_outbox(1000).await.unwrap();
    let share = |waiting: Waiting| Share { topic: waiting.topic, limit, lease: LEASE };
    let shares: Vec<Share> = store.waiting_topics().await.unwrap().into_iter().map(share).collect();
    store.claim_outbox(&shares, "tester").await.unwrap()
}

/// The verdict on this decision.
pub async fn verdict(store: &dyn Store, commit: Commit) -> Verdict {
    let mut verdicts = store.commit(&[commit]).await.unwrap();
    assert_eq!(verdicts.len(), 1);
    verdicts.remove(0)
}

/// Writes a decision, which must be applied.
pub async fn apply(store: &dyn Store, commit: Commit) {
    assert_eq!(verdict(store, commit).await, Verdict::Applied);
}

/// The saga, if it exists.
pub async fn load(store: &dyn Store, saga: SagaId) -> Option<Stored> {
    let mut found = store.load(&[saga]).await.unwrap();
    assert!(found.len() <= 1);
    found.pop()
}

/// The saga, which must exist.
pub async fn loaded(store: &dyn Store, saga: SagaId) -> Stored {
    load(store, saga).await.unwrap()
}

/// The numbers of a saga's events.
pub async fn seqs(store: &dyn Store, saga: SagaId) -> Vec<u64> {
    let log = store.log(saga, 0, 1_000).await.unwrap();
    log.iter().map(|recorded| recorded.seq).collect()
}
