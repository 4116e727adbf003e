//! Copies of the models, written in bulk as they would stand there after a month.

mod postgres;
mod sqlite;

use backstitch::SagaId;
use backstitch::clock::{Clock, SystemClock};

use super::Failure;
use super::models::Models;

/// Places in a row of which each is a copy of one model.
const SLOTS: usize = 1000;
/// The stretch of time in which everything was started, in microseconds.
const MONTH: i64 = 30 * 24 * 3600 * 1_000_000;

/// How much is written, and which model each is a copy of.
struct Plan {
    sagas: i64,
    /// The newest is from now.
    now: i64,
    /// From one saga to the next, in microseconds.
    step: i64,
    slots: Vec<(SagaId, bool)>,
}

/// Fills the store at this address, which no server runs on.
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
