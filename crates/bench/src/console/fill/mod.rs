//! Writes copies of the models in bulk, as after a month of operation.

mod postgres;
mod sqlite;

use backstitch::SagaId;
use backstitch::clock::{Clock, SystemClock};

use super::Failure;
use super::models::Models;

/// Copies per cycle; each slot copies one model.
const SLOTS: usize = 1000;
/// The range of start times, in microseconds.
const MONTH: i64 = 30 * 24 * 3600 * 1_000_000;

/// How much is written, and the model of each copy.
struct Plan {
    sagas: i64,
    /// The time of the newest copy.
    now: i64,
    /// The interval between sagas, in microseconds.
    step: i64,
    slots: Vec<(SagaId, bool)>,
}

/// Fills the store at this address. No server may run on it.
pub(super) async fn fill(db: &str, models: &Models, sagas: u32) -> Result<(), Failure> {
    let slots: Vec<_> = models
        .0
        .iter()
        .flat_map(|model| std::iter::repeat_n((model.saga, model.only_begun), model.share))
        .collect();
    if slots.len() != SLOTS {
        return Err(format!("the models have {} of {SLOTS} places", slots.len()).into());
    }
    let sagas = i64::from(sagas.max(1));
    let plan = Plan { sagas, now: SystemClock.now().as_micros(), step: (MONTH / sagas).max(1), slots };
    match db.strip_prefix("sqlite:") {
        Some(path) => {
            let path = path.to_owned();
            tokio::task::spawn_blocking(move || sqlite::write(&path, &plan)).await?
        }
        None => postgres::write(db, &plan).await,
    }
}
