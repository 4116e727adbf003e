//! Transitions per second of lifecycles, compared with a bare loop over the same rows.

mod floor;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstitch::outbox::Routes;
use backstitch::{Engine, Options, Payload, StepError};
use backstitch_modules::lifecycles::sites::{self, Endpoints, PATH};
use backstitch_modules::lifecycles::{self, Calls, Errand, Given, Lifecycles, Settings};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::task::JoinSet;

use super::target::Target;
use super::{Args, Failure};

/// One run.
#[derive(Serialize)]
struct Figures {
    store: String,
    concurrency: usize,
    transitions_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    per_transaction: f64,
    floor_per_s: f64,
    floor_ratio: f64,
    bytes_per_transition: Option<u64>,
}

/// Moves sites from outside and prints the rate; the best round counts.
pub(super) async fn run(args: &Args) -> Result<(), Failure> {
    if !args.json {
        crate::print::line(format_args!(
            "{:<9} {:>5} {:>13} {:>8} {:>8} {:>7} {:>9} {:>6} {:>8}",
            "store", "conc", "transitions/s", "p50 ms", "p99 ms", "per tx", "floor/s", "ratio", "B/each"
        ))?;
    }
    for &concurrency in &args.concurrency {
        let mut best: Option<Figures> = None;
        for _ in 0..args.rounds {
            let figures = round(args, concurrency).await?;
            let floor = best.as_ref().map_or(0.0, |best| best.floor_per_s).max(figures.floor_per_s);
            let better = best.as_ref().is_none_or(|best| best.transitions_per_s < figures.transitions_per_s);
            if better {
                best = Some(figures);
            }
            if let Some(best) = &mut best {
                best.floor_per_s = floor;
                best.floor_ratio = best.transitions_per_s / floor;
            }
        }
        let Some(best) = best else { continue };
        if args.json {
            crate::print::line(format_args!("{}", serde_json::to_string(&best)?))?;
            continue;
        }
        crate::print::line(format_args!(
            "{:<9} {:>5} {:>13.0} {:>8.2} {:>8.2} {:>7.1} {:>9.0} {:>6.2} {:>8}",
            best.store,
            best.concurrency,
            best.transitions_per_s,
            best.p50_ms,
            best.p99_ms,
            best.per_transaction,
            best.floor_per_s,
            best.floor_ratio,
            best.bytes_per_transition.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
        ))?;
    }
    Ok(())
}

async fn round(args: &Args, concurrency: usize) -> Result<Figures, Failure> {
    let target = Target::make(&args.store).await?;
    let (engine, lifecycles) = open(&target).await?;
    let began = Instant::now();
    let until = began + Duration::from_secs(args.seconds);
    let mut users = JoinSet::new();
    for user in 0..concurrency {
        let lifecycles = lifecycles.clone();
        users.spawn(async move { provision(&lifecycles, user, until).await });
    }
    let mut latencies = Histogram::<u64>::new(3)?;
    while let Some(user) = users.join_next().await {
        latencies.add(user??)?;
    }
    let elapsed = began.elapsed();
    drop(lifecycles);
    engine.shutdown().await?;
    let transitions = latencies.len();
    let per_transaction = floor::group(&target, transitions).await?;
    let bytes = target.bytes().await?;
    let floor = floor::measure(&target, per_transaction).await?;
    target.remove().await?;
    #[expect(clippy::cast_precision_loss, reason = "figures are shown with a few digits")]
    let (count, millis) =
        (transitions as f64, |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0);
    Ok(Figures {
        store: args.store_name(),
        concurrency,
        transitions_per_s: count / elapsed.as_secs_f64(),
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        per_transaction,
        floor_per_s: floor,
        floor_ratio: 0.0,
        bytes_per_transition: bytes.map(|bytes| bytes / transitions.max(1)),
    })
}

async fn open(target: &Target) -> Result<(Engine, Lifecycles), Failure> {
    let address = target.address().ok_or("lifecycles need a database: use sqlite or postgres://…")?;
    let options =
        Options { products: vec![&lifecycles::SCHEMA], routes: Routes::none(), ..Options::default() };
    let engine = Engine::open_with(&address, options).await?;
    let lifecycles = Lifecycles::open(&engine, Arc::new(Nobody), &Settings::default())?;
    lifecycles.provide_sites(&Endpoints::default()).await?;
    Ok((engine, lifecycles))
}

/// Moves one site after the other to its end; returns the time of each transition in microseconds.
async fn provision(lifecycles: &Lifecycles, user: usize, until: Instant) -> Result<Histogram<u64>, Failure> {
    let mut latencies = Histogram::new(3)?;
    for site in 0.. {
        let key = format!("site-{user}-{site}");
        lifecycles.start(sites::MACHINE, &key, Given::default()).await?;
        for state in &PATH[1..] {
            if Instant::now() >= until {
                return Ok(latencies);
            }
            let began = Instant::now();
            lifecycles.transition(sites::MACHINE, &key, state, None).await?;
            latencies.record(u64::try_from(began.elapsed().as_micros())?)?;
        }
    }
    Ok(latencies)
}

/// The executor of sites that are moved from outside: never called.
struct Nobody;

#[async_trait]
impl Calls for Nobody {
    async fn call(&self, _call: &Payload, _errand: &Errand) -> Result<Payload, StepError> {
        Err(StepError::refused("no calls are configured"))
    }
}
