//! An order with a refund that runs out of retries: an operator is alerted, refunds by hand, and resolves the step.

use super::super::findings::Findings;
use super::super::services::{Phase, Service};
use super::super::settings::ROLLBACK_RETRIES;
use super::super::stage::{Ending, Stage};
use crate::Failure;

pub(super) async fn play(stage: &Stage) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let wishes = ["book", "demo:refuse:inventory", "demo:fail-undo:payment"];
    let order = stage.api.confirm("demo-refund-fails", &wishes).await?;
    let mut progress = stage.api.follow(&order).await?;
    stage.watch(&mut progress).await?;
    let stuck = Ending {
        outcome: "rollback_failed",
        log: "payment U S · inventory U F · payment RF",
        in_effect: "payment",
    };
    stage.compare(&mut findings, &order, &stuck).await?;
    let tries = stage.calls(&order, Service::Payment, Phase::Undo).len();
    findings.expect("the number of tries to refund", u32::try_from(tries)?, 1 + ROLLBACK_RETRIES);
    let told = stage.administrator.told(&stage.api, &order).await?;
    stage.say(&format!("Alert: {told}"));
    stage.administrator.undo_by_hand(&stage.services, &order, Service::Payment).await?;
    stage.api.resolve_as_done(&order, Service::Payment.name(), "refunded at the bank's counter").await?;
    progress.resume().await?;
    stage.watch(&mut progress).await?;
    let resolved = Ending {
        outcome: "failed_refunded",
        log: "payment U S · inventory U F · payment RF · D",
        in_effect: "nothing",
    };
    stage.compare(&mut findings, &order, &resolved).await?;
    Ok(findings)
}
