//! An order that completes.

use super::super::findings::Findings;
use super::super::stage::{Ending, Stage};
use crate::Failure;

pub(super) async fn play(stage: &Stage) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let order = stage.api.confirm("demo-completes", &["book"]).await?;
    stage.watch(&mut stage.api.follow(&order).await?).await?;
    let ending = Ending {
        outcome: "complete",
        log: "payment U S · inventory U S · logistics U S",
        in_effect: "payment, inventory, logistics",
    };
    stage.compare(&mut findings, &order, &ending).await?;
    Ok(findings)
}
