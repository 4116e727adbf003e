//! What the description says of things that the engine's own types write: the words, events and errors.
#![expect(dead_code, reason = "they describe what other types write")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;

use backstitch_api::time::Time;
use backstitch_api::word_type;

/// Where a saga stands.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum SagaStatus {
    Pending,
    Running,
    Succeeded,
    Failed,
    Compensating,
    Compensated,
}

/// Where a step stands.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum StepStatus {
    Pending,
    Waiting,
    Running,
    Succeeded,
    Failed,
    InDoubt,
    Compensating,
    Compensated,
    CompensationFailed,
    Skipped,
}

/// What is known about something that failed.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum ErrorKind {
    Failed,
    Refused,
    InDoubt,
    TimedOut,
    Panicked,
    Unusable,
    Interrupted,
    Cancelled,
    DeadlineExceeded,
}

/// Whether a step is done or undone.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum Phase {
    Do,
    Undo,
}

word_type! {
    /// What a person decides about a compensation that could not be finished: try it again, leave it undone, or it was undone
    /// by hand.
    #[derive(Copy)]
    pub(super) enum Resolution {
        Retry = "retry",
        Skip = "skip",
        Done = "done",
    }
}

impl From<Resolution> for backstitch::Resolution {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Retry => Self::Retry,
            Resolution::Skip => Self::Skip,
            Resolution::Done => Self::Done,
        }
    }
}

/// Where a service stands: uncommitted, succeeded, failed, rolled back, done, rollback failed.
#[derive(ToSchema)]
#[schema(rename_all = "UPPERCASE")]
pub(super) enum TransactionCode {
    U,
    S,
    F,
    R,
    D,
    Rf,
}

/// What happened to a saga. Which members there are depends on the type.
#[derive(ToSchema)]
pub(super) struct Event {
    /// The saga; only in the stream of everything.
    #[schema(format = Uuid)]
    saga_id: Option<String>,
    /// Its number in the saga's log, from 1.
    seq: u64,
    at: Time,
    /// What happened, as in `step.succeeded`.
    r#type: String,
    step: Option<String>,
    attempt: Option<u32>,
    definition: Option<String>,
    version: Option<u32>,
    #[schema(required = false)]
    input: Value,
    correlation_id: Option<String>,
    deadline: Option<Time>,
    attributes: Option<BTreeMap<String, String>>,
    #[schema(required = false)]
    result: Value,
    /// What the compensations gave, by step, without those that gave nothing; only in `saga.compensated`. Absent where all of
    /// it exceeds 256 KiB: the events of the steps have it.
    results: Option<BTreeMap<String, Value>>,
    /// `true` if the service's response was not JSON. The result is then its text, or null if it was binary.
    unparsed: Option<bool>,
    failed_step: Option<String>,
    error: Option<StepError>,
    in_doubt: Option<bool>,
    phase: Option<Phase>,
    max_attempts: Option<u32>,
    retry_at: Option<Time>,
    action: Option<Resolution>,
    note: Option<String>,
    node: Option<String>,
    epoch: Option<i64>,
    /// The queue from which an outside worker takes the attempt.
    queue: Option<String>,
    /// When the wait for a worker ends; absent where it has no end.
    queue_until: Option<Time>,
    /// Without a worker's answer by then the attempt has timed out.
    until: Option<Time>,
    /// What a customer reads about it; only for orders.
    message: Option<String>,
}

/// Why something failed.
#[derive(ToSchema)]
pub(super) struct StepError {
    /// What is known.
    kind: ErrorKind,
    /// A code that programs can tell apart.
    code: Option<String>,
    message: String,
    /// The service asked not to be called again sooner, in seconds.
    retry_after: Option<f64>,
}

/// Where a delivery stands.
#[derive(ToSchema)]
pub(super) enum DeliveryStatus {
    Pending,
    InProgress,
    PendingRetry,
    Completed,
    DeadLettered,
}

/// What came of an attempt.
#[derive(ToSchema)]
pub(super) enum AttemptStatus {
    Completed,
    Failed,
}
