//! An order that times out at logistics. Its outcome there is unknown, so it is undone too.

use super::super::findings::Findings;
use super::super::services::{Phase, Service};
use super::super::stage::{Ending, Stage};
use crate::Failure;

pub(super) async fn play(stage: &Stage) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let order = stage.api.confirm("demo-times-out", &["book", "demo:hang:logistics"]).await?;
    stage.watch(&mut stage.api.follow(&order).await?).await?;
    let ending = Ending {
        outcome: "failed_refunded",
        log: "payment U S · inventory U S · logistics U F R · inventory R · payment R · D",
        in_effect: "nothing",
    };
    stage.compare(&mut findings, &order, &ending).await?;
    for service in Service::ALL {
        let undone = stage.calls(&order, service, Phase::Undo).len();
        findings.expect(&format!("the number of undos at {}", service.name()), undone, 1);
    }
    Ok(findings)
}
