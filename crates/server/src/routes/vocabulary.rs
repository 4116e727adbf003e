//! The words that answers use, as the description lists them. The engine's own types write them.
#![expect(dead_code, reason = "they describe what other types write")]

use utoipa::ToSchema;

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

/// What a person decides about a compensation that could not be finished: try it again, leave it undone, or it was undone
/// by hand.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum Resolution {
    Retry,
    Skip,
    Done,
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
