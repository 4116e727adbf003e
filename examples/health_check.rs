//! Monitoring: list sagas, inspect one, and find stuck ones.
//!
//! `cargo run -p backstitch --example health_check`

use std::error::Error;
use std::time::Duration;

use backstitch::{
    Context, Cursor, Engine, Filter, STUCK_AFTER, Saga, Status, Step, StepError, StepResult, Undo, secs,
};

async fn deploy(ctx: Context<String>) -> StepResult<()> {
    match ctx.input().as_str() {
        "bad" => Err(StepError::refused("the image does not start").into()),
        "slow" => {
            tokio::time::sleep(secs(3600)).await;
            Ok(())
        }
        _ => Ok(()),
    }
}

async fn undo_branch(_: Context<String>, _: Undo<()>) -> StepResult<()> {
    Ok(())
}

async fn check_health(engine: &Engine, stuck_after: Duration) -> Result<usize, Box<dyn Error>> {
    let health = engine.health(stuck_after).await?;
    let active: u64 = health.active.values().sum();
    println!("[Health Check] {active} active sagas");
    for saga in &health.stuck {
        println!("[Health Check] Stuck for more than {stuck_after:?}: {} ({})", saga.definition, saga.status);
    }
    Ok(health.stuck.len())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(&format!("sqlite:{}", folder.path().join("sagas.db").display())).await?;
    engine.register(
        Saga::builder("deploy-feature")
            .step(Step::new("create-branch", |_: Context<String>| async { Ok(()) }).compensate(undo_branch))
            .step(Step::new("deploy-service", deploy).timeout(secs(7200)).concurrency(1))
            .build()?,
    )?;

    engine.start("deploy-feature", "good").await?.outcome().await?;
    let bad = engine.start("deploy-feature", "bad").await?;
    bad.clone().outcome().await?;
    engine.start("deploy-feature", "slow").await?;
    engine.start("deploy-feature", "next").await?;

    println!("All sagas, newest first:");
    let page = engine.list(&Filter::default(), &Cursor { before: None, limit: 100 }).await?;
    for saga in &page.items {
        println!("  {} {} since {}", saga.definition, saga.status, saga.updated_at.as_micros());
    }
    let listed: Vec<Status> = page.items.iter().map(|saga| saga.status).collect();
    let expected = [Status::Running, Status::Running, Status::Compensated, Status::Succeeded];
    expect(listed == expected, "there are four sagas")?;

    let rolled_back = Filter { status: Some(Status::Compensated), ..Filter::default() };
    let page = engine.list(&rolled_back, &Cursor { before: None, limit: 100 }).await?;
    expect(page.items.len() == 1 && page.items[0].id == bad.id(), "one of them was rolled back")?;

    println!("That one in detail:");
    let state = engine.load(bad.id()).await?.ok_or("it is there")?;
    println!("{}", serde_json::to_string_pretty(&state)?);
    expect(state.failed_step.is_some_and(|step| step.as_str() == "deploy-service"), "it says why")?;

    expect(check_health(&engine, STUCK_AFTER).await? == 0, "nothing has been active for ten minutes")?;
    // The slow step has time left, so its saga is not stuck. The next saga waits for it without a time limit.
    while check_health(&engine, Duration::ZERO).await? == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    // Dropping the engine releases the active saga: the next engine that opens the file adopts it.
    drop(engine);
    Ok(())
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
