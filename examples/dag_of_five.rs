//! Steps with dependencies: independent steps run in parallel.
//!
//! The engine runs in memory, because nothing here must survive the process. Time is simulated, so hours of work pass
//! at once.
//! `cargo run -p backstitch --example dag_of_five`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::TokioClock;
use backstitch::{
    Context, Engine, Event, Options, Retry, Saga, SagaState, Status, Step, StepError, Undo, secs,
};
use futures::StreamExt;

const HOUR: Duration = secs(3600);

/// A step that takes a while. The input names the step that fails.
fn work(id: &'static str, hours: u32) -> Step<String, String> {
    Step::new(id, move |ctx: Context<String>| async move {
        tokio::time::sleep(hours * HOUR).await;
        if ctx.input() == id {
            Err(StepError::refused("it does not work").into())
        } else {
            Ok(format!("{id} is ready"))
        }
    })
    .compensate(move |_, _: Undo<String>| async move {
        println!("         {id} is thrown away");
        Ok(())
    })
    .timeout(30 * HOUR)
    .retry(Retry::none())
}

fn saga() -> Result<Saga, backstitch::Problems> {
    Saga::builder("complex-feature")
        .step(work("design-architecture", 2))
        .step(work("design-database", 3).depends_on(["design-architecture"]))
        .step(work("implement-backend", 4).depends_on(["design-database"]))
        .step(work("implement-frontend", 6).depends_on(["design-architecture"]))
        .step(work("run-tests", 1).depends_on(["implement-backend", "implement-frontend"]))
        .build()
}

/// Runs it and prints the hour in which each step began and ended.
async fn run(engine: &Engine, breaks_at: &str) -> Result<SagaState, Box<dyn Error>> {
    let begun = tokio::time::Instant::now();
    let run = engine.start("complex-feature", breaks_at).await?;
    let mut events = Box::pin(run.events());
    while let Some(recorded) = events.next().await {
        let hour = begun.elapsed().as_secs() / HOUR.as_secs();
        match recorded?.event {
            Event::StepStarted { step, .. } => println!("hour {hour:>2}: {step} begins"),
            Event::StepSucceeded { step, .. } => println!("hour {hour:>2}: {step} is done"),
            Event::StepFailed { step, error, .. } => println!("hour {hour:>2}: {step} fails: {error}"),
            _ => {}
        }
    }
    let ended = run.outcome().await?;
    println!("{} after {} hours", ended.status, begun.elapsed().as_secs() / HOUR.as_secs());
    Ok(ended)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options { clock: Arc::new(TokioClock::default()), ..Options::default() };
    let engine = Engine::in_memory_with(options).await?;
    engine.register(saga()?)?;

    println!("All goes well: backend and frontend begin as soon as what they need is there");
    let begun = tokio::time::Instant::now();
    expect(run(&engine, "").await?.succeeded(), "all steps succeed")?;
    // In sequence it would take 16 hours.
    expect(begun.elapsed().as_secs() / HOUR.as_secs() == 10, "the longest way takes ten hours")?;

    println!("The tests fail: what was finished last is undone first");
    let ended = run(&engine, "run-tests").await?;
    expect(ended.status == Status::Compensated && ended.compensated().len() == 4, "all is undone")?;
    Ok(())
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
