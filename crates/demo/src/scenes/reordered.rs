//! The services change their order: a running order keeps the old one, the next order uses the new one.

use super::super::findings::Findings;
use super::super::services::Service;
use super::super::stage::{Ending, Stage};
use crate::Failure;

const INVENTORY_FIRST: [Service; 3] = [Service::Inventory, Service::Payment, Service::Logistics];

pub(super) async fn play(stage: &Stage) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let before = stage.api.confirm("demo-before", &["book", "demo:hang:inventory"]).await?;
    let mut progress = stage.api.follow(&before).await?;
    stage.watch_until_called(&mut progress, &before, Service::Inventory).await?;
    stage.api.apply_order(INVENTORY_FIRST).await?;
    stage.say("While inventory waits, a new order of services is applied: inventory, payment, logistics");
    stage.say("A second order:");
    let after = stage.api.confirm("demo-after", &["book"]).await?;
    stage.watch(&mut stage.api.follow(&after).await?).await?;
    stage.say("The first order, for which inventory answers now:");
    stage.services.release();
    stage.watch(&mut progress).await?;
    let first = Ending {
        outcome: "complete",
        log: "payment U S · inventory U S · logistics U S",
        in_effect: "payment, inventory, logistics",
    };
    stage.compare(&mut findings, &before, &first).await?;
    let second = Ending {
        outcome: "complete",
        log: "inventory U S · payment U S · logistics U S",
        in_effect: "inventory, payment, logistics",
    };
    stage.compare(&mut findings, &after, &second).await?;
    stage.api.apply_order(Service::ALL).await?;
    Ok(findings)
}
