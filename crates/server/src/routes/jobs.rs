//! Work for outside workers: leased by long poll, kept alive, and answered once.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::{
    Answered, Error, ErrorKind, ExtendedLease, Payload, Phase, SagaId, StepError, StepId, Subject, Work,
};
use backstitch_api::validate::{Bounded, List, Omittable};
use backstitch_api::{request, word_type};
use serde::Serialize;
use tokio::time::Instant;

use super::vocabulary;
use crate::app::App;
use crate::auth::Leave;
use crate::http::{JobInPath, Json, Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

const QUEUES: usize = 100;
const JOBS: u64 = 100;
const LONGEST_LEASE: u64 = 24 * 3600;
const LONGEST_WAIT: u64 = 60;
const USUAL_LEASE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a lease lasts without a heartbeat, in seconds.
type LeaseSeconds = Omittable<Bounded<u64, 1, LONGEST_LEASE>>;

request! {
    /// What a worker asks for.
    pub(super) struct LeaseRequest as "LeaseRequest" example { "queues": ["inventory"] } {
        /// The queues it serves.
        queues: List<String, 1, QUEUES>,
        /// At most this many jobs, 1 unless given.
        limit: Omittable<Bounded<usize, 1, JOBS>>,
        /// Without a heartbeat the job goes to another worker after this; 30 unless given, a day at most.
        lease_seconds: LeaseSeconds,
        /// How long to wait when there is nothing to do; 0 unless given.
        wait_seconds: Omittable<Bounded<u64, 0, LONGEST_WAIT>>,
    }
}

fn lease_duration(seconds: &LeaseSeconds) -> Duration {
    seconds.0.map_or(USUAL_LEASE, |seconds| Duration::from_secs(seconds.0))
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

request! {
    /// A sign of life.
    pub(super) struct HeartbeatRequest as "HeartbeatRequest" {
        /// The token of the lease.
        token: i64,
        /// How long the lease lasts from now on; 30 unless given.
        lease_seconds: LeaseSeconds,
    }
}

/// An extended lease.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Extended {
    job_id: i64,
    lease_until: Time,
    /// Whether the saga is being rolled back. The worker may stop early; it still reports what became of the job.
    cancelled: bool,
}

request! {
    /// A worker's result.
    pub(super) struct CompleteRequest as "CompleteRequest" {
        /// The token of the lease.
        token: i64,
        /// What the step gives; `null` unless given.
        result: Omittable<Payload>,
    }
}

request! {
    /// A worker's failure.
    pub(super) struct FailRequest as "FailRequest" {
        /// The token of the lease.
        token: i64,
        /// Why the job failed.
        error: Failure,
    }
}

request! {
    /// Why a job failed.
    pub(super) struct Failure as "Failure" {
        /// What people read.
        message: String,
        /// A code that programs can tell apart.
        code: Option<String>,
        /// What is known: not done and worth another try (`failed`), not done and never will be (`refused`), or an unknown
        /// outcome (`in_doubt`).
        kind: Omittable<FailureKind>,
        /// Not to be tried again sooner, in seconds.
        retry_after_seconds: Option<u64>,
    }
}

word_type! {
    /// What is known about a job that failed: `failed` may be tried again, `refused` will never succeed, and the outcome of
    /// `in_doubt` is unknown.
    #[derive(Copy, Default)]
    pub(super) enum FailureKind {
        #[default]
        Failed = "failed",
        Refused = "refused",
        InDoubt = "in_doubt",
    }
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
    let lease = lease_duration(&request.lease_seconds);
    let wait = request.wait_seconds.0.map_or(Duration::ZERO, |seconds| Duration::from_secs(seconds.0));
    let limit = request.limit.0.map_or(1, |limit| limit.0);
    let over = Instant::now() + wait;
    let _waiting = app.metrics.waiting_worker();
    // In short waits, so that a server that closes need not drop a lease that is on its way to the disk.
    let work = loop {
        let wait = over.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
        let work = app.engine.lease_work(&request.queues.0, limit, lease, wait).await?;
        if !work.is_empty() || Instant::now() >= over || app.closing.is_cancelled() {
            break work;
        }
        stay.still_given()?;
    };
    Ok(json(StatusCode::OK, &LeasedJobs { jobs: work.iter().map(LeasedJob::of).collect() }))
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
    let lease = lease_duration(&request.lease_seconds);
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
    Ok(reported(
        job,
        app.engine.complete_work(job, request.token, request.result.0.unwrap_or_default()).await?,
    ))
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
        let kind = match failure.kind.0.unwrap_or_default() {
            FailureKind::Failed => ErrorKind::Failed,
            FailureKind::Refused => ErrorKind::Refused,
            FailureKind::InDoubt => ErrorKind::InDoubt,
        };
        let retry_after = failure.retry_after_seconds.map(Duration::from_secs);
        Self { kind, code: failure.code, message: failure.message, retry_after }
    }
}
