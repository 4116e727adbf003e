//! When what was done: attempts, waits and compensations of each step, to scale.

use askama::Template;
use askama::filters::HtmlSafe;
use backstitch::{Event, Phase, Recorded, StepId, Timestamp};

use crate::console::parts::exact_span;

const WIDTH: i64 = 760;
const LEFT: i64 = 170;
const ROW: i64 = 22;

/// The drawing.
#[derive(Template)]
#[template(path = "sagas/timeline.html")]
pub(super) struct Timeline {
    rows: Vec<Row>,
    height: i64,
    began: String,
    took: String,
}

/// Where a drawing ends that does not show the end of its saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// There are newer events, on another page.
    LastEvent,
    Now(Timestamp),
}

impl HtmlSafe for Timeline {}

struct Row {
    name: String,
    y: i64,
    bars: Vec<Bar>,
}

struct Bar {
    x: i64,
    width: i64,
    class: &'static str,
    told: String,
}

/// A stretch of time in which something was done or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) step: StepId,
    pub(super) from: Timestamp,
    /// Nothing while it goes on.
    pub(super) until: Option<Timestamp>,
    pub(super) of: Of,
    pub(super) attempt: u32,
}

/// What a stretch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Attempt(Phase, Ended),
    /// For the next attempt.
    Wait,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Not,
    Well,
    Badly,
}

/// What the log says, as stretches of time.
pub(super) fn stretches(log: &[Recorded]) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for Recorded { at, event, .. } in log {
        let begun = match event {
            Event::StepStarted { step, attempt, .. } => Some((step, *attempt, Phase::Do)),
            Event::StepCompensating { step, attempt, .. } => Some((step, *attempt, Phase::Undo)),
            _ => None,
        };
        if let Some((step, attempt, phase)) = begun {
            end(&mut all, step, *at, Ended::Badly);
            let of = Of::Attempt(phase, Ended::Not);
            all.push(Stretch { step: step.clone(), from: *at, until: None, of, attempt });
            continue;
        }
        match event {
            Event::StepSucceeded { step, .. } | Event::StepCompensated { step, .. } => {
                end(&mut all, step, *at, Ended::Well);
            }
            Event::StepFailed { step, .. }
            | Event::StepTimedOut { step, .. }
            | Event::StepCompensationFailed { step, .. } => end(&mut all, step, *at, Ended::Badly),
            Event::StepRetry { step, attempt, .. } => {
                end(&mut all, step, *at, Ended::Badly);
                all.push(Stretch {
                    step: step.clone(),
                    from: *at,
                    until: None,
                    of: Of::Wait,
                    attempt: *attempt,
                });
            }
            _ => {}
        }
    }
    all
}

/// Ends what goes on of a step.
fn end(all: &mut [Stretch], step: &StepId, at: Timestamp, how: Ended) {
    let open = all.iter_mut().rev().find(|stretch| stretch.step == *step);
    if let Some(stretch) = open.filter(|stretch| stretch.until.is_none()) {
        stretch.until = Some(at);
        if let Of::Attempt(phase, Ended::Not) = stretch.of {
            stretch.of = Of::Attempt(phase, how);
        }
    }
}

impl Timeline {
    /// Nothing while nothing was begun.
    pub(super) fn of<'a>(
        log: &[Recorded],
        steps: impl Iterator<Item = &'a StepId>,
        until: Until,
    ) -> Option<Self> {
        let stretches = stretches(log);
        let (first, last) = (log.first()?, log.last()?);
        let end = match until {
            Until::Now(now) if !last.event.is_terminal() => now.max(last.at),
            Until::Now(_) | Until::LastEvent => last.at,
        };
        let whole = (end.as_micros() - first.at.as_micros()).max(1);
        let place = |at: Timestamp| {
            let passed = i128::from((at.as_micros() - first.at.as_micros()).clamp(0, whole));
            LEFT + i64::try_from(passed * i128::from(WIDTH - LEFT) / i128::from(whole)).unwrap_or_default()
        };
        let bar = |stretch: &Stretch| {
            let until = stretch.until.unwrap_or(end);
            let (x, to) = (place(stretch.from), place(until));
            let (class, what) = look(stretch);
            let took = exact_span(until.as_micros() - stretch.from.as_micros());
            // What was short is seen all the same.
            Bar { x, width: (to - x).max(2), class, told: format!("{what}, {took}") }
        };
        let rows: Vec<Row> = (0..)
            .zip(steps)
            .map(|(row, step)| Row {
                name: step.to_string(),
                y: row * ROW,
                bars: stretches.iter().filter(|stretch| stretch.step == *step).map(bar).collect(),
            })
            .collect();
        let height = ROW * i64::try_from(rows.len()).unwrap_or_default();
        let began = if first.seq == 1 { "start".to_owned() } else { format!("event {}", first.seq) };
        (!stretches.is_empty()).then(|| Self { rows, height, began, took: exact_span(whole) })
    }
}

fn look(stretch: &Stretch) -> (&'static str, String) {
    let attempt = stretch.attempt;
    match stretch.of {
        Of::Wait => ("waiting", format!("wait after attempt {attempt}")),
        Of::Attempt(Phase::Do, Ended::Well) => ("good", format!("attempt {attempt}, succeeded")),
        Of::Attempt(Phase::Do, Ended::Badly) => ("bad", format!("attempt {attempt}, failed")),
        Of::Attempt(Phase::Do, Ended::Not) => ("busy", format!("attempt {attempt}, under way")),
        Of::Attempt(Phase::Undo, Ended::Well) => {
            ("undone", format!("compensation, attempt {attempt}, succeeded"))
        }
        Of::Attempt(Phase::Undo, Ended::Badly) => ("bad", format!("compensation, attempt {attempt}, failed")),
        Of::Attempt(Phase::Undo, Ended::Not) => {
            ("undone", format!("compensation, attempt {attempt}, under way"))
        }
    }
}

#[cfg(test)]
mod tests {
    use backstitch::{ErrorKind, Payload, StepError};

    use super::*;

    fn log(events: Vec<(i64, Event)>) -> Vec<Recorded> {
        let numbered = (1..).zip(events);
        numbered.map(|(seq, (at, event))| Recorded { seq, at: Timestamp::from_micros(at), event }).collect()
    }

    #[test]
    fn attempts_waits_and_compensations_are_stretches() {
        let (step, error) = (StepId::from("pay"), StepError::new(ErrorKind::Failed, "no"));
        let started = |attempt| Event::StepStarted { step: step.clone(), attempt, outside: None };
        let retry_at = Timestamp::from_micros(20);
        let retry = Event::StepRetry {
            step: step.clone(),
            phase: Phase::Do,
            attempt: 1,
            max_attempts: 2,
            error,
            retry_at,
        };
        let succeeded = Event::StepSucceeded { step: step.clone(), attempt: 2, result: Payload::null() };
        let undoing = Event::StepCompensating { step: step.clone(), attempt: 1, outside: None };
        let log = log(vec![(0, started(1)), (10, retry), (20, started(2)), (30, succeeded), (40, undoing)]);
        let found: Vec<_> = stretches(&log)
            .into_iter()
            .map(|it| (it.from.as_micros(), it.until.map(Timestamp::as_micros), it.of))
            .collect();
        let expected = [
            (0, Some(10), Of::Attempt(Phase::Do, Ended::Badly)),
            (10, Some(20), Of::Wait),
            (20, Some(30), Of::Attempt(Phase::Do, Ended::Well)),
            (40, None, Of::Attempt(Phase::Undo, Ended::Not)),
        ];
        assert_eq!(found, expected);
        let drawn = Timeline::of(&log, [&step].into_iter(), Until::Now(Timestamp::from_micros(80))).unwrap();
        let bars: Vec<_> = drawn.rows[0].bars.iter().map(|bar| (bar.x, bar.class)).collect();
        assert_eq!(bars, [(170, "bad"), (243, "waiting"), (317, "good"), (465, "undone")], "to scale");
        assert_eq!((drawn.began.as_str(), drawn.took.as_str()), ("start", "80 µs"));
        let of_a_page = Timeline::of(&log[1..], [&step].into_iter(), Until::LastEvent).unwrap();
        assert_eq!((of_a_page.began.as_str(), of_a_page.took.as_str()), ("event 2", "30 µs"));
    }
}
