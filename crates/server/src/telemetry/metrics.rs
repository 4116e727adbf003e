//! Numbers for Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstitch::kernel::lifecycle::{FAILED, INTERNAL};
use backstitch::outbox::{Attempt, Observer, Outcome};
use backstitch::retention::Report;
use backstitch::{Engine, Event, Timestamp};
use backstitch_modules::lifecycles;
use backstitch_modules::webhooks::{self, Attempted, Progress};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder as _, SharedString, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::prefixed::with_prefixed_names;
use super::process::ProcessUsage;
use super::queues::QueueDepth;
use crate::doctor::{Check, Severity};

/// How often what was measured is put into its buckets.
pub(crate) const UPKEEP: Duration = Duration::from_secs(5);

const REQUESTS: &str = "backstitch_http_requests_total";
const LATENCY: &str = "backstitch_http_request_duration_seconds";
const LIFECYCLE_STARTS: &str = "lifecycle_starts_total";
const LIFECYCLE_TRANSITIONS: &str = "lifecycle_transitions_total";
const LIFECYCLE_FAILURES: &str = "lifecycle_failures_total";
const LIFECYCLE_ABANDONED: &str = "lifecycle_abandoned_total";
const DOCTOR_FINDINGS: &str = "backstitch_doctor_findings";
const DOCTOR_LAST_RUN: &str = "backstitch_doctor_last_run_timestamp_seconds";
const REMOVED: &str = "retention_removed_total";
const EXPORTED: &str = "retention_exported_total";
const ATTEMPT_LATENCY: &str = "backstitch_webhook_attempt_duration_seconds";
const QUEUE_PENDING: &str = "backstitch_queue_pending_jobs";
const QUEUE_LEASED: &str = "backstitch_queue_leased_jobs";
const QUEUE_AGE: &str = "backstitch_queue_age_seconds";
const OUTBOX_AGE: &str = "outbox_age_seconds";
pub(super) const SAGA_DURATION: &str = "backstitch_saga_duration_seconds";
pub(super) const STEP_DURATION: &str = "backstitch_step_duration_seconds";
/// From a millisecond to a day: sagas may wait for people.
const DURATION_BUCKETS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0];
/// From a tenth of a millisecond to the longest wait.
const LATENCY_BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// All numbers of one server.
pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    engine: EngineMetrics,
    /// Queues that were shown before: one that is empty now is shown as such.
    queues: Mutex<BTreeSet<String>>,
}

/// What the engine has counted itself.
struct EngineMetrics {
    active: Gauge,
    store_up: Gauge,
    outbox_age: Gauge,
    outbox_oldest: Gauge,
    delivery_oldest: Gauge,
    lifecycles_stuck: Gauge,
    rollbacks_stuck: Gauge,
    workers_waiting: Gauge,
    decisions: Counter,
    transactions: Counter,
    fenced: Counter,
    stale_answers: Counter,
    retention_failed: Counter,
    pages_given_back: Counter,
    held_up: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let long = |builder: PrometheusBuilder, name: &str| {
            builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &DURATION_BUCKETS)
        };
        let buckets = PrometheusBuilder::new()
            .set_buckets(&LATENCY_BUCKETS)
            .and_then(|builder| long(builder, SAGA_DURATION))
            .and_then(|builder| long(builder, STEP_DURATION));
        // Refused only when there are none.
        let recorder = buckets.unwrap_or_else(|_| PrometheusBuilder::new()).build_recorder();
        let counter = |name: &'static str, help: &'static str| {
            describe_counter(&recorder, name, help);
            recorder.register_counter(&Key::from_static_name(name), &METADATA)
        };
        let gauge = |name: &'static str, help: &'static str| {
            recorder.describe_gauge(name.into(), None, help.into());
            recorder.register_gauge(&Key::from_static_name(name), &METADATA)
        };
        let age = |percentile: &'static str| {
            let help = "How long messages have waited to be sent, by percentile; NaN while the database does not answer.";
            recorder.describe_gauge(OUTBOX_AGE.into(), Some(Unit::Seconds), help.into());
            let labels = vec![Label::from_static_parts("percentile", percentile)];
            recorder.register_gauge(&Key::from_parts(OUTBOX_AGE, labels), &METADATA)
        };
        let engine = EngineMetrics {
            decisions: counter("backstitch_decisions_total", "Decisions written."),
            transactions: counter("backstitch_transactions_total", "Transactions they were written in."),
            fenced: counter(
                "backstitch_fenced_total",
                "Decisions refused because another process had the saga.",
            ),
            stale_answers: counter("backstitch_stale_answers_total", "Answers of attempts given up before."),
            retention_failed: counter(
                "retention_failed_total",
                "Times that what is old enough could not be removed.",
            ),
            pages_given_back: counter(
                "retention_pages_given_back_total",
                "Pages of a SQLite file that were given back to the file system.",
            ),
            held_up: gauge("retention_held_up", "1 while what is old enough cannot be removed."),
            active: gauge("backstitch_sagas_active", "Sagas under way in this process."),
            store_up: gauge("backstitch_store_up", "1 while the database answers, 0 while it does not."),
            outbox_age: age("95"),
            outbox_oldest: age("100"),
            rollbacks_stuck: gauge(
                "backstitch_rollbacks_stuck",
                "Sagas whose rollback failed and waits for an operator; NaN while the database does not answer.",
            ),
            workers_waiting: gauge(
                "backstitch_workers_waiting",
                "Requests of workers that wait for a job, in this process.",
            ),
            delivery_oldest: gauge(
                "backstitch_webhook_age_seconds",
                "How long the webhook has been due that has waited longest; NaN while the database does not answer.",
            ),
            lifecycles_stuck: gauge(
                "lifecycle_stuck",
                "Lifecycles that have been in their state for too long; NaN while the database does not answer.",
            ),
        };
        describe_labelled_gauges(&recorder);
        describe_counter(&recorder, REQUESTS, "HTTP requests answered.");
        describe_counter(
            &recorder,
            LIFECYCLE_STARTS,
            "Starts of lifecycles, those that begin again included.",
        );
        describe_counter(
            &recorder,
            LIFECYCLE_TRANSITIONS,
            "Transitions of lifecycles, by the state they led to.",
        );
        describe_counter(&recorder, LIFECYCLE_FAILURES, "Lifecycles that failed, by kind of error.");
        describe_counter(&recorder, LIFECYCLE_ABANDONED, "Lifecycles abandoned in a pause state, by reason.");
        describe_counter(&recorder, REMOVED, "Rows removed because they were over for long enough, by kind.");
        describe_counter(&recorder, EXPORTED, "Documents exported before they were removed, by kind.");
        for (name, help) in [
            (SAGA_DURATION, "Time from a saga's start to its end, by the end."),
            (STEP_DURATION, "Time of a step's attempt on this node, by phase and end."),
        ] {
            recorder.describe_histogram(name.into(), Some(Unit::Seconds), help.into());
        }
        let latency = "Time to answer a request, without the body of a stream.";
        recorder.describe_histogram(LATENCY.into(), Some(Unit::Seconds), latency.into());
        Self { handle: recorder.handle(), recorder, engine, queues: Mutex::default() }
    }

    /// Counts a worker that waits for a job, until the guard is dropped.
    pub(crate) fn waiting_worker(&self) -> WaitingWorker {
        let gauge = self.engine.workers_waiting.clone();
        gauge.increment(1.0);
        WaitingWorker(gauge)
    }

    /// Puts a duration into its histogram.
    pub(super) fn record(&self, name: &'static str, labels: Vec<Label>, took: Duration) {
        self.recorder
            .register_histogram(&Key::from_parts(name, labels), &METADATA)
            .record(took.as_secs_f64());
    }

    /// A counter with labels, for whoever counts something of their own.
    pub(crate) fn counter(&self, name: &'static str, help: &'static str, labels: Vec<Label>) -> Counter {
        describe_counter(&self.recorder, name, help);
        self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
    }

    /// Counts one answered request.
    pub(crate) fn answered(&self, method: &'static str, route: SharedString, status: u16, took: Duration) {
        let labels = vec![Label::new("method", method), Label::new("route", route)];
        let latency = Key::from_parts(LATENCY, labels.clone());
        self.recorder.register_histogram(&latency, &METADATA).record(took.as_secs_f64());
        let mut labels = labels;
        labels.push(Label::new("status", status.to_string()));
        self.recorder.register_counter(&Key::from_parts(REQUESTS, labels), &METADATA).increment(1);
    }

    /// Counts what happened to a lifecycle. Names of machines, states and kinds are those of declarations, so not many.
    pub(crate) fn count_lifecycle(&self, machine: &str, event: &lifecycles::Event) {
        let count = |name, label: Option<(&'static str, &str)>| {
            let mut labels = vec![Label::new("machine", machine.to_owned())];
            labels.extend(label.map(|(name, value)| Label::new(name, value.to_owned())));
            self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA).increment(1);
        };
        match event {
            lifecycles::Event::Started(_) | lifecycles::Event::Restarted { .. } => {
                count(LIFECYCLE_STARTS, None);
            }
            lifecycles::Event::Transitioned { to, error, .. } => {
                count(LIFECYCLE_TRANSITIONS, Some(("to", to)));
                if **to == *FAILED {
                    // Where nobody said what kind of error it is, it is of the kind that says nothing.
                    let kind = error.as_ref().map_or(INTERNAL, |failure| &failure.kind);
                    count(LIFECYCLE_FAILURES, Some(("error_kind", kind)));
                }
            }
            lifecycles::Event::Failed { failure, .. } => {
                count(LIFECYCLE_TRANSITIONS, event.state().map(|state| ("to", state)));
                count(LIFECYCLE_FAILURES, Some(("error_kind", &failure.kind)));
            }
            lifecycles::Event::Abandoned { reason, .. } => {
                count(LIFECYCLE_ABANDONED, Some(("reason", reason.name())));
            }
            lifecycles::Event::ActionRetry { .. } | lifecycles::Event::ActionLeased { .. } => {}
        }
    }

    /// Keeps how many findings each check has, and when they were looked for.
    pub(crate) fn diagnosed(&self, counts: &[(Check, Severity, usize)], at: Timestamp) {
        for (check, severity, count) in counts {
            let labels = vec![
                Label::from_static_parts("check", check.name()),
                Label::from_static_parts("severity", severity.name()),
            ];
            let findings = self.recorder.register_gauge(&Key::from_parts(DOCTOR_FINDINGS, labels), &METADATA);
            findings.set(f64::from(u32::try_from(*count).unwrap_or(u32::MAX)));
        }
        let last_run = self.recorder.register_gauge(&Key::from_static_name(DOCTOR_LAST_RUN), &METADATA);
        last_run.set(Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or_default()).as_secs_f64());
    }

    /// Everything, in Prometheus' words.
    pub(crate) fn render(&self, engine: &Engine, measured: &Measured) -> String {
        let stats = engine.stats();
        self.engine.decisions.absolute(stats.decisions);
        self.engine.transactions.absolute(stats.transactions);
        self.engine.fenced.absolute(stats.fenced);
        self.engine.stale_answers.absolute(stats.stale_answers);
        self.engine.active.set(f64::from(u32::try_from(engine.active()).unwrap_or(u32::MAX)));
        self.engine.store_up.set(if measured.store_up { 1.0 } else { 0.0 });
        let (old, oldest) = measured
            .outbox_age
            .map_or((f64::NAN, f64::NAN), |age| (age.old.as_secs_f64(), age.oldest.as_secs_f64()));
        self.engine.outbox_age.set(old);
        self.engine.outbox_oldest.set(oldest);
        self.engine.delivery_oldest.set(measured.delivery_age.map_or(f64::NAN, |age| age.as_secs_f64()));
        let stuck =
            measured.lifecycles_stuck.map(|stuck| f64::from(u32::try_from(stuck).unwrap_or(u32::MAX)));
        self.engine.lifecycles_stuck.set(stuck.unwrap_or(f64::NAN));
        let rollbacks = measured.rollbacks_stuck.map(as_number);
        self.engine.rollbacks_stuck.set(rollbacks.unwrap_or(f64::NAN));
        self.show_queues(measured.queues.as_ref(), engine.clock().now());
        self.show_removed(&engine.removed());
        let process = ProcessUsage::now().map(ProcessUsage::exposition).unwrap_or_default();
        with_prefixed_names(&self.handle.render()) + &process
    }

    fn show_queues(&self, queues: Option<&BTreeMap<String, QueueDepth>>, now: Timestamp) {
        let mut known = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(queues.into_iter().flat_map(BTreeMap::keys).cloned());
        for queue in &*known {
            let depth = queues.map(|queues| queues.get(queue).copied().unwrap_or_default());
            let age = |depth: QueueDepth| depth.due.map_or(0.0, |due| now.since(due).as_secs_f64());
            let [pending, leased, age] = depth.map_or([f64::NAN; 3], |depth| {
                [as_number(depth.pending), as_number(depth.leased), age(depth)]
            });
            for (name, value) in [(QUEUE_PENDING, pending), (QUEUE_LEASED, leased), (QUEUE_AGE, age)] {
                let key = Key::from_parts(name, vec![Label::new("queue", queue.clone())]);
                self.recorder.register_gauge(&key, &METADATA).set(value);
            }
        }
    }

    fn show_removed(&self, report: &Report) {
        for (name, counts) in [(REMOVED, &report.removed), (EXPORTED, &report.exported)] {
            for (kind, count) in counts {
                let labels = vec![Label::from_static_parts("kind", kind)];
                self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA).absolute(*count);
            }
        }
        self.engine.retention_failed.absolute(report.failed);
        self.engine.pages_given_back.absolute(report.pages_given_back);
        self.engine.held_up.set(f64::from(u8::from(report.held_up.is_some())));
    }

    /// Counts what the outbox does.
    pub(crate) fn outbox(&self) -> OutboxCounters {
        let counter = |name, help| self.counter(name, help, Vec::new());
        OutboxCounters {
            enqueued: counter(
                "outbox_enqueued_total",
                "Messages written to the outbox; each is counted by one node, by the first that takes it up if none wrote it.",
            ),
            sent: counter("outbox_sent_total", "Messages that the other side has."),
            failed: counter("outbox_failed_total", "Sends that failed and are tried again."),
            aborted: counter("outbox_aborted_total", "Messages given up, those that expired included."),
            taken_over: counter(
                "outbox_taken_over_total",
                "Messages whose sender never came back; they are sent again.",
            ),
        }
    }

    /// Counts what becomes of webhooks.
    pub(crate) fn webhooks(&self) -> WebhookCounters {
        let counter = |name, help| self.counter(name, help, Vec::new());
        let latency = "Time that an attempt to deliver a webhook took.";
        self.recorder.describe_histogram(ATTEMPT_LATENCY.into(), Some(Unit::Seconds), latency.into());
        let took = self.recorder.register_histogram(&Key::from_static_name(ATTEMPT_LATENCY), &METADATA);
        WebhookCounters {
            arrived: counter("backstitch_webhook_attempts_succeeded_total", "Attempts that arrived."),
            failed: counter("backstitch_webhook_attempts_failed_total", "Attempts that failed."),
            completed: counter("backstitch_webhook_deliveries_completed_total", "Deliveries that arrived."),
            dead_lettered: counter(
                "backstitch_webhook_deliveries_dead_lettered_total",
                "Deliveries given up.",
            ),
            took,
        }
    }

    /// To be called now and then.
    pub(crate) fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// Counters for what happens to sagas and steps.
    pub(crate) fn event_counters(&self) -> EventCounters {
        let saga = |name, help| self.counter(name, help, Vec::new());
        let step = |kind: &'static str| {
            let labels = vec![Label::from_static_parts("type", kind)];
            (kind, self.counter("backstitch_step_events_total", "Events of steps, by type.", labels))
        };
        EventCounters {
            started: saga("backstitch_sagas_started_total", "Sagas started."),
            succeeded: saga("backstitch_sagas_succeeded_total", "Sagas whose every step succeeded."),
            compensated: saga("backstitch_sagas_compensated_total", "Sagas rolled back."),
            failed: saga("backstitch_sagas_failed_total", "Rollbacks that could not be finished."),
            steps: STEP_EVENTS.map(step),
        }
    }
}

const STEP_EVENTS: [&str; 10] = [
    "step.started",
    "step.leased",
    "step.succeeded",
    "step.failed",
    "step.retry",
    "step.timed_out",
    "step.compensating",
    "step.compensated",
    "step.compensation_failed",
    "step.resolved",
];

/// Counters for what happens to sagas and steps.
pub(crate) struct EventCounters {
    started: Counter,
    succeeded: Counter,
    compensated: Counter,
    failed: Counter,
    steps: [(&'static str, Counter); STEP_EVENTS.len()],
}

impl EventCounters {
    pub(crate) fn count(&self, event: &Event) {
        match event {
            Event::SagaStarted(_) => self.started.increment(1),
            Event::SagaSucceeded => self.succeeded.increment(1),
            Event::SagaCompensated { .. } => self.compensated.increment(1),
            Event::SagaFailed { .. } => self.failed.increment(1),
            other => {
                if let Some((_, counter)) = self.steps.iter().find(|(kind, _)| *kind == other.name()) {
                    counter.increment(1);
                }
            }
        }
    }
}

/// What only the store knows, or nobody while it does not answer.
#[derive(Default)]
pub(crate) struct Measured {
    /// Whether it answers.
    pub(crate) store_up: bool,
    pub(crate) outbox_age: Option<OutboxAge>,
    pub(crate) delivery_age: Option<Duration>,
    pub(crate) lifecycles_stuck: Option<u64>,
    pub(crate) rollbacks_stuck: Option<u64>,
    pub(crate) queues: Option<BTreeMap<String, QueueDepth>>,
}

/// A worker that waits for a job; dropping it ends the wait.
pub(crate) struct WaitingWorker(Gauge);

impl Drop for WaitingWorker {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

fn as_number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// How long messages have waited to be sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct OutboxAge {
    pub(crate) oldest: Duration,
    /// At the 95th percentile.
    pub(crate) old: Duration,
}

/// Counters for what the outbox does.
pub(crate) struct OutboxCounters {
    enqueued: Counter,
    sent: Counter,
    failed: Counter,
    aborted: Counter,
    taken_over: Counter,
}

impl Observer for OutboxCounters {
    fn enqueued(&self, _topic: &str, messages: u64) {
        self.enqueued.increment(messages);
    }

    fn attempted(&self, attempt: &Attempt<'_>) {
        match attempt.outcome {
            Outcome::Sent => self.sent.increment(1),
            Outcome::Failed => self.failed.increment(1),
            Outcome::Aborted => self.aborted.increment(1),
        }
    }

    fn expired(&self, messages: u64) {
        self.aborted.increment(messages);
    }

    fn taken_over(&self, messages: u64) {
        self.taken_over.increment(messages);
    }
}

/// Counters for what becomes of webhooks.
pub(crate) struct WebhookCounters {
    arrived: Counter,
    failed: Counter,
    completed: Counter,
    dead_lettered: Counter,
    took: Histogram,
}

impl webhooks::Observer for WebhookCounters {
    fn attempted(&self, attempt: &Attempted<'_>) {
        let counter = if attempt.error_code.is_none() { &self.arrived } else { &self.failed };
        counter.increment(1);
        if let Some(duration) = attempt.duration {
            self.took.record(duration.as_secs_f64());
        }
    }

    fn progressed(&self, progress: &Progress) {
        let increment =
            |counter: &Counter, by: usize| counter.increment(u64::try_from(by).unwrap_or(u64::MAX));
        increment(&self.completed, progress.completed);
        increment(&self.dead_lettered, progress.dead_lettered);
    }
}

/// Describes the gauges whose labels are known only when they are set.
fn describe_labelled_gauges(recorder: &PrometheusRecorder) {
    let pending = "Jobs that wait for a worker, by queue; 100,000 stands for more, NaN for a database that does not answer.";
    let leased = "Jobs that workers hold a lease for, by queue; 100,000 stands for more, NaN for a database that does not \
                  answer.";
    let age = "How long the first job of a queue has been due; NaN while the database does not answer.";
    for (name, unit, help) in [
        (QUEUE_PENDING, None, pending),
        (QUEUE_LEASED, None, leased),
        (QUEUE_AGE, Some(Unit::Seconds), age),
        (DOCTOR_FINDINGS, None, "What needs a look, by check and severity, when it was last looked for."),
        (DOCTOR_LAST_RUN, Some(Unit::Seconds), "When it was last looked for what is wrong, since 1970."),
    ] {
        recorder.describe_gauge(name.into(), unit, help.into());
    }
}

fn describe_counter(recorder: &PrometheusRecorder, name: &'static str, help: &'static str) {
    recorder.describe_counter(name.into(), None, help.into());
}
