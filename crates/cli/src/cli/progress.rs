//! Live progress of a saga: bars on a terminal, otherwise lines, or JSON for programs.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::event::{Course, Event, StepCourse};
use super::output::Output;
use super::status::{Meaning, worded};
use crate::commands::Failure;

/// The refresh interval of running bars.
const TICK: Duration = Duration::from_millis(100);
/// Lines besides those of the steps: the saga's own, and the prompt.
const BESIDE: usize = 3;

/// Shows events.
pub(crate) struct Progress {
    output: Output,
    course: Course,
    bars: Option<Bars>,
}

impl Progress {
    pub(crate) fn of(saga: &Value, course: Course, output: Output) -> Self {
        let bars = output.is_live.then(|| Bars::of(saga, &course, output.colours));
        Self { output, course, bars }
    }

    /// Shows an event with its JSON.
    pub(crate) fn event(&mut self, event: &Event, json: &str) -> Result<(), Failure> {
        let place = self.course.take(event);
        if self.output.json {
            return Ok(self.output.json(json)?);
        }
        match &self.bars {
            Some(bars) => bars.show(&self.course, place),
            None => self.output.line(&event.line())?,
        }
        Ok(())
    }

    /// Prints a message beside the events.
    pub(crate) fn aside(&self, text: &str) {
        match &self.bars {
            // Errors of a closed terminal are irrelevant.
            Some(bars) => drop(bars.all.println(text)),
            None => self.output.aside(text),
        }
    }

    /// Leaves the bars on the screen.
    pub(crate) fn end(&self) {
        if let Some(bars) = &self.bars {
            bars.leave();
        }
    }

    pub(crate) fn why(&self) -> Option<&str> {
        self.course.why.as_deref()
    }
}

/// A bar for each step, which fills as it runs and empties as it is undone, and one for the saga.
struct Bars {
    all: MultiProgress,
    saga: ProgressBar,
    steps: Vec<ProgressBar>,
    colours: bool,
}

impl Bars {
    fn of(saga: &Value, course: &Course, colours: bool) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let length = u64::try_from(course.steps.len()).unwrap_or(u64::MAX);
        let whole = all.add(ProgressBar::new(length));
        let definition = super::table::plain(&saga["definition"]);
        whole.set_prefix(definition);
        let rows = usize::from(console::Term::stdout().size().0);
        // More bars than lines would scroll off the screen; then only the saga's own bar is shown.
        let fits = course.steps.len() + BESIDE <= rows;
        let bars = Self { saga: whole, steps: Vec::new(), all, colours };
        let steps = if fits { course.steps.as_slice() } else { &[] };
        let steps = steps.iter().map(|_| bars.all.add(ProgressBar::new(2))).collect();
        let bars = Self { steps, ..bars };
        // Before drawing, or the saga's bar would have a step's style.
        bars.show(course, None);
        for place in 0..bars.steps.len() {
            bars.show_step(place, &course.steps[place]);
        }
        bars.saga.enable_steady_tick(TICK);
        bars
    }

    fn show(&self, course: &Course, place: Option<usize>) {
        let (done, steps) = (course.done(), course.steps.len());
        let meaning = Meaning::of(course.status);
        self.saga.set_style(style("{prefix} {bar:20} {wide_msg}", meaning, self.colours));
        self.saga.set_position(u64::try_from(done).unwrap_or(u64::MAX));
        self.saga.set_message(format!("{} {done}/{steps}", worded(course.status)));
        if let Some(place) = place {
            self.show_step(place, &course.steps[place]);
        }
    }

    fn show_step(&self, place: usize, step: &StepCourse) {
        let Some(bar) = self.steps.get(place) else { return };
        let meaning = Meaning::of(step.status);
        let moves = matches!(meaning, Meaning::Busy | Meaning::Undoing);
        let template = if moves { "  {spinner} {bar:8} {wide_msg}" } else { "  {prefix} {bar:8} {wide_msg}" };
        bar.set_style(style(template, meaning, self.colours));
        bar.set_prefix(meaning.shape());
        bar.set_position(match step.status {
            "succeeded" => 2,
            "running" | "compensating" | "in_doubt" | "compensation_failed" => 1,
            _ => 0,
        });
        let status = step.status.replace('_', " ");
        let what = if step.what.is_empty() { String::new() } else { format!(": {}", step.what) };
        bar.set_message(format!("{} {status}{what}", step.id));
        if moves {
            bar.enable_steady_tick(TICK);
        } else {
            bar.disable_steady_tick();
            bar.tick();
        }
    }

    fn leave(&self) {
        for bar in self.steps.iter().chain([&self.saga]) {
            bar.disable_steady_tick();
            bar.abandon();
        }
    }
}

fn style(template: &str, meaning: Meaning, colours: bool) -> ProgressStyle {
    let colour = match meaning {
        Meaning::Good => "green",
        Meaning::Bad => "red",
        Meaning::Undoing | Meaning::Undone | Meaning::Doubtful | Meaning::Warning => "yellow",
        Meaning::Busy | Meaning::Waiting | Meaning::Left => "cyan",
    };
    let template = if colours {
        let coloured = |template: String, part: &str| {
            template.replace(&format!("{{{part}}}"), &format!("{{{part}:.{colour}}}"))
        };
        let bars = template.replace(":20}", &format!(":20.{colour}}}"));
        let bars = bars.replace(":8}", &format!(":8.{colour}}}"));
        coloured(coloured(bars, "spinner"), "prefix")
    } else {
        template.to_owned()
    };
    // The templates above are valid; an invalid one would fall back to the crate's default.
    ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▌░")
}
