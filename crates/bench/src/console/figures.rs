//! The time of each page, compared with the goal.

use serde::Serialize;

use super::Failure;
use super::pages::ConsolePage;
use super::visitor::Seen;
use crate::http::figures::Times;

/// The goal for a page, in milliseconds.
const GOAL_MS: f64 = 100.0;

/// The measurement of a page.
pub(super) struct Figure {
    route: &'static str,
    page: String,
    times: Times,
    bytes: usize,
}

/// A printed line.
#[derive(Serialize)]
struct Line<'a> {
    route: &'a str,
    page: &'a str,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    bytes: usize,
    goal_ms: f64,
    holds: bool,
}

impl Figure {
    pub(super) fn of(page: &ConsolePage) -> Result<Self, Failure> {
        Ok(Self { route: page.route, page: page.address.clone(), times: Times::new()?, bytes: 0 })
    }

    pub(super) fn record(&mut self, seen: Seen) {
        self.times.record(seen.took);
        self.bytes = seen.bytes;
    }

    fn line(&self) -> Line<'_> {
        let [p50_ms, p99_ms, max_ms] = [0.5, 0.99, 1.0].map(|quantile| self.times.millis(quantile));
        let (route, page, bytes) = (self.route, &self.page, self.bytes);
        Line { route, page, p50_ms, p99_ms, max_ms, bytes, goal_ms: GOAL_MS, holds: p99_ms < GOAL_MS }
    }
}

/// Prints measurements, and remembers the slowest and the number of slow ones.
pub(super) struct Table {
    json: bool,
    pages: usize,
    slowest: (f64, String),
    broken: usize,
}

impl Table {
    pub(super) fn new(json: bool) -> Result<Self, Failure> {
        if !json {
            crate::print::line(format_args!(
                "{:<64} {:>8} {:>8} {:>8} {:>8}",
                "page", "p50 ms", "p99 ms", "max ms", "bytes"
            ))?;
        }
        Ok(Self { json, pages: 0, slowest: (0.0, String::new()), broken: 0 })
    }

    pub(super) fn print(&mut self, figure: &Figure) -> Result<(), Failure> {
        let line = figure.line();
        self.pages += 1;
        self.broken += usize::from(!line.holds);
        if line.p99_ms > self.slowest.0 {
            self.slowest = (line.p99_ms, figure.page.clone());
        }
        if self.json {
            crate::print::line(format_args!("{}", serde_json::to_string(&line)?))?;
            return Ok(());
        }
        let Line { page, p50_ms, p99_ms, max_ms, bytes, holds, .. } = line;
        let word = if holds { "" } else { "  TOO SLOW" };
        crate::print::line(format_args!(
            "{page:<64} {p50_ms:>8.1} {p99_ms:>8.1} {max_ms:>8.1} {bytes:>8}{word}"
        ))?;
        Ok(())
    }

    /// Fails if a page is too slow.
    pub(super) fn end(self, sagas: u32, store: &str) -> Result<(), Failure> {
        let (slowest, page) = &self.slowest;
        if !self.json {
            let store = store.split([':', '/']).next().unwrap_or_default();
            crate::print::line(format_args!(
                "{} pages with {sagas} sagas on {store}: the slowest is {page}, p99 {slowest:.1} ms; the goal is {GOAL_MS} ms",
                self.pages
            ))?;
        }
        match self.broken {
            0 => Ok(()),
            broken => Err(format!("{broken} of the pages take more than {GOAL_MS} ms").into()),
        }
    }
}
