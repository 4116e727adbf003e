//! How long sagas and attempts of steps take, from the events of this node.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use backstitch::{Event, Phase, SagaEvent, SagaId, StepId, Timestamp};
use metrics::Label;

use super::metrics::{Metrics, SAGA_DURATION, STEP_DURATION};

/// Sagas whose attempts are timed at once. More start untimed: memory must not grow with work that never ends.
const MOST: usize = 100_000;

/// Times attempts from their start to their end.
#[derive(Default)]
pub(crate) struct Durations {
    started: HashMap<SagaId, Vec<(StepId, Phase, Timestamp)>>,
}

impl Durations {
    /// Takes note of an event.
    pub(crate) fn count(&mut self, event: &SagaEvent, metrics: &Metrics) {
        let (saga, at) = (event.saga, event.recorded.at);
        match &event.recorded.event {
            Event::StepStarted { step, .. } => self.start(saga, step, Phase::Do, at),
            Event::StepCompensating { step, .. } => self.start(saga, step, Phase::Undo, at),
            Event::StepSucceeded { step, .. } => self.end(metrics, (saga, step, Phase::Do), at, "succeeded"),
            Event::StepFailed { step, .. } => self.end(metrics, (saga, step, Phase::Do), at, "failed"),
            Event::StepTimedOut { step, .. } => self.end(metrics, (saga, step, Phase::Do), at, "timed_out"),
            Event::StepRetry { step, phase, .. } => self.end(metrics, (saga, step, *phase), at, "failed"),
            Event::StepCompensated { step, .. } => {
                self.end(metrics, (saga, step, Phase::Undo), at, "succeeded");
            }
            Event::StepCompensationFailed { step, .. } => {
                self.end(metrics, (saga, step, Phase::Undo), at, "failed");
            }
            Event::SagaSucceeded => ended(metrics, event, "succeeded"),
            Event::SagaCompensated { .. } => ended(metrics, event, "compensated"),
            Event::SagaFailed { .. } => ended(metrics, event, "failed"),
            _ => {}
        }
        if event.recorded.event.is_terminal() {
            // Attempts that a rollback cut short have no end of their own.
            self.started.remove(&saga);
        }
    }

    fn start(&mut self, saga: SagaId, step: &StepId, phase: Phase, at: Timestamp) {
        let room = self.started.len() < MOST;
        match self.started.entry(saga) {
            Entry::Occupied(mut attempts) => attempts.get_mut().push((step.clone(), phase, at)),
            Entry::Vacant(none) if room => {
                none.insert(vec![(step.clone(), phase, at)]);
            }
            Entry::Vacant(_) => {}
        }
    }

    fn end(
        &mut self,
        metrics: &Metrics,
        (saga, step, phase): (SagaId, &StepId, Phase),
        at: Timestamp,
        end: &'static str,
    ) {
        let Some(attempts) = self.started.get_mut(&saga) else { return };
        let Some(nth) = attempts.iter().position(|(of, in_phase, _)| (of, *in_phase) == (step, phase)) else {
            return;
        };
        let (.., started) = attempts.swap_remove(nth);
        let labels =
            vec![Label::from_static_parts("phase", phase.as_str()), Label::from_static_parts("end", end)];
        metrics.record(STEP_DURATION, labels, at.since(started));
    }
}

fn ended(metrics: &Metrics, event: &SagaEvent, end: &'static str) {
    let Some(took) = since_start(event.saga, event.recorded.at) else { return };
    metrics.record(SAGA_DURATION, vec![Label::from_static_parts("end", end)], took);
}

/// How long the saga has run: its id says when it started.
pub(crate) fn since_start(saga: SagaId, at: Timestamp) -> Option<Duration> {
    let (seconds, nanos) = saga.0.get_timestamp()?.to_unix();
    let micros = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
    Some(at.since(Timestamp::from_micros(micros + i64::from(nanos / 1000))))
}
