//! Occasional orders while the demo stays open.

use std::time::Duration;

use super::screen::line;
use super::stage::Stage;
use crate::Failure;

const PAUSE: Duration = Duration::from_secs(3);
/// The items of successive orders.
const ORDERS: [&[&str]; 6] = [
    &["book"],
    &["book", "demo:delay:payment:800ms"],
    &["book", "demo:refuse:inventory"],
    &["book"],
    &["book", "demo:refuse:logistics", "demo:fail-undo:payment:2x"],
    &["book", "demo:drop:logistics"],
];

/// Confirms orders until the demo ends.
pub(super) async fn run(stage: &Stage) -> Result<(), Failure> {
    let address = stage.server.address();
    line("\nStill here, with an order now and then; Ctrl-C ends it");
    line(&format!("   API       http://{address}/v1/orders"));
    line(&format!("   docs      http://{address}/docs"));
    line(&format!("   metrics   http://{address}/metrics"));
    for (number, articles) in (1..).zip(ORDERS.into_iter().cycle()) {
        tokio::time::sleep(PAUSE).await;
        let name = format!("demo-{number}");
        let order = stage.api.confirm(&name, articles).await?;
        let mut progress = stage.api.follow(&order).await?;
        while progress.next().await?.is_some() {}
        let (outcome, log) = (stage.api.outcome(&order).await?, stage.api.log(&order).await?);
        line(&format!("   {name:<9} {outcome:<16} {log}"));
    }
    Ok(())
}
