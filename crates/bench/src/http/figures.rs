//! Measurements compared with their limits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::Failure;
use super::program::Program;

/// One line of the table.
#[derive(Serialize)]
pub(super) struct Figure {
    /// The clause of the requirement, or the measured quantity.
    pub(super) clause: String,
    pub(super) what: String,
    pub(super) limit: Option<String>,
    pub(super) measured: String,
    /// Whether the limit holds; none without a limit.
    pub(super) holds: Option<bool>,
}

impl Figure {
    /// A measurement without a limit.
    pub(super) fn plain(clause: &str, what: impl Into<String>, measured: String) -> Self {
        Self { clause: clause.to_owned(), what: what.into(), limit: None, measured, holds: None }
    }

    /// A measurement with a limit.
    pub(super) fn limited(clause: &str, what: &str, limit: &str, measured: String, holds: bool) -> Self {
        let limit = Some(limit.to_owned());
        Self { clause: clause.to_owned(), what: what.to_owned(), limit, measured, holds: Some(holds) }
    }

    /// The server's peak memory.
    pub(super) fn of_memory(server: &Program) -> Self {
        let measured = server.peak_mb().map_or_else(|| "unknown".to_owned(), |peak| format!("{peak:.0} MB"));
        Self::plain("memory", "the server's own peak so far", measured)
    }
}

/// Prints measurements and remembers whether all limits hold.
pub(super) struct Table {
    json: bool,
    begun: bool,
    broken: usize,
}

impl Table {
    pub(super) fn new(json: bool) -> Self {
        Self { json, begun: false, broken: 0 }
    }

    pub(super) fn print(&mut self, figure: &Figure) -> Result<(), Failure> {
        if figure.holds == Some(false) {
            self.broken += 1;
        }
        if self.json {
            crate::print::line(format_args!("{}", serde_json::to_string(figure)?))?;
            return Ok(());
        }
        if !std::mem::replace(&mut self.begun, true) {
            crate::print::line(format_args!("{:<8} {:<50} {:<32} measured", "clause", "what", "limit"))?;
        }
        let holds = match figure.holds {
            None => "",
            Some(true) => "holds",
            Some(false) => "DOES NOT HOLD",
        };
        let limit = figure.limit.as_deref().unwrap_or_default();
        crate::print::line(format_args!(
            "{:<8} {:<50} {limit:<32} {}  {holds}",
            figure.clause, figure.what, figure.measured
        ))?;
        Ok(())
    }

    /// Fails if a limit does not hold.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self.broken {
            0 => Ok(()),
            broken => Err(format!("{broken} of the limits do not hold").into()),
        }
    }
}

/// A histogram of times, in microseconds.
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self(Histogram::new(3)?))
    }

    pub(crate) fn record(&mut self, time: Duration) {
        // The histogram resizes itself, so this cannot fail.
        let _ = self.0.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<(), Failure> {
        Ok(self.0.add(&other.0)?)
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn millis(&self, quantile: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "no time here comes near 2^52 microseconds")]
        let micros = self.0.value_at_quantile(quantile) as f64;
        micros / 1000.0
    }

    pub(super) fn shown(&self) -> String {
        format!("p50 {:.1} ms, p99 {:.1} ms", self.millis(0.5), self.millis(0.99))
    }
}

/// A count per second.
pub(super) fn rate(count: u64, elapsed: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "the counts are small")]
    let count = count as f64;
    count / elapsed.as_secs_f64()
}

/// A percentage.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "the counts are small")]
    let (part, whole) = (part as f64, whole.max(1) as f64);
    100.0 * part / whole
}
