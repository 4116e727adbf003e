//! Work for outside workers: leased by long poll, kept alive, and answered once.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::{
    Answered, Error, ErrorKind, ExtendedLease, Payload, Phase, SagaId, StepError, StepId, Subject, Work,
};
use backstitch_modules::only_object::object;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::vocabulary;
use crate::app::App;
use crate::auth::Leave;
use crate::http::{JobInPath, Json, Query, json, optional_whole, whole};
use crate::problem::{Described, Kind, Mistake, Problem};
use backstitch_api::time::{Time, rfc3339};

const QUEUES: usize = 100;
const JOBS: usize = 100;
const LONGEST_LEASE: u64 = 24 * 3600;
const LONGEST_WAIT: u64 = 60;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a worker asks for.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRequest {
    /// The queues it serves.
    #[schema(min_items = 1, max_items = 100, example = json!(["inventory"]))]
    queues: Vec<String>,
    /// At most this many jobs, 1 unless given.
    #[serde(default = "one", deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 100)]
    limit: usize,
    /// Without a heartbeat the job goes to another worker after this; 30 unless given, a day at most.
    #[serde(default = "half_a_minute", deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 86400)]
    lease_seconds: u64,
    /// How long to wait when there is nothing to do; 0 unless given.
    #[serde(default, deserialize_with = "whole")]
    #[schema(maximum = 60, example = 0)]
    wait_seconds: u64,
}

fn one() -> usize {
    1
}

fn half_a_minute() -> u64 {
    30
}

/// Jobs that are the worker's for a while.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct LeasedJobs<'a> {
    jobs: Vec<LeasedJob<'a>>,
}

/// A job that is the worker's for a while.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct LeasedJob<'a> {
    job_id: i64,
    /// Every report has to give it; it proves whose the job is.
    token: i64,
    queue: &'a str,
    /// The saga whose step it is; absent for everything else.
    #[schema(value_type = String, format = Uuid)]
    #[serde(skip_serializing_if = "Option::is_none")]
    saga_id: Option<SagaId>,
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a StepId>,
    #[schema(value_type = vocabulary::Phase)]
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    /// The delivery it is an attempt of; absent for everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_id: Option<i64>,
    /// The lifecycle whose state it is the action of, with its machine, its key and the state; absent for everything else.
    #[schema(value_type = String, format = Uuid)]
    #[serde(skip_serializing_if = "Option::is_none")]
    lifecycle_id: Option<SagaId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// The same on every attempt: tell repeated work by it.
    idempotency_key: &'a str,
    /// What an HTTP step would be sent: `{saga_id, step, phase, attempt, input, results, result?, error?}`.
    #[schema(value_type = Object)]
    payload: &'a Payload,
    lease_until: Time,
}

impl<'a> LeasedJob<'a> {
    fn of(work: &'a Work) -> Self {
        let (saga_id, step, phase, delivery_id) = match &work.subject {
            Subject::Step { saga, step, phase } => (Some(*saga), Some(step), Some(*phase), None),
            Subject::Delivery { id } => (None, None, None, Some(*id)),
            Subject::State { .. } => (None, None, None, None),
        };
        let (lifecycle_id, machine, key, state) = match &work.subject {
            Subject::State { lifecycle, machine, key, state } => {
                (Some(*lifecycle), Some(machine.as_str()), Some(key.as_str()), Some(state.as_str()))
            }
            Subject::Step { .. } | Subject::Delivery { .. } => (None, None, None, None),
        };
        Self {
            job_id: work.job,
            token: work.token,
            queue: &work.queue,
            saga_id,
            step,
            phase,
            delivery_id,
            lifecycle_id,
            machine,
            key,
            state,
            attempt: work.attempt,
            idempotency_key: &work.idempotency_key,
            payload: &work.body,
            lease_until: rfc3339(work.lease_until),
        }
    }
}

/// A sign of life.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HeartbeatRequest {
    /// The token of the lease.
    #[serde(deserialize_with = "whole")]
    token: i64,
    /// How long the lease lasts from now on; 30 unless given.
    #[serde(default = "half_a_minute", deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 86400)]
    lease_seconds: u64,
}

/// An extended lease.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Extended {
    job_id: i64,
    lease_until: Time,
    /// Whether the saga is being rolled back. The worker may stop early; it still reports what became of the job.
    cancelled: bool,
}

/// A worker's result.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteRequest {
    /// The token of the lease.
    #[serde(deserialize_with = "whole")]
    token: i64,
    /// What the step gives; `null` unless given.
    #[serde(default)]
    #[schema(value_type = Value)]
    result: Payload,
}

/// A worker's failure.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailRequest {
    /// The token of the lease.
    #[serde(deserialize_with = "whole")]
    token: i64,
    #[serde(deserialize_with = "object")]
    error: Failure,
}

/// Why a job failed.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    /// What people read.
    message: String,
    /// A code that programs can tell apart.
    #[serde(default)]
    code: Option<String>,
    /// What is known: not done and worth another try (`failed`), not done and never will be (`refused`), or nobody knows
    /// (`in_doubt`).
    #[serde(default)]
    kind: FailureKind,
    /// Not to be tried again sooner, in seconds.
    #[serde(default, deserialize_with = "optional_whole")]
    retry_after_seconds: Option<u64>,
}

/// What is known about a job that failed.
#[derive(Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureKind {
    /// Not done, and worth another try.
    #[default]
    Failed,
    /// Not done, and trying again will not help.
    Refused,
    /// Nobody knows.
    InDoubt,
}

/// What became of a report.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Reported {
    job_id: i64,
    /// Whether the job had been reported before; then nothing changed.
    repeated: bool,
}

/// Leases jobs. When there are none, the answer waits for some, for as long as was asked.
#[utoipa::path(post, path = "/v1/jobs/lease", tag = "jobs", request_body = LeaseRequest,
    responses(
        (status = 200, description = "The jobs; none when the time is up", body = LeasedJobs),
        (status = 400, description = "The body is not JSON", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "The body does not fit", body = Described, content_type = "application/problem+json"),
    ))]
pub(super) async fn lease(
    State(app): State<App>,
    stay: Leave,
    query: Query,
    Json(request): Json<LeaseRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    check(&request)?;
    let (lease, wait) =
        (Duration::from_secs(request.lease_seconds), Duration::from_secs(request.wait_seconds));
    let over = Instant::now() + wait;
    let _waiting = app.metrics.waiting_worker();
    // In short waits, so that a server that closes need not drop a lease that is on its way to the disk.
    let work = loop {
        let wait = over.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
        let work = app.engine.lease_work(&request.queues, request.limit, lease, wait).await?;
        if !work.is_empty() || Instant::now() >= over || app.closing.is_cancelled() {
            break work;
        }
        stay.still_given()?;
    };
    Ok(json(StatusCode::OK, &LeasedJobs { jobs: work.iter().map(LeasedJob::of).collect() }))
}

fn check(request: &LeaseRequest) -> Result<(), Problem> {
    let mut mistakes = Vec::new();
    let mut bound = |place: &str, value: usize, least: usize, most: usize| {
        if !(least..=most).contains(&value) {
            let message = format!("is {value}: use {least} to {most}");
            mistakes.push(Mistake { place: place.to_owned(), message });
        }
    };
    bound("queues", request.queues.len(), 1, QUEUES);
    bound("limit", request.limit, 1, JOBS);
    let number = |seconds: u64| usize::try_from(seconds).unwrap_or(usize::MAX);
    bound("lease_seconds", number(request.lease_seconds), 1, number(LONGEST_LEASE));
    bound("wait_seconds", number(request.wait_seconds), 0, number(LONGEST_WAIT));
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(Problem::listing(Kind::InvalidFields, "the lease cannot be given: correct every field", &mistakes))
}

/// Why a report about a job is not taken. That its body must fit is said of every body.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "they describe what problems say")]
enum NotTaken {
    #[response(status = 404, description = "There is no such job", content_type = "application/problem+json")]
    Unknown(Described),
    #[response(
        status = 409,
        description = "The lease is another's, or the work is not wanted any more",
        content_type = "application/problem+json"
    )]
    Stale(Described),
}

/// Extends a lease and tells whether the work is cancelled. A job that is no longer wanted is answered with 409 and
/// `cancelled: true`.
#[utoipa::path(post, path = "/v1/jobs/{id}/heartbeat", tag = "jobs", request_body = HeartbeatRequest,
    params(("id" = i64, Path, description = "The job")),
    responses((status = 200, description = "The lease is extended", body = Extended), NotTaken))]
pub(super) async fn heartbeat(
    State(app): State<App>,
    JobInPath(job): JobInPath,
    query: Query,
    Json(request): Json<HeartbeatRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    if !(1..=LONGEST_LEASE).contains(&request.lease_seconds) {
        return Err(Problem::field("lease_seconds", format!("use 1 to {LONGEST_LEASE}")));
    }
    let lease = Duration::from_secs(request.lease_seconds);
    let ExtendedLease { until, cancelled } =
        app.engine.extend_lease(job, request.token, lease).await.map_err(no_longer_wanted)?;
    Ok(json(StatusCode::OK, &Extended { job_id: job, lease_until: rfc3339(until), cancelled }))
}

/// A worker reads `cancelled` whether or not its lease could be extended.
fn no_longer_wanted(error: Error) -> Problem {
    let cancelled = matches!(error, Error::GivenUp { .. });
    let problem = Problem::from(error);
    if cancelled { problem.with("cancelled", &true) } else { problem }
}

/// Reports that a job is done. Repeating it changes nothing.
#[utoipa::path(post, path = "/v1/jobs/{id}/complete", tag = "jobs", request_body = CompleteRequest,
    params(("id" = i64, Path, description = "The job")),
    responses((status = 200, description = "The saga goes on with it", body = Reported), NotTaken))]
pub(super) async fn complete(
    State(app): State<App>,
    JobInPath(job): JobInPath,
    query: Query,
    Json(request): Json<CompleteRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    Ok(reported(job, app.engine.complete_work(job, request.token, request.result).await?))
}

/// Reports that a job failed; what becomes of the step is up to its retries. Repeating it changes nothing.
#[utoipa::path(post, path = "/v1/jobs/{id}/fail", tag = "jobs", request_body = FailRequest,
    params(("id" = i64, Path, description = "The job")),
    responses((status = 200, description = "The saga goes on with it", body = Reported), NotTaken))]
pub(super) async fn fail(
    State(app): State<App>,
    JobInPath(job): JobInPath,
    query: Query,
    Json(request): Json<FailRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    Ok(reported(job, app.engine.fail_work(job, request.token, request.error.into()).await?))
}

fn reported(job_id: i64, answered: Answered) -> Response {
    json(StatusCode::OK, &Reported { job_id, repeated: answered == Answered::Before })
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            FailureKind::Failed => ErrorKind::Failed,
            FailureKind::Refused => ErrorKind::Refused,
            FailureKind::InDoubt => ErrorKind::InDoubt,
        };
        let retry_after = failure.retry_after_seconds.map(Duration::from_secs);
        Self { kind, code: failure.code, message: failure.message, retry_after }
    }
}
