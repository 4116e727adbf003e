//! Deliveries per second from ingest to the receiver's 2xx, the latency of the first attempt, and the cost of broken
//! endpoints.

mod receiver;
mod stage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::target::Target;
use super::{Args, Failure};
use receiver::Manner;
use stage::Stage;

/// Concurrent senders of events.
const TELLERS: usize = 256;
/// The endpoints; in the run with trouble the last two are broken.
const ENDPOINTS: usize = 10;
const WELL: usize = ENDPOINTS - 2;
/// The share of the capacity at which latency is measured.
const SHARE: f64 = 0.6;
/// Poll interval for the end.
const GLANCE: Duration = Duration::from_millis(2);
/// The interval of a paced run; all due events are sent at once.
const BEAT: Duration = Duration::from_millis(2);
/// The warm-up of a paced run: connections are opened, statements prepared.
const WARM_UP: Duration = Duration::from_secs(1);
/// Ends a run with a missing delivery.
const PATIENCE: Duration = Duration::from_secs(120);

/// One run.
#[derive(Serialize)]
struct Figures {
    store: String,
    events: usize,
    deliveries_per_s: f64,
    bytes_per_delivery: Option<u64>,
    paced_at_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// The rate of working endpoints beside a hanging and a refusing one, relative to their rate without.
    kept_in_trouble: f64,
}

/// Measures and prints; the best round counts.
pub(super) async fn run(args: &Args, events: usize) -> Result<(), Failure> {
    let mut best: Option<Figures> = None;
    for _ in 0..args.rounds {
        let figures = round(args, events).await?;
        if best.as_ref().is_none_or(|best| best.deliveries_per_s < figures.deliveries_per_s) {
            best = Some(figures);
        }
    }
    let Some(best) = best else { return Ok(()) };
    if args.json {
        crate::print::line(format_args!("{}", serde_json::to_string(&best)?))?;
        return Ok(());
    }
    crate::print::line(format_args!(
        "{:<9} {:>8} {:>12} {:>8} {:>10} {:>8} {:>8} {:>8}",
        "store", "events", "delivered/s", "B/each", "paced at/s", "p50 ms", "p99 ms", "trouble"
    ))?;
    crate::print::line(format_args!(
        "{:<9} {:>8} {:>12.0} {:>8} {:>10.0} {:>8.1} {:>8.1} {:>8.2}",
        best.store,
        best.events,
        best.deliveries_per_s,
        best.bytes_per_delivery.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
        best.paced_at_per_s,
        best.p50_ms,
        best.p99_ms,
        best.kept_in_trouble,
    ))?;
    Ok(())
}

async fn round(args: &Args, events: usize) -> Result<Figures, Failure> {
    let (well, bytes) = at_full_speed(args, &[Manner::Takes; ENDPOINTS], events).await?;
    let mut troubled = [Manner::Takes; ENDPOINTS];
    troubled[WELL..].copy_from_slice(&[Manner::NeverAnswers, Manner::Refuses]);
    let (in_trouble, _) = at_full_speed(args, &troubled, events).await?;
    let paced_at = args.paced_at.map_or(rate(events, well.all) * SHARE, f64::from);
    let latencies = paced(args, paced_at).await?;
    let millis = |quantile| Duration::from_micros(latencies.value_at_quantile(quantile)).as_secs_f64() * 1e3;
    Ok(Figures {
        store: args.store_name(),
        events,
        deliveries_per_s: rate(events, well.all),
        bytes_per_delivery: bytes.map(|bytes| bytes / events.max(1) as u64),
        paced_at_per_s: paced_at,
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        kept_in_trouble: well.well.as_secs_f64() / in_trouble.well.as_secs_f64(),
    })
}

/// How long it took.
struct Took {
    /// Until all deliveries are completed.
    all: Duration,
    /// Until all events of the endpoints that always work have arrived.
    well: Duration,
}

/// Sends events as fast as they are accepted.
async fn at_full_speed(
    args: &Args,
    endpoints: &[Manner],
    events: usize,
) -> Result<(Took, Option<u64>), Failure> {
    let target = Target::make(&args.store).await?;
    let stage = Arc::new(Stage::set(&target, endpoints, events).await?);
    let began = Instant::now();
    let telling = tokio::spawn({
        let stage = stage.clone();
        async move {
            let told = |number| {
                let stage = stage.clone();
                async move { stage.ingest(number).await }
            };
            stream::iter(0..events)
                .map(told)
                .buffer_unordered(TELLERS)
                .try_for_each(|()| async { Ok(()) })
                .await
        }
    });
    let goes_well = |number: &usize| number % ENDPOINTS < WELL;
    let arrive = endpoints.iter().filter(|manner| **manner == Manner::Takes).count();
    let arriving = (0..events).filter(|number| number % ENDPOINTS < arrive).count();
    wait(began, || stage.arrivals.count() >= arriving && stage.completed() >= arriving).await?;
    let all = began.elapsed();
    telling.await??;
    let last = (0..events).filter(goes_well).filter_map(|number| stage.arrivals.of_event(number)).max();
    let well = last.map_or(all, |last| last.duration_since(began));
    let stage = Arc::into_inner(stage).ok_or("a sender is still running")?;
    stage.clear().await?;
    let bytes = target.bytes().await?;
    target.remove().await?;
    Ok((Took { all, well }, bytes))
}

/// Sends events at a steady rate; returns the time from each to its first attempt, in microseconds.
async fn paced(args: &Args, per_second: f64) -> Result<Histogram<u64>, Failure> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of events")]
    let due = |elapsed: Duration| (per_second * elapsed.as_secs_f64()) as usize;
    let events = due(WARM_UP + Duration::from_secs(args.seconds)).max(1);
    let target = Target::make(&args.store).await?;
    let stage = Arc::new(Stage::set(&target, &[Manner::Takes; ENDPOINTS], events).await?);
    let (began, mut told, mut telling) =
        (Instant::now(), Vec::with_capacity(events), tokio::task::JoinSet::new());
    let mut beat = tokio::time::interval(BEAT);
    while told.len() < events {
        beat.tick().await;
        let now = Instant::now();
        while told.len() < due(now.duration_since(began)).min(events) {
            let (stage, number) = (stage.clone(), told.len());
            told.push(now);
            telling.spawn(async move { stage.ingest(number).await });
        }
    }
    while let Some(ingested) = telling.join_next().await {
        ingested??;
    }
    wait(began, || stage.arrivals.count() >= events).await?;
    let mut latencies = Histogram::new(3)?;
    for (number, told) in told.into_iter().enumerate().skip(due(WARM_UP)) {
        let arrived = stage.arrivals.of_event(number).ok_or("an event is missing")?;
        let micros = arrived.duration_since(told).as_micros();
        latencies.record(u64::try_from(micros).unwrap_or(u64::MAX))?;
    }
    let stage = Arc::into_inner(stage).ok_or("a sender is still running")?;
    stage.clear().await?;
    target.remove().await?;
    Ok(latencies)
}

async fn wait(began: Instant, done: impl Fn() -> bool) -> Result<(), Failure> {
    while !done() {
        if began.elapsed() > PATIENCE {
            return Err("events are on their way for too long".into());
        }
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
fn rate(events: usize, time: Duration) -> f64 {
    events as f64 / time.as_secs_f64()
}
