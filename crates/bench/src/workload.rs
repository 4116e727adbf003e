//! The measured saga: three steps in this process, each with a compensation.

use backstitch::{Context, Problems, Retry, Saga, Step, StepError, Undo};
use serde::{Deserialize, Serialize};

use super::Variant;

/// Its name.
pub(super) const NAME: &str = "bench";

/// The input of every saga.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) order_id: u64,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    receipt: u64,
}

pub(super) fn saga(variant: Variant) -> Result<Saga, Problems> {
    let last = if variant == Variant::Rollback { refused("ship") } else { accepted("ship") };
    Saga::builder(NAME).step(accepted("pay")).step(accepted("reserve")).step(last).build()
}

fn accepted(id: &str) -> Step<Order, Receipt> {
    undoable(Step::new(
        id,
        |ctx: Context<Order>| async move { Ok(Receipt { receipt: ctx.input().order_id }) },
    ))
}

fn refused(id: &str) -> Step<Order, Receipt> {
    undoable(Step::new(id, |_: Context<Order>| async { Err(StepError::refused("out of stock").into()) }))
}

fn undoable(step: Step<Order, Receipt>) -> Step<Order, Receipt> {
    step.compensate(|_, _: Undo<Receipt>| async { Ok(()) }).retry(Retry::none())
}
