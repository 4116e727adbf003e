//! The server is killed during a call to inventory. The restarted server repeats the call under the same key.

use super::super::findings::Findings;
use super::super::services::{Phase, Service};
use super::super::stage::{Ending, Stage};
use crate::Failure;

pub(super) async fn play(stage: &mut Stage) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let order = stage.api.confirm("demo-killed", &["book", "demo:hang:inventory:1x"]).await?;
    let mut progress = stage.api.follow(&order).await?;
    stage.watch_until_called(&mut progress, &order, Service::Inventory).await?;
    let killed = stage.server.id().unwrap_or_default();
    stage.server.kill().await?;
    stage
        .say(&format!("kill -9 {killed}: the server is gone, inventory has done its part and cannot say so"));
    stage.server.restart().await?;
    stage.say(&format!("Restarted as process {}", stage.server.id().unwrap_or_default()));
    progress.resume().await?;
    stage.watch(&mut progress).await?;
    let ending = Ending {
        outcome: "complete",
        log: "payment U S · inventory U U S · logistics U S",
        in_effect: "payment, inventory, logistics",
    };
    stage.compare(&mut findings, &order, &ending).await?;
    let calls = stage.calls(&order, Service::Inventory, Phase::Do);
    findings.expect("the number of calls to inventory", calls.len(), 2);
    if calls.iter().any(|call| call.key != calls[0].key) {
        findings.mistake("inventory was asked again under another key");
    }
    Ok(findings)
}
