//! `backstitch bench`: load on this machine, compared with a bare loop over the same rows.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic on a closed pipe: use `print`")]

mod apart;
mod console;
mod floor;
mod http;
mod lifecycles;
mod load;
mod outbox;
pub mod print;
mod report;
mod retention;
mod stream;
mod target;
mod webhooks;
mod workload;

use apart::Beside;
use clap::ValueEnum;

pub(crate) use report::RunReport;

/// An error of the benchmark, printed before it exits.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Options of the load.
#[derive(clap::Args)]
pub struct Args {
    /// `memory`, `sqlite`, `sqlite:PATH` or `postgres://…` (a server: the run creates a database there and drops it
    /// afterwards).
    #[arg(long, default_value = "sqlite")]
    store: String,
    /// Every saga succeeds, or its third step fails and two are undone; with both, they alternate and are compared.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "success")]
    variant: Vec<Variant>,
    /// Concurrent sagas; several values are run in turn.
    #[arg(long, value_delimiter = ',', default_value = "1,16,256")]
    concurrency: Vec<usize>,
    /// Seconds per round.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Run this many sagas once instead, and compare the rates of the first and the last 10,000.
    #[arg(long)]
    sagas: Option<u64>,
    /// Rounds of load and floor in turn; the best of each counts.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Print one JSON object per run instead of a table.
    #[arg(long)]
    json: bool,
    /// Fill an outbox with this many messages and measure how fast it empties into the log.
    #[arg(long, value_name = "MESSAGES", num_args = 0..=1, default_missing_value = "50000")]
    outbox: Option<usize>,
    /// Empty it into a stream of this NATS server with `JetStream` instead: the run creates a stream there and removes
    /// it afterwards.
    #[arg(long, value_name = "URL", requires = "outbox")]
    nats: Option<String>,
    /// Send this many events and measure how fast their webhooks are delivered to endpoints on this machine.
    #[arg(long, value_name = "EVENTS", num_args = 0..=1, default_missing_value = "20000")]
    webhooks: Option<usize>,
    /// Measure the latency of webhooks at this many events per second instead of at 60% of the highest rate.
    #[arg(long, value_name = "EVENTS", requires = "webhooks", value_parser = clap::value_parser!(u32).range(1..))]
    paced_at: Option<u32>,
    /// Move sites through their states from outside, and measure transitions per second.
    #[arg(long)]
    lifecycles: bool,
    /// Fill a store with this many sagas and other rows, and measure each page of the console.
    #[arg(long, value_name = "SAGAS", num_args = 0..=1, default_missing_value = "1000000")]
    console: Option<u32>,
    /// Delete ended sagas while others run, and measure the remaining rate.
    #[arg(long)]
    retention: bool,
    #[command(flatten)]
    apart: apart::LoadProcessArgs,
    #[command(flatten)]
    http: http::OverHttp,
}

impl Args {
    /// The kind of store.
    fn store_name(&self) -> String {
        self.store.split([':', '/']).next().unwrap_or_default().to_owned()
    }

    /// Whether a server is measured instead of an engine in this process.
    #[must_use]
    pub fn is_over_http(&self) -> bool {
        self.http.is_asked()
    }
}

/// The Cargo profile this program was built with.
const PROFILE: &str = env!("BACKSTITCH_BUILD_PROFILE");
/// The profile that releases and published figures use.
const RELEASE_PROFILE: &str = "dist";

/// On standard error, because standard output may be JSON.
fn print_profile() {
    if PROFILE == RELEASE_PROFILE {
        crate::print::note(format_args!("built with the profile {PROFILE}"));
    } else {
        crate::print::note(format_args!(
            "built with the profile {PROFILE}: for figures to compare, build with `cargo build --profile {RELEASE_PROFILE}`"
        ));
    }
}

/// The kind of sagas.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    /// Three steps that succeed.
    Success,
    /// The third step is refused, the first two are undone.
    Rollback,
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Rollback => "rollback",
        }
    }
}

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// When the arguments are out of range, or a store, server or service cannot be started.
pub async fn run(args: Args) -> Result<(), Failure> {
    if args.concurrency.contains(&0) || args.rounds == 0 || (args.seconds == 0 && args.sagas.is_none()) {
        return Err("concurrency, rounds and seconds must be at least 1".into());
    }
    if let Some(address) = &args.apart.load {
        return apart::run(&args, address).await;
    }
    print_profile();
    if let Some(messages) = args.outbox {
        return outbox::run(&args, messages).await;
    }
    if let Some(events) = args.webhooks {
        return webhooks::run(&args, events).await;
    }
    if args.retention {
        return retention::run(&args).await;
    }
    if args.lifecycles {
        return lifecycles::run(&args).await;
    }
    if let Some(sagas) = args.console {
        return console::run(&args, sagas).await;
    }
    if args.is_over_http() {
        return http::run(&args).await;
    }
    let mut printer = report::Printer::new(args.json);
    for &concurrency in &args.concurrency {
        let reports = match args.sagas {
            Some(_) => long_runs(&args, concurrency).await?,
            None => rounds(&args, concurrency).await?,
        };
        for report in &reports {
            printer.print(report)?;
        }
    }
    Ok(())
}

/// Load and floor in turn, and the variants in turn, so that all see the same conditions of the machine.
async fn rounds(args: &Args, concurrency: usize) -> Result<Vec<RunReport>, Failure> {
    let mut best: Vec<Best> = args.variant.iter().map(|_| Best::default()).collect();
    for _ in 0..args.rounds {
        for (&variant, best) in args.variant.iter().zip(&mut best) {
            let target = target::Target::make(&args.store).await?;
            let measured =
                apart::measured(&target, variant, concurrency, load::Until::of(args), Beside::Nothing)
                    .await?;
            let mut report = RunReport::of(args, variant, concurrency, &measured);
            report.bytes_per_saga = target.bytes().await?.map(|bytes| bytes / measured.sagas.max(1));
            let floor = floor::measure(&target, &measured).await?;
            target.remove().await?;
            best.take(report, floor);
        }
    }
    let mut reports: Vec<RunReport> = best.into_iter().filter_map(Best::report).collect();
    report::compare(&mut reports);
    Ok(reports)
}

/// The best round of a variant and the best round of its floor.
#[derive(Default)]
struct Best {
    report: Option<RunReport>,
    floor_per_s: Option<f64>,
    /// The largest value of all rounds.
    peak_rss_mb: Option<f64>,
}

impl Best {
    fn take(&mut self, report: RunReport, floor: Option<f64>) {
        self.peak_rss_mb = self.peak_rss_mb.into_iter().chain(report.peak_rss_mb).reduce(f64::max);
        self.floor_per_s = self.floor_per_s.into_iter().chain(floor).reduce(f64::max);
        if self.report.as_ref().is_none_or(|best| best.sagas_per_s < report.sagas_per_s) {
            self.report = Some(report);
        }
    }

    fn report(self) -> Option<RunReport> {
        let mut report = self.report?;
        report.against(self.floor_per_s);
        report.peak_rss_mb = self.peak_rss_mb;
        Some(report)
    }
}

/// Many sagas in one store, to compare the first with the last.
async fn long_runs(args: &Args, concurrency: usize) -> Result<Vec<RunReport>, Failure> {
    let mut reports = Vec::new();
    for &variant in &args.variant {
        let target = target::Target::make(&args.store).await?;
        let measured =
            apart::measured(&target, variant, concurrency, load::Until::of(args), Beside::Nothing).await?;
        let mut report = RunReport::of(args, variant, concurrency, &measured);
        report.bytes_per_saga = target.bytes().await?.map(|bytes| bytes / measured.sagas.max(1));
        target.remove().await?;
        reports.push(report);
    }
    report::compare(&mut reports);
    Ok(reports)
}
