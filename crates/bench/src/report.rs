//! The printed form of a run.

use serde::Serialize;

use super::load::Measured;
use super::{Args, Failure, Variant};

/// One run.
#[derive(Serialize)]
pub(crate) struct RunReport {
    store: String,
    variant: &'static str,
    concurrency: usize,
    pub(super) sagas_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    floor_per_s: Option<f64>,
    floor_ratio: Option<f64>,
    pub(super) bytes_per_saga: Option<u64>,
    pub(super) peak_rss_mb: Option<f64>,
    sagas: u64,
    commits: u64,
    transactions: u64,
    last_to_first: Option<f64>,
    /// The rate relative to the success variant of the same run.
    of_success: Option<f64>,
}

impl RunReport {
    pub(super) fn of(args: &Args, variant: Variant, concurrency: usize, measured: &Measured) -> Self {
        Self {
            store: args.store_name(),
            variant: variant.name(),
            concurrency,
            sagas_per_s: rounded(rate(measured), 1),
            p50_ms: micros(measured.p50_us),
            p99_ms: micros(measured.p99_us),
            floor_per_s: None,
            floor_ratio: None,
            bytes_per_saga: None,
            peak_rss_mb: measured.peak_rss_mb.map(|peak| rounded(peak, 1)),
            sagas: measured.sagas,
            commits: measured.commits,
            transactions: measured.transactions,
            last_to_first: measured.last_to_first.map(|ratio| rounded(ratio, 3)),
            of_success: None,
        }
    }

    pub(super) fn against(&mut self, floor_per_s: Option<f64>) {
        self.floor_per_s = floor_per_s.map(|floor| rounded(floor, 1));
        self.floor_ratio = floor_per_s.map(|floor| rounded(self.sagas_per_s / floor, 3));
    }
}

/// Compares the variants of a run.
pub(super) fn compare(reports: &mut [RunReport]) {
    let success = Variant::Success.name();
    let Some(whole) = reports.iter().find(|report| report.variant == success).map(|it| it.sagas_per_s) else {
        return;
    };
    for report in reports.iter_mut().filter(|report| report.variant != success) {
        report.of_success = Some(rounded(report.sagas_per_s / whole, 3));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
pub(super) fn rate(measured: &Measured) -> f64 {
    measured.sagas as f64 / measured.elapsed.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "a latency is shown with a few digits")]
pub(super) fn micros(value: u64) -> f64 {
    rounded(value as f64 / 1000.0, 3)
}

pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// Prints runs one by one, so that a long benchmark shows early results.
pub(super) struct Printer {
    json: bool,
    headed: bool,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Self { json, headed: false }
    }

    pub(super) fn print(&mut self, report: &RunReport) -> Result<(), Failure> {
        if self.json {
            crate::print::line(format_args!("{}", serde_json::to_string(report)?))?;
            return Ok(());
        }
        if !self.headed {
            self.headed = true;
            crate::print::line(format_args!(
                "{:<9} {:<9} {:>5} {:>10} {:>9} {:>9} {:>10} {:>6} {:>8} {:>8} {:>9} {:>8}",
                "store",
                "variant",
                "conc",
                "sagas/s",
                "p50 ms",
                "p99 ms",
                "floor/s",
                "ratio",
                "B/saga",
                "peak MB",
                "commits/s",
                "per tx"
            ))?;
        }
        let maybe = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        crate::print::line(format_args!(
            "{:<9} {:<9} {:>5} {:>10} {:>9} {:>9} {:>10} {:>6} {:>8} {:>8} {:>9} {:>8}{}{}",
            report.store,
            report.variant,
            report.concurrency,
            report.sagas_per_s,
            report.p50_ms,
            report.p99_ms,
            maybe(report.floor_per_s),
            maybe(report.floor_ratio),
            report.bytes_per_saga.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
            maybe(report.peak_rss_mb),
            report.commits_per_s(),
            report.group(),
            report.last_to_first.map(|ratio| format!("  last/first 10,000: {ratio}")).unwrap_or_default(),
            report.of_success.map(|ratio| format!("  of success: {ratio}")).unwrap_or_default(),
        ))?;
        Ok(())
    }
}

impl RunReport {
    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    fn commits_per_s(&self) -> f64 {
        rounded(self.commits as f64 / self.sagas.max(1) as f64 * self.sagas_per_s, 0)
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    fn group(&self) -> f64 {
        rounded(self.commits as f64 / self.transactions.max(1) as f64, 1)
    }
}
