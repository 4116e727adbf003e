//! An order that inventory refuses: the payment is refunded, and nothing else is undone.

use super::super::findings::Findings;
use super::super::services::{Phase, Service};
use super::super::stage::{Ending, Stage};
use crate::Failure;

pub(super) async fn play(stage: &Stage) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let order = stage.api.confirm("demo-refused", &["book", "demo:refuse:inventory"]).await?;
    stage.watch(&mut stage.api.follow(&order).await?).await?;
    let ending = Ending {
        outcome: "failed_refunded",
        log: "payment U S · inventory U F · payment R · D",
        in_effect: "nothing",
    };
    stage.compare(&mut findings, &order, &ending).await?;
    let undone = stage.calls(&order, Service::Inventory, Phase::Undo).len();
    findings.expect("the number of undos at inventory, which did nothing,", undone, 0);
    let later = stage.calls(&order, Service::Logistics, Phase::Do).len();
    findings.expect("the number of calls to logistics, which was never due,", later, 0);
    Ok(findings)
}
