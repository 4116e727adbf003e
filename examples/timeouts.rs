//! Timeouts for the whole saga and for single steps. A step that never responds is undone too.
//!
//! Time is simulated, so minutes pass at once. `cargo run -p backstitch --example timeouts`

use std::error::Error;
use std::future::pending;
use std::sync::Arc;

use backstitch::clock::TokioClock;
use backstitch::{
    Context, Engine, Event, Options, Resolution, Retry, Run, Saga, SagaState, Status, Step, StepResult, Undo,
    secs,
};
use futures::StreamExt;

async fn reserve(_: Context<String>) -> StepResult<String> {
    Ok("reservation".to_owned())
}

/// Hangs for the input `stuck`.
async fn release(ctx: Context<String>, undo: Undo<String>) -> StepResult<()> {
    if ctx.input() == "stuck" {
        pending::<()>().await;
    }
    println!("       released: {:?}", undo.result);
    Ok(())
}

async fn never_returns(_: Context<String>) -> StepResult<()> {
    pending().await
}

async fn undo_it_anyway(_: Context<String>, undo: Undo<()>) -> StepResult<()> {
    // The action may or may not have taken effect: the compensation must handle both.
    println!("       undone though in doubt, result {:?}", undo.result);
    Ok(())
}

async fn follow(run: Run) -> Result<SagaState, Box<dyn Error>> {
    let begun = tokio::time::Instant::now();
    let mut events = Box::pin(run.events());
    while let Some(recorded) = events.next().await {
        let at = begun.elapsed().as_secs();
        match recorded?.event {
            Event::StepRetry { step, error, .. } => println!("{at:>4} s {step}: {error}, trying again"),
            Event::StepTimedOut { step, .. } => println!("{at:>4} s {step}: given up, in doubt"),
            Event::StepCompensationFailed { step, .. } => println!("{at:>4} s {step}: cannot be undone"),
            _ => {}
        }
    }
    let ended = run.outcome().await?;
    println!("{:>4} s saga {}", begun.elapsed().as_secs(), ended.status);
    Ok(ended)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options { clock: Arc::new(TokioClock::default()), ..Options::default() };
    let engine = Engine::in_memory_with(options).await?;
    engine.register(
        Saga::builder("with-timeouts")
            .step_timeout(secs(60))
            .compensation_timeout(secs(120))
            .retry(Retry::fixed(2, secs(5)))
            .compensation_retry(Retry::fixed(1, secs(5)))
            .continue_on_compensation_failure(false)
            .step(Step::new("first", reserve).compensate(release))
            .step(Step::new("reserve", reserve).compensate(release))
            .step(Step::new("hangs", never_returns).compensate(undo_it_anyway))
            .build()?,
    )?;

    println!("A step that never returns: three attempts of 60 s, 5 s apart, then everything is undone");
    let ended = follow(engine.start("with-timeouts", "plain").await?).await?;
    expect(ended.status == Status::Compensated && ended.compensated().len() == 3, "all is undone")?;

    println!("A compensation that never returns: the rollback stops there and waits for a person");
    let run = engine.start("with-timeouts", "stuck").await?;
    let ended = follow(run.clone()).await?;
    expect(ended.status == Status::Failed, "the rollback cannot be finished")?;
    expect(ended.stuck().iter().any(|step| step.as_str() == "reserve"), "it is stuck at `reserve`")?;
    expect(ended.compensated().len() == 1, "`first` is not undone before `reserve`")?;

    println!("An operator has undone it by hand and resolves the step");
    engine.resolve(run.id(), "reserve", Resolution::Done, "released by hand").await?;
    let ended = run.outcome().await?;
    println!("       saga {}: now `first` is stuck", ended.status);
    engine.resolve(ended.id, "first", Resolution::Skip, "it expires tonight").await?;
    let ended = engine.find(ended.id).await?.outcome().await?;
    println!("       saga {}", ended.status);
    expect(ended.status == Status::Compensated, "the rollback is finished")?;
    Ok(())
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
