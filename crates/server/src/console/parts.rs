//! Small things that many pages show: times, states, ids.

use std::borrow::Borrow;
use std::fmt::Display;

use askama::Template;
use askama::filters::HtmlSafe;
use backstitch::kernel::delivery;
use backstitch::store::outbox;
use backstitch::{Status, StepStatus, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use backstitch_api::time::rfc3339;

/// What cannot stand in an address as it is.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A time: how long ago it was, with the exact one at hand.
#[derive(Clone, Debug, Template)]
#[template(source = r#"<time datetime="{{ exact }}" title="{{ exact }}">{{ told }}</time>"#, ext = "html")]
pub(crate) struct When {
    exact: String,
    told: String,
}

impl HtmlSafe for When {}

impl When {
    pub(crate) fn seen(now: Timestamp, at: Timestamp) -> Self {
        let seconds = (now.as_micros() - at.as_micros()) / 1_000_000;
        let told = match seconds {
            0.. => format!("{} ago", span(seconds)),
            _ => format!("in {}", span(-seconds)),
        };
        Self { exact: rfc3339(at).to_string(), told }
    }
}

/// A stretch of time in one or two words, as people say it.
pub(crate) fn span(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

/// A stretch of time that may be very short.
pub(crate) fn exact_span(micros: i64) -> String {
    match micros {
        ..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
        _ => span(micros / 1_000_000),
    }
}

/// A number that was counted no further than so many.
pub(crate) fn capped(count: u64, most: usize) -> String {
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    if count > most { format!("{most}+") } else { count.to_string() }
}

/// How many sagas are live, which the store counts so far.
pub(crate) fn live(count: u64) -> String {
    capped(count, usize::try_from(backstitch::store::COUNTED).unwrap_or(usize::MAX))
}

/// A name as far as there is room for it.
pub(crate) fn shortened(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// How a state is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It waits.
    Waiting,
    /// Something is being done.
    Busy,
    /// It has come to a good end.
    Good,
    /// It is being undone, or was.
    Undone,
    /// It needs somebody.
    Bad,
    /// It is over and of no interest.
    Quiet,
}

impl Mood {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Busy => "busy",
            Self::Good => "good",
            Self::Undone => "undone",
            Self::Bad => "bad",
            Self::Quiet => "quiet",
        }
    }
}

/// A state: a word and a shape, and a colour for whoever sees it.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"<span class="state {{ mood.class() }}"><span class="shape" aria-hidden="true">{{ shape }}</span>{{ word }}</span>"#,
    ext = "html"
)]
pub(crate) struct State {
    word: String,
    shape: &'static str,
    mood: Mood,
}

impl HtmlSafe for State {}

impl State {
    pub(crate) fn new(word: impl Display, shape: &'static str, mood: Mood) -> Self {
        Self { word: word.to_string(), shape, mood }
    }

    pub(crate) fn of_saga(status: impl Borrow<Status>, paused: impl Borrow<bool>) -> Self {
        let status = *status.borrow();
        if *paused.borrow() && !status.is_terminal() {
            return Self::new(format_args!("{}, paused", status.as_str()), "‖", Mood::Waiting);
        }
        let (shape, mood) = match status {
            Status::Pending => ("○", Mood::Waiting),
            Status::Running => ("▶", Mood::Busy),
            Status::Succeeded => ("✓", Mood::Good),
            Status::Compensating => ("↶", Mood::Undone),
            Status::Compensated => ("⟲", Mood::Undone),
            Status::Failed => ("✕", Mood::Bad),
        };
        Self::new(status.as_str(), shape, mood)
    }

    pub(crate) fn of_delivery(status: delivery::Status) -> Self {
        let (word, shape, mood) = match status {
            delivery::Status::Pending => ("pending", "○", Mood::Waiting),
            delivery::Status::InProgress => ("being sent", "▶", Mood::Busy),
            delivery::Status::PendingRetry => ("failed, tried again", "↻", Mood::Undone),
            delivery::Status::Completed => ("arrived", "✓", Mood::Good),
            delivery::Status::DeadLettered => ("given up", "✕", Mood::Bad),
        };
        Self::new(word, shape, mood)
    }

    pub(crate) fn of_message(status: outbox::Status) -> Self {
        let (shape, mood) = match status {
            outbox::Status::Pending => ("○", Mood::Waiting),
            outbox::Status::Sending => ("▶", Mood::Busy),
            outbox::Status::Failed => ("↻", Mood::Undone),
            outbox::Status::Succeeded => ("✓", Mood::Good),
            outbox::Status::Aborted => ("✕", Mood::Bad),
        };
        Self::new(status.as_str(), shape, mood)
    }

    pub(crate) fn of_subscription(is_disabled: bool, is_failing: bool) -> Self {
        match (is_disabled, is_failing) {
            (true, _) => Self::new("disabled", "‖", Mood::Bad),
            (false, true) => Self::new("enabled, failing", "!", Mood::Undone),
            (false, false) => Self::new("enabled", "✓", Mood::Good),
        }
    }

    pub(crate) fn of_step(status: impl Borrow<StepStatus>) -> Self {
        let (word, shape, mood) = step_look(*status.borrow());
        Self::new(word, shape, mood)
    }
}

/// How a step is told and drawn.
pub(crate) fn step_look(status: StepStatus) -> (&'static str, &'static str, Mood) {
    match status {
        StepStatus::Pending => ("pending", "○", Mood::Waiting),
        StepStatus::Waiting => ("waiting", "⧗", Mood::Waiting),
        StepStatus::Running => ("running", "▶", Mood::Busy),
        StepStatus::Succeeded => ("succeeded", "✓", Mood::Good),
        StepStatus::Failed => ("failed", "✕", Mood::Bad),
        StepStatus::InDoubt => ("in doubt", "?", Mood::Bad),
        StepStatus::Compensating => ("compensating", "↶", Mood::Undone),
        StepStatus::Compensated => ("compensated", "⟲", Mood::Undone),
        StepStatus::CompensationFailed => ("compensation failed", "!", Mood::Bad),
        StepStatus::Skipped => ("skipped", "–", Mood::Quiet),
    }
}

/// An id that can be copied, and followed where it leads somewhere.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"{% if let Some(place) = place %}<a href="{{ place }}"><code>{{ id }}</code></a>{% else %}<code>{{ id }}</code>{% endif %}<button type="button" class="copy" data-copy="{{ id }}" aria-label="copy {{ id }}" hidden>copy</button>"#,
    ext = "html"
)]
pub(crate) struct Id {
    id: String,
    place: Option<String>,
}

impl HtmlSafe for Id {}

impl Id {
    pub(crate) fn of(id: impl Display) -> Self {
        Self { id: id.to_string(), place: None }
    }

    /// The same, leading to this place.
    pub(crate) fn to(id: impl Display, place: impl Display) -> Self {
        Self { id: id.to_string(), place: Some(place.to_string()) }
    }

    /// The same, leading to where things of its kind are.
    pub(crate) fn at(before: &str, id: impl Display) -> Self {
        let id = id.to_string();
        Self { place: Some(format!("{before}{}", utf8_percent_encode(&id, UNSAFE))), id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(seconds: i64) -> String {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        When::seen(at(1_000_000), at(1_000_000 - seconds)).told
    }

    #[test]
    fn times_are_told_by_how_long_ago_they_are() {
        assert_eq!((when(0), when(59), when(60)), ("0 s ago".into(), "59 s ago".into(), "1 min ago".into()));
        assert_eq!((when(7200), when(200_000)), ("2 h ago".into(), "2 d ago".into()));
        assert_eq!(when(-90), "in 1 min");
        assert_eq!((exact_span(999), exact_span(1_500_000)), ("999 µs".into(), "1.5 s".into()));
    }

    #[test]
    fn what_was_not_counted_to_its_end_says_so() {
        assert_eq!((capped(0, 10), capped(10, 10), capped(11, 10)), ("0".into(), "10".into(), "10+".into()));
    }

    #[test]
    fn markup_stays_text() {
        let shown = Id::of("<script>\"'").to_string();
        assert!(!shown.contains("<script>") && !shown.contains("\"'"), "{shown}");
    }
}
