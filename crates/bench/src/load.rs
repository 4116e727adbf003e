//! The load: each user starts a saga, waits for its end, and starts the next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use backstitch::retention::{Retention, SagaAges};
use backstitch::{Engine, Options, Status};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::apart::Beside;
use super::workload::{self, Order};
use super::{Args, Failure, Variant};

/// Sagas compared at both ends of a long run.
const EDGE: u64 = 10_000;

/// When to stop.
#[derive(Clone, Copy)]
pub(super) enum Until {
    After(Duration),
    Sagas(u64),
}

impl Until {
    /// The stop condition of the arguments.
    pub(super) fn of(args: &Args) -> Self {
        args.sagas.map_or(Self::After(Duration::from_secs(args.seconds)), Self::Sagas)
    }
}

/// The result of a run.
#[derive(Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) sagas: u64,
    pub(super) elapsed: Duration,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) commits: u64,
    pub(super) transactions: u64,
    /// The rate of the last 10,000 sagas relative to the first 10,000; only for long runs.
    pub(super) last_to_first: Option<f64>,
    /// The peak memory of the process, if the system reports it.
    pub(super) peak_rss_mb: Option<f64>,
    /// Sagas deleted meanwhile.
    pub(super) removed: u64,
}

/// Runs sagas on the store at this address, or in memory.
pub(super) async fn measure(
    address: Option<&str>,
    variant: Variant,
    concurrency: usize,
    until: Until,
    beside: Beside,
) -> Result<Measured, Failure> {
    let options = Options { retention: retention(beside), ..Options::default() };
    let engine = match address {
        Some(address) => Engine::open_with(address, options).await?,
        None => Engine::in_memory_with(options).await?,
    };
    engine.register(workload::saga(variant)?)?;
    let expected = if variant == Variant::Success { Status::Succeeded } else { Status::Compensated };
    // Prepares statements, pages and the definition, which cost only once per process.
    engine.start(workload::NAME, &Order { order_id: 0 }).await?.outcome().await?;
    let before = engine.stats();
    let clock = Arc::new(Clock::start(until)?);
    let users: Vec<_> =
        (0..concurrency).map(|_| tokio::spawn(user(engine.clone(), clock.clone(), expected))).collect();
    for user in users {
        user.await??;
    }
    let elapsed = clock.began.elapsed();
    let (after, removed) = (engine.stats(), engine.removed().removed.values().sum());
    engine.shutdown().await?;
    let Seen { latency, ends } = clock.seen();
    Ok(Measured {
        sagas: latency.len(),
        elapsed,
        p50_us: latency.value_at_quantile(0.5),
        p99_us: latency.value_at_quantile(0.99),
        commits: after.decisions - before.decisions,
        transactions: after.transactions - before.transactions,
        last_to_first: last_to_first(ends),
        peak_rss_mb: peak_rss_mb(),
        removed,
    })
}

/// Deletes everything that has ended as soon as possible.
fn retention(beside: Beside) -> Retention {
    let at_once = (beside == Beside::Removal).then_some(Duration::from_millis(1));
    Retention {
        sagas: SagaAges { succeeded: at_once, compensated: at_once, failed: at_once },
        ..Retention::default()
    }
}

fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

struct Clock {
    began: Instant,
    until: Until,
    started: AtomicU64,
    /// Shared by all users: separate histograms would use more memory than the measured engine.
    seen: Mutex<Seen>,
}

/// The latencies, and for a long run the times of its first and last sagas.
struct Seen {
    latency: Histogram<u64>,
    ends: Vec<Duration>,
}

impl Clock {
    fn start(until: Until) -> Result<Self, Failure> {
        let seen = Mutex::new(Seen { latency: Histogram::new(3)?, ends: Vec::new() });
        Ok(Self { began: Instant::now(), until, started: AtomicU64::new(0), seen })
    }

    /// The number of the next saga; `None` at the end.
    fn next(&self) -> Option<u64> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let go_on = match self.until {
            Until::After(time) => self.began.elapsed() < time,
            Until::Sagas(sagas) => number < sagas,
        };
        go_on.then_some(number)
    }

    fn ended(&self, number: u64, latency: Duration) -> Result<(), Failure> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.latency.record(u64::try_from(latency.as_micros())?)?;
        if let Until::Sagas(sagas) = self.until
            && (number < EDGE || number + EDGE >= sagas)
        {
            seen.ends.push(self.began.elapsed());
        }
        Ok(())
    }

    /// The observations, after every user has finished.
    fn seen(&self) -> Seen {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Seen { latency: seen.latency.clone(), ends: std::mem::take(&mut seen.ends) }
    }
}

async fn user(engine: Engine, clock: Arc<Clock>, expected: Status) -> Result<(), Failure> {
    while let Some(order_id) = clock.next() {
        let began = Instant::now();
        let outcome = engine.start(workload::NAME, &Order { order_id }).await?.outcome().await?;
        if outcome.status != expected {
            return Err(format!("saga {} ended {} instead of {expected}", outcome.id, outcome.status).into());
        }
        clock.ended(order_id, began.elapsed())?;
    }
    Ok(())
}

fn last_to_first(mut ends: Vec<Duration>) -> Option<f64> {
    let edge = usize::try_from(EDGE).ok()?;
    if ends.len() < 2 * edge {
        return None;
    }
    ends.sort_unstable();
    let first = ends[edge - 1];
    let last = ends[ends.len() - 1].checked_sub(ends[ends.len() - edge])?;
    Some(first.as_secs_f64() / last.as_secs_f64())
}
