//! How the server and its sagas are doing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use backstitch::retention::Report;
use backstitch::{Cursor, Error, Filter, FullLimit, LimitScope, Rfc3339, Status, Timestamp};
use backstitch_modules::webhooks;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::lifecycles::StuckLifecycles;
use super::sagas::list::Item;
use crate::app::App;
use crate::http::{Query, json};
use crate::problem::{Described, Kind, Problem};
use crate::telemetry::{Measured, OutboxAge, queue_depths};

/// How long the store may take to answer for the server to be ready.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// How long it stays ready without the store being asked again: anybody may ask, as often as they like.
const READY_FOR: Duration = Duration::from_secs(1);
/// How long numbers wait for what only the store knows.
const MEASURED_WITHIN: Duration = Duration::from_secs(1);

/// Queues that are looked at for jobs that wait.
const MOST_QUEUES: usize = 100;

/// One word about the server.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Word {
    /// `ok`.
    status: &'static str,
}

const OK: Word = Word { status: "ok" };

/// Whether the process runs.
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200, description = "It runs", body = Word)))]
pub(super) async fn live() -> Response {
    json(StatusCode::OK, &OK)
}

/// Whether requests can be answered: the store answers, or did within the last second, what was to be written last could be
/// written, and the server is not shutting down.
#[utoipa::path(get, path = "/health/ready", tag = "health", responses(
    (status = 200, description = "It is ready", body = Word),
    (status = 503, description = "It is not", body = Described, content_type = "application/problem+json")))]
pub(super) async fn ready(State(app): State<App>) -> Result<Response, Problem> {
    let (all, newest) = (Filter::default(), Cursor { before: None, limit: 1 });
    let (skew, limit) = (app.engine.clock_skew(), app.config.doctor.max_clock_skew);
    let store = async || {
        app.engine.list(&all, &newest).await?;
        app.engine.writable().await
    };
    let ask = async || match tokio::time::timeout(READY_WITHIN, store()).await {
        Ok(Ok(())) if skew > limit => Err(NotReady::Skewed { skew, limit }),
        Ok(answer) => answer.map_err(NotReady::Failed),
        Err(_) => Err(NotReady::Silent),
    };
    app.readiness.tell(&app.closing, ask).await.map(|()| json(StatusCode::OK, &OK))
}

/// Whether the store answered when it was last asked.
#[derive(Default)]
pub(crate) struct Readiness {
    /// How many answers there have been. Whoever waits sees by it that one has come meanwhile.
    answers: AtomicU64,
    last: Mutex<Option<Answer>>,
}

/// An answer of the store.
struct Answer {
    asked_at: Instant,
    said: Result<(), NotReady>,
}

/// Why the server is not ready.
#[derive(Clone, Debug)]
pub(crate) enum NotReady {
    /// The store says what is wrong.
    Failed(Error),
    /// The store says nothing.
    Silent,
    /// This machine's clock is too far from the store's.
    Skewed {
        /// How far.
        skew: Duration,
        /// How far it may be.
        limit: Duration,
    },
}

impl From<NotReady> for Problem {
    fn from(why: NotReady) -> Self {
        match why {
            NotReady::Failed(error) => error.into(),
            NotReady::Skewed { skew, limit } => {
                let (skew, limit) = (skew.as_secs(), limit.as_secs());
                let why = format!(
                    "this node's clock and the database's are {skew}s apart, more than doctor.max_clock_skew ({limit}s): set \
                     the clock, as by NTP"
                );
                Self::new(Kind::Unavailable, why)
            }
            NotReady::Silent => {
                Self::new(Kind::Unavailable, "the database does not answer: ask again in a moment")
            }
        }
    }
}

impl Readiness {
    /// Whether the server is ready; that it shuts down is told at once, whatever was known or is being asked.
    async fn tell(
        &self,
        closing: &CancellationToken,
        ask: impl AsyncFnOnce() -> Result<(), NotReady>,
    ) -> Result<(), Problem> {
        let said = closing.run_until_cancelled(self.seen(ask)).await;
        Ok(said.ok_or_else(Problem::shutting_down)??)
    }

    /// What the store said a moment ago if it was good, and otherwise what it says now, asked once for all who wait. A bad
    /// answer is for those who wait for it and for nobody after them.
    pub(crate) async fn seen(&self, ask: impl AsyncFnOnce() -> Result<(), NotReady>) -> Result<(), NotReady> {
        let before = self.answers.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if let Some(answer) = &*last {
            // Whoever waited takes what came, or many would ask a silent store one after the other.
            let came_meanwhile = self.answers.load(Ordering::Acquire) != before;
            if came_meanwhile || (answer.said.is_ok() && answer.asked_at.elapsed() < READY_FOR) {
                return answer.said.clone();
            }
        }
        // Before the question is asked: the answer must not seem fresher than it is.
        let asked_at = Instant::now();
        let said = ask().await;
        *last = Some(Answer { asked_at, said: said.clone() });
        self.answers.fetch_add(1, Ordering::Release);
        said
    }
}

/// How the sagas are doing.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Health {
    /// `ok`, or `attention` when a saga or a lifecycle is stuck, a saga has failed or waits for a definition, a job waits
    /// for a worker, an attempt for room at a host or a step, or a message to be sent for longer than the threshold, or what is old enough cannot be removed.
    status: &'static str,
    /// How many sagas are in each status that is not an end; 10,001 stands for more than 10,000.
    active: BTreeMap<&'static str, u64>,
    /// Sagas whose rollback failed and waits for an operator; 10,001 stands for more than 10,000.
    failed: u64,
    /// Sagas that have been active for longer than the threshold with nothing due, longest first.
    stuck: Vec<Item>,
    /// Sagas that wait for a definition that this server does not have.
    unregistered: Vec<Unregistered>,
    /// Queues whose first job has waited for a worker for longer than `doctor.queued_after`.
    waiting_for_workers: Vec<WaitingQueue>,
    /// Hosts and steps for whose room an attempt has waited in this process for longer than `doctor.queued_after`.
    waiting_for_room: Vec<FullRoom>,
    /// Sagas under way in this process.
    under_way: usize,
    /// How long the oldest message has waited to be sent, an alert for one; `null` when none waits.
    #[schema(minimum = 0)]
    oldest_outbox_seconds: Option<f64>,
    /// How long the webhook has been due that has waited longest, be it that its endpoint is disabled or left alone; `null`
    /// when none is.
    #[schema(minimum = 0)]
    oldest_delivery_seconds: Option<f64>,
    /// Lifecycles that have been in their state for longer than their machine allows.
    lifecycles: StuckLifecycles,
    /// What is over for long and is removed.
    retention: Removal,
}

/// What this server has removed since it began, because it was over for as long as it is kept.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Removal {
    /// When everything that was old enough was gone; `null` while that has not been, or where nothing is ever removed. Of
    /// several servers on one database one removes.
    #[schema(format = DateTime)]
    last_run: Option<String>,
    /// Why nothing is removed at the moment; `null` where nothing is in the way.
    held_up: Option<String>,
    /// Rows, by kind.
    removed: BTreeMap<&'static str, u64>,
    /// Documents that were exported before, by kind.
    exported: BTreeMap<&'static str, u64>,
}

impl From<Report> for Removal {
    fn from(report: Report) -> Self {
        Self {
            last_run: report.last_run.map(|at| Rfc3339(at).to_string()),
            held_up: report.held_up,
            removed: report.removed,
            exported: report.exported,
        }
    }
}

/// Sagas that wait for a definition.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Unregistered {
    definition: String,
    version: u32,
    sagas: u64,
}

/// A queue whose jobs wait for a worker.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct WaitingQueue {
    queue: String,
    /// The job that has waited longest.
    job_id: i64,
    /// How long it has waited.
    #[schema(minimum = 0)]
    seconds: f64,
}

/// A host or a step that has no room for more attempts, or the slots of `sagas.max_active` that are all taken.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct FullRoom {
    /// What has no room: `host`, `step` or `slots`.
    scope: &'static str,
    /// The host with its port; `null` for a step and for slots.
    host: Option<String>,
    /// The step's definition; `null` for a host and for slots.
    definition: Option<String>,
    /// The step; `null` for a host and for slots.
    step: Option<String>,
    /// Of slots: the host or step whose attempts hold most of them, where one does.
    held_by: Option<String>,
    /// How many attempts wait; of slots, how many sagas.
    waiting: usize,
    /// How long the first of them has waited.
    #[schema(minimum = 0)]
    seconds: f64,
}

impl FullRoom {
    fn of(full: &FullLimit, now: Timestamp) -> Self {
        let (scope, host, definition, step) = match &full.scope {
            LimitScope::Host(host) => ("host", Some(host.to_string()), None, None),
            LimitScope::Step { definition, step } => {
                ("step", None, Some(definition.to_string()), Some(step.to_string()))
            }
            LimitScope::Slots => ("slots", None, None, None),
        };
        let held_by = full.held_by.as_ref().map(LimitScope::to_string);
        let seconds = now.since(full.since).as_secs_f64();
        Self { scope, host, definition, step, held_by, waiting: full.waiting, seconds }
    }
}

/// How the sagas are doing: what is active, stuck, failed or waits for a definition.
#[utoipa::path(get, path = "/v1/health", tag = "health",
    params(("stuck_after" = Option<String>, Query, description = "How long a saga may be active with nothing due, and a message may wait to be sent; the setting `doctor.stuck_after` unless given", pattern = "^(0|[1-9][0-9]{0,6})(ms|s|m|h|d|days?)$", example = "10m")),
    responses((status = 200, description = "How they are doing", body = Health),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json")))]
pub(super) async fn health(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let duration = |text: &str| backstitch::kernel::parse_duration(text).ok();
    let stuck_after = query.read("stuck_after", duration, "use a duration like 10m")?;
    let stuck_after = stuck_after.unwrap_or(app.config.doctor.stuck_after);
    query.finish("stuck_after")?;
    let mut found = app.engine.health(stuck_after).await?;
    let failed = found.active.remove(&Status::Failed).unwrap_or_default();
    let waiting = outbox_age(&app).await?;
    let late = waiting.is_some_and(|age| age.oldest > stuck_after);
    let lifecycles = StuckLifecycles::of(&app).await?;
    let queued = app.engine.waiting_for_workers(MOST_QUEUES).await?.into_iter();
    let waiting_for_workers: Vec<_> = queued
        .filter(|queue| queue.late > app.config.doctor.queued_after)
        .map(|it| WaitingQueue { queue: it.queue, job_id: it.job, seconds: it.late.as_secs_f64() })
        .collect();
    let now = app.engine.clock().now();
    let full = app.engine.full_limits().into_iter();
    let waiting_for_room: Vec<_> = full
        .filter(|full| now.since(full.since) > app.config.doctor.queued_after)
        .map(|full| FullRoom::of(&full, now))
        .collect();
    let retention = Removal::from(app.engine.removed());
    let well = found.stuck.is_empty()
        && found.unregistered.is_empty()
        && waiting_for_workers.is_empty()
        && waiting_for_room.is_empty()
        && failed == 0
        && !late
        && lifecycles.stuck == 0
        && retention.held_up.is_none();
    let health = Health {
        status: if well { "ok" } else { "attention" },
        active: found.active.iter().map(|(status, count)| (status.as_str(), *count)).collect(),
        failed,
        stuck: found.stuck.into_iter().map(Item::from).collect(),
        unregistered: found
            .unregistered
            .into_iter()
            .map(|it| Unregistered { definition: it.definition, version: it.version, sagas: it.sagas })
            .collect(),
        waiting_for_workers,
        waiting_for_room,
        under_way: app.engine.active(),
        oldest_outbox_seconds: waiting.map(|age| age.oldest.as_secs_f64()),
        oldest_delivery_seconds: delivery_age(&app).await?.map(|age| age.as_secs_f64()),
        lifecycles,
        retention,
    };
    Ok(json(StatusCode::OK, &health))
}

/// How long messages have waited to be sent; `None` when none waits.
pub(crate) async fn outbox_age(app: &App) -> Result<Option<OutboxAge>, Error> {
    let ages = app.engine.outbox_ages().await?;
    let since = |written| app.clock.now().since(written);
    let old = ages.old.map(since).unwrap_or_default();
    Ok(ages.oldest.map(|oldest| OutboxAge { oldest: since(oldest), old }))
}

/// How long the webhook has been due that has waited longest; `None` when none is.
pub(crate) async fn delivery_age(app: &App) -> Result<Option<Duration>, webhooks::Error> {
    Ok(app.webhooks.parts.deliveries.oldest_due().await?.map(|oldest| app.clock.now().since(oldest.due_at)))
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, description = "The numbers", content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    // A database that does not answer must not keep the other numbers from whoever looks for the reason.
    let measured = match app.probes.report(&app).await {
        Ok(()) => measured(&app).await,
        Err(_) => Measured::default(),
    };
    ([(CONTENT_TYPE, text)], app.metrics.render(&app.engine, &measured))
}

/// What only the store knows, as far as it says it in time.
async fn measured(app: &App) -> Measured {
    let failed = async {
        let known = app.engine.runnable().await;
        let counts = app.engine.store().counts(&known).await?;
        Ok::<_, backstitch::store::Error>(counts.active.get(&Status::Failed).copied().unwrap_or_default())
    };
    let (outbox, delivery, stuck, failed, queues) = tokio::join!(
        tokio::time::timeout(MEASURED_WITHIN, outbox_age(app)),
        tokio::time::timeout(MEASURED_WITHIN, delivery_age(app)),
        tokio::time::timeout(MEASURED_WITHIN, app.lifecycles.parts.count_stuck()),
        tokio::time::timeout(MEASURED_WITHIN, failed),
        tokio::time::timeout(MEASURED_WITHIN, queue_depths(&app.engine)),
    );
    Measured {
        store_up: true,
        outbox_age: outbox.ok().and_then(Result::ok).map(Option::unwrap_or_default),
        delivery_age: delivery.ok().and_then(Result::ok).map(Option::unwrap_or_default),
        lifecycles_stuck: stuck.ok().and_then(Result::ok),
        rollbacks_stuck: failed.ok().and_then(Result::ok),
        queues: queues.ok().and_then(Result::ok),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::{advance, sleep};

    use super::*;

    /// A store that takes its time, and counts how often it is asked.
    struct Store {
        answer: Cell<Result<(), ()>>,
        takes: Duration,
        asked: Cell<u32>,
    }

    impl Store {
        fn that_says(answer: Result<(), ()>, takes: Duration) -> Self {
            Self { answer: Cell::new(answer), takes, asked: Cell::new(0) }
        }

        async fn ask(&self) -> Result<(), NotReady> {
            self.asked.set(self.asked.get() + 1);
            sleep(self.takes).await;
            self.answer.get().map_err(|()| NotReady::Silent)
        }
    }

    const AT_ONCE: Duration = Duration::ZERO;
    const SLOWLY: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn a_good_answer_is_kept_for_a_second() {
        let (readiness, store) = (Readiness::default(), Store::that_says(Ok(()), AT_ONCE));
        for _ in 0..100 {
            readiness.seen(|| store.ask()).await.unwrap();
        }
        assert_eq!(store.asked.get(), 1);
        store.answer.set(Err(()));
        advance(READY_FOR).await;
        readiness.seen(|| store.ask()).await.unwrap_err();
        assert_eq!(store.asked.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bad_answer_is_not_kept() {
        let (readiness, store) = (Readiness::default(), Store::that_says(Err(()), AT_ONCE));
        for asked in 1..=3 {
            readiness.seen(|| store.ask()).await.unwrap_err();
            assert_eq!(store.asked.get(), asked);
        }
        store.answer.set(Ok(()));
        readiness.seen(|| store.ask()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_share_one_question_whatever_comes_of_it() {
        for answer in [Ok(()), Err(())] {
            let (readiness, store) = (Readiness::default(), Store::that_says(answer, SLOWLY));
            let begin = Instant::now();
            let waiting = (0..100).map(|_| readiness.seen(|| store.ask()));
            for said in futures::future::join_all(waiting).await {
                assert_eq!(said.is_ok(), answer.is_ok());
            }
            assert_eq!(store.asked.get(), 1);
            assert!(begin.elapsed() < 2 * SLOWLY, "nobody waits for a second question");
            // It took longer than an answer is good for.
            readiness.seen(|| store.ask()).await.ok();
            assert_eq!(store.asked.get(), 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_one_who_asks_goes_away_the_next_one_asks() {
        let (readiness, store) = (Readiness::default(), Store::that_says(Ok(()), SLOWLY));
        let impatient = tokio::time::timeout(Duration::from_secs(1), readiness.seen(|| store.ask()));
        let (gone, said) = tokio::join!(impatient, readiness.seen(|| store.ask()));
        assert!(gone.is_err());
        said.unwrap();
        assert_eq!(store.asked.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn that_the_server_shuts_down_is_told_at_once() {
        let (readiness, closing) = (Readiness::default(), CancellationToken::new());
        let (good, slow) = (Store::that_says(Ok(()), AT_ONCE), Store::that_says(Ok(()), SLOWLY));
        let shutting_down = Problem::shutting_down().body();
        readiness.tell(&closing, || good.ask()).await.unwrap();
        advance(READY_FOR).await;
        let begin = Instant::now();
        let waits = readiness.tell(&closing, || slow.ask());
        let (said, ()) = tokio::join!(waits, async { closing.cancel() });
        assert_eq!(said.unwrap_err().body(), shutting_down, "to whoever waits");
        assert!(begin.elapsed() < SLOWLY);
        let fresh = Readiness::default();
        fresh.tell(&CancellationToken::new(), || good.ask()).await.unwrap();
        let said = fresh.tell(&closing, || good.ask()).await;
        assert_eq!(said.unwrap_err().body(), shutting_down, "though a good answer is known");
    }
}
