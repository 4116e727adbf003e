//! When what was done: attempts, waits and compensations of each step, to scale.

use askama::Template;
use askama::filters::HtmlSafe;
use backstitch::{Event, Phase, Recorded, StepId, Timestamp};

use crate::console::parts::{exact_span, shortened};

const WIDTH: i64 = 760;
const LEFT: i64 = 170;
const ROW: i64 = 22;
/// Letters of a name that have room before the bars.
const ROOM: usize = 24;
/// Where high bars begin in their row.
const HIGH: i64 = 3;
/// What a bar must be wide to hold its sign.
const SIGN: i64 = 12;

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
    short: String,
    y: i64,
    bars: Vec<Bar>,
}

struct Bar {
    x: i64,
    width: i64,
    look: &'static Look,
    told: String,
    from: String,
    took: String,
}

impl Bar {
    fn has_room(&self) -> bool {
        self.width >= SIGN && !self.look.glyph.is_empty()
    }

    fn middle(&self) -> i64 {
        self.x + self.width / 2
    }
}

/// How a stretch is drawn: attempts high, compensations low, waits as a line; what went well filled, what failed hatched, what is
/// under way hollow. A colour says it again.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    class: &'static str,
    fill: &'static str,
    glyph: &'static str,
    top: i64,
    height: i64,
}

impl Look {
    /// Where its sign stands: in a high bar, above a low one.
    fn sign(&self) -> (i64, &'static str) {
        if self.top > HIGH { (9, "glyph above") } else { (14, "glyph") }
    }

    const fn high(class: &'static str, fill: &'static str, glyph: &'static str) -> Self {
        Self { class, fill, glyph, top: HIGH, height: 14 }
    }

    const fn low(class: &'static str, fill: &'static str, glyph: &'static str) -> Self {
        Self { class, fill, glyph, top: 11, height: 6 }
    }

    const LEGEND: &[(Self, &'static str)] = &[
        (Self::high("good", "currentColor", "✓"), "attempt that succeeded"),
        (Self::high("bad", FAILED, "✕"), "that failed"),
        (Self::high("busy", "none", "▶"), "under way"),
        (Self { class: "waiting", fill: "currentColor", glyph: "", top: 9, height: 2 }, "wait"),
        (Self::low("undone", "currentColor", "⟲"), "compensation that succeeded"),
        (Self::low("bad", FAILED, "!"), "that failed"),
        (Self::low("undone", "none", "↶"), "under way"),
    ];
}

const FAILED: &str = "url(#hatch-bad)";

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
            let (look, told) = look(stretch);
            let took = exact_span(until.as_micros() - stretch.from.as_micros());
            let from = exact_span(stretch.from.as_micros() - first.at.as_micros());
            // What was short is seen all the same.
            Bar { x, width: (to - x).max(2), look, told, from, took }
        };
        let rows: Vec<Row> = (0..)
            .zip(steps)
            .map(|(row, step)| Row {
                name: step.to_string(),
                short: shortened(step.as_str(), ROOM),
                y: row * ROW,
                bars: stretches.iter().filter(|stretch| stretch.step == *step).map(bar).collect(),
            })
            .collect();
        let height = ROW * i64::try_from(rows.len()).unwrap_or_default();
        let began = if first.seq == 1 { "start".to_owned() } else { format!("event {}", first.seq) };
        (!stretches.is_empty()).then(|| Self { rows, height, began, took: exact_span(whole) })
    }
}

fn look(stretch: &Stretch) -> (&'static Look, String) {
    let attempt = stretch.attempt;
    let (nth, told) = match stretch.of {
        Of::Attempt(Phase::Do, Ended::Well) => (0, format!("attempt {attempt}, succeeded")),
        Of::Attempt(Phase::Do, Ended::Badly) => (1, format!("attempt {attempt}, failed")),
        Of::Attempt(Phase::Do, Ended::Not) => (2, format!("attempt {attempt}, under way")),
        Of::Wait => (3, format!("wait after attempt {attempt}")),
        Of::Attempt(Phase::Undo, Ended::Well) => (4, format!("compensation, attempt {attempt}, succeeded")),
        Of::Attempt(Phase::Undo, Ended::Badly) => (5, format!("compensation, attempt {attempt}, failed")),
        Of::Attempt(Phase::Undo, Ended::Not) => (6, format!("compensation, attempt {attempt}, under way")),
    };
    (&Look::LEGEND[nth].0, told)
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
        let bars: Vec<_> = drawn.rows[0].bars.iter().map(|bar| (bar.x, bar.look.glyph)).collect();
        assert_eq!(bars, [(170, "✕"), (243, ""), (317, "✓"), (465, "↶")], "to scale");
        assert_eq!((drawn.began.as_str(), drawn.took.as_str()), ("start", "80 µs"));
        let of_a_page = Timeline::of(&log[1..], [&step].into_iter(), Until::LastEvent).unwrap();
        assert_eq!((of_a_page.began.as_str(), of_a_page.took.as_str()), ("event 2", "30 µs"));
    }

    #[test]
    fn no_two_kinds_of_stretches_differ_by_their_colour_alone() {
        let shape =
            |look: &Look| (look.fill == "none", look.fill == FAILED, look.glyph, look.top, look.height);
        for (nth, (look, words)) in Look::LEGEND.iter().enumerate() {
            for (other, _) in &Look::LEGEND[..nth] {
                assert_ne!(shape(look), shape(other), "{words}");
                let narrow = (look.fill == other.fill, look.top == other.top);
                assert_ne!(narrow, (true, true), "{words}, where there is no room for a sign");
            }
        }
    }

    #[test]
    fn what_is_drawn_stands_beneath_in_words_with_whole_names() {
        let step = StepId::from("a-step-with-a-name-that-is-very-long");
        let undoing = |attempt| Event::StepCompensating { step: step.clone(), attempt, outside: None };
        let log = log(vec![(0, undoing(1)), (10, undoing(2))]);
        let now = Until::Now(Timestamp::from_micros(80));
        let drawn = Timeline::of(&log, [&step].into_iter(), now).unwrap().to_string();
        assert!(drawn.contains(">a-step-with-a-name-that…<title>"), "{drawn}");
        let words = drawn.split("The same in words").nth(1).unwrap();
        for told in [step.as_str(), "compensation, attempt 1, failed", "compensation, attempt 2, under way"] {
            assert!(words.contains(told), "{told}: {words}");
        }
    }
}
