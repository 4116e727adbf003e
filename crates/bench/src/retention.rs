//! Sagas per second while ended ones are deleted, compared with the same load alone.

use serde::Serialize;

use super::apart::{self, Beside};
use super::load::{Measured, Until};
use super::report::{micros, rate, rounded};
use super::target::Target;
use super::{Args, Failure, Variant};

/// Further rounds with deletion, at most, while nothing was deleted.
const MORE_ROUNDS: usize = 20;

/// One run.
#[derive(Serialize)]
struct Figures {
    store: String,
    concurrency: usize,
    undisturbed_per_s: f64,
    undisturbed_p99_ms: f64,
    beside_removal_per_s: f64,
    beside_removal_p99_ms: f64,
    /// The rate with deletion relative to the rate without.
    kept: f64,
    removed_per_s: f64,
}

/// Fills a store with sagas, then runs others in turn without and with deletion. Without deletion the fastest round counts, with
/// deletion the one that deleted most.
pub(super) async fn run(args: &Args) -> Result<(), Failure> {
    if !args.json {
        crate::print::line(format_args!(
            "{:<9} {:>5} {:>12} {:>8} {:>14} {:>8} {:>6} {:>10}",
            "store", "conc", "undisturbed", "p99 ms", "beside removal", "p99 ms", "kept", "removed/s"
        ))?;
    }
    for &concurrency in &args.concurrency {
        let figures = compared(args, concurrency).await?;
        if args.json {
            crate::print::line(format_args!("{}", serde_json::to_string(&figures)?))?;
            continue;
        }
        crate::print::line(format_args!(
            "{:<9} {:>5} {:>12} {:>8} {:>14} {:>8} {:>6} {:>10}",
            figures.store,
            figures.concurrency,
            figures.undisturbed_per_s,
            figures.undisturbed_p99_ms,
            figures.beside_removal_per_s,
            figures.beside_removal_p99_ms,
            figures.kept,
            figures.removed_per_s
        ))?;
    }
    Ok(())
}

async fn compared(args: &Args, concurrency: usize) -> Result<Figures, Failure> {
    let target = Target::make(&args.store).await?;
    let until = Until::of(args);
    let load = async |beside| apart::measured(&target, Variant::Success, concurrency, until, beside).await;
    // Rows to delete.
    load(Beside::Nothing).await?;
    let (mut alone, mut beside): (Option<Measured>, Option<Measured>) = (None, None);
    for _ in 0..args.rounds {
        keep_most(&mut alone, load(Beside::Nothing).await?, |it| it.sagas);
        // If another process had the turn, little or nothing was deleted.
        keep_most(&mut beside, load(Beside::Removal).await?, |it| it.removed);
    }
    // A short load can end before anything was deleted beside it.
    for _ in 0..MORE_ROUNDS {
        if beside.as_ref().is_some_and(|it| it.removed > 0) {
            break;
        }
        keep_most(&mut beside, load(Beside::Removal).await?, |it| it.removed);
    }
    let (Some(alone), Some(beside)) = (alone, beside) else { return Err("there was no round".into()) };
    target.remove().await?;
    Ok(Figures {
        store: args.store_name(),
        concurrency,
        undisturbed_per_s: rounded(rate(&alone), 1),
        undisturbed_p99_ms: micros(alone.p99_us),
        beside_removal_per_s: rounded(rate(&beside), 1),
        beside_removal_p99_ms: micros(beside.p99_us),
        kept: rounded(rate(&beside) / rate(&alone), 3),
        removed_per_s: removed_per_s(&beside),
    })
}

fn keep_most(best: &mut Option<Measured>, measured: Measured, of: impl Fn(&Measured) -> u64) {
    if best.as_ref().is_none_or(|best| of(best) < of(&measured)) {
        *best = Some(measured);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
fn removed_per_s(measured: &Measured) -> f64 {
    rounded(measured.removed as f64 / measured.elapsed.as_secs_f64(), 1)
}
