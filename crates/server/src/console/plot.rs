//! Plots, drawn in place.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;

use super::parts::{When, exact_span};
use super::pulse::Minute;

const HEIGHT: u64 = 110;
const TOP: u64 = 14;

/// How much happened in each minute of an hour.
#[derive(Template)]
#[template(path = "plot_rates.html")]
pub(crate) struct Rates {
    bars: Vec<Bar>,
    /// The minutes in which something ended, by how long ago they are, the newest first.
    minutes: Vec<(usize, [u64; 3])>,
    most: u64,
    told: String,
    /// When counting began, if that was within the hour.
    since: Option<When>,
}

struct Bar {
    x: u64,
    y: u64,
    height: u64,
    kind: &'static Kind,
}

/// How something can end, told apart by more than its colour.
struct Kind {
    class: &'static str,
    fill: &'static str,
    word: &'static str,
}

impl Kind {
    /// As they stand above each other, from below.
    const ALL: [Self; 3] = [
        Self { class: "good", fill: "currentColor", word: "✓ succeeded" },
        Self { class: "undone", fill: "url(#hatch-undone)", word: "⟲ compensated" },
        Self { class: "bad", fill: "url(#hatch-bad)", word: "✕ failed" },
    ];

    /// How many of each ended in a minute.
    fn counts(minute: &Minute) -> [u64; 3] {
        [minute.succeeded, minute.compensated, minute.failed]
    }
}

impl HtmlSafe for Rates {}

impl Rates {
    pub(crate) fn of(hour: &[Minute], since: Option<When>) -> Self {
        let most = hour.iter().map(Minute::ended).max().unwrap_or_default().max(1);
        let mut bars = Vec::new();
        for (x, minute) in (0..).step_by(10).zip(hour) {
            let mut y = HEIGHT;
            let kinds = Kind::counts(minute).into_iter().zip(&Kind::ALL);
            for (count, kind) in kinds.filter(|(count, _)| *count > 0) {
                // What happened at all is seen.
                let height = (count * (HEIGHT - TOP) / most).max(1);
                y = y.saturating_sub(height);
                bars.push(Bar { x, y, height, kind });
            }
        }
        let sum = |count: fn(&Minute) -> u64| hour.iter().map(count).sum::<u64>();
        let told = format!(
            "{} started, {} succeeded, {} compensated, {} failed in the last hour; at most {most} ended in a minute",
            sum(|it| it.started),
            sum(|it| it.succeeded),
            sum(|it| it.compensated),
            sum(|it| it.failed)
        );
        let minutes = hour.iter().rev().map(Kind::counts).enumerate();
        let minutes = minutes.filter(|(_, counts)| counts.iter().sum::<u64>() > 0).collect();
        Self { bars, minutes, most, told, since }
    }
}

/// How long sagas took in each minute of an hour: half of them, and nearly all.
#[derive(Template)]
#[template(path = "plot_times.html")]
pub(crate) struct Times {
    half: String,
    nearly_all: String,
    most: String,
    told: String,
    /// When counting began, if that was within the hour.
    since: Option<When>,
}

impl HtmlSafe for Times {}

impl Times {
    pub(crate) fn of(hour: &[Minute], since: Option<When>) -> Self {
        let most = hour.iter().filter_map(|minute| minute.took(99)).max().unwrap_or_default().max(1);
        let newest = |percent| hour.iter().rev().find_map(|minute| minute.took(percent));
        let told = match newest(50).zip(newest(99)) {
            Some((half, nearly_all)) => {
                format!(
                    "lately half of them took up to {}, 99 of 100 up to {}",
                    shown(half),
                    shown(nearly_all)
                )
            }
            None => "no saga has ended in the last hour".to_owned(),
        };
        Self {
            half: curve(hour, 50, most),
            nearly_all: curve(hour, 99, most),
            most: shown(most),
            told,
            since,
        }
    }
}

fn shown(micros: u64) -> String {
    exact_span(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// A line through the minutes in which something ended, broken where nothing did.
fn curve(hour: &[Minute], percent: u64, most: u64) -> String {
    let mut path = String::new();
    let mut is_down = false;
    for (x, minute) in (5..).step_by(10).zip(hour) {
        let Some(took) = minute.took(percent) else {
            is_down = false;
            continue;
        };
        let y = HEIGHT
            - u64::try_from(u128::from(took) * u128::from(HEIGHT - TOP) / u128::from(most))
                .unwrap_or(HEIGHT - TOP);
        let step = if std::mem::replace(&mut is_down, true) { 'L' } else { 'M' };
        // Writing to a text cannot fail. A lone minute is a short line.
        let _ = write!(path, "{step}{x} {y}h1");
    }
    path
}
