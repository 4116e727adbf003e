//! A call to an unreliable service: ten seconds of timeout, three retries two seconds apart.
//!
//! The service and the time are simulated. `cargo run -p backstitch --example api_call_with_retries`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstitch::clock::TokioClock;
use backstitch::{
    Context, Engine, Event, Options, Retry, Saga, SagaState, Status, Step, StepError, StepResult, StepStatus,
    Undo, secs,
};
use futures::StreamExt;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Integration {
    api_url: String,
}

/// Two responses that ask for a retry, a timeout, then a success; or no success at all.
async fn call_external_api(ctx: Context<Integration>) -> StepResult<String> {
    let url = &ctx.input().api_url;
    match CALLS.fetch_add(1, Ordering::Relaxed) + 1 {
        2 => std::future::pending().await,
        4 if url.ends_with("/good") => Ok(format!("answer of {url}")),
        _ => Err(StepError::not_done("503 Service Unavailable").with_code("API_CALL_FAILED").into()),
    }
}

async fn undo_the_call(ctx: Context<Integration>, undo: Undo<String>) -> StepResult<()> {
    let known = if undo.result.is_some() { "it was done" } else { "perhaps it was done" };
    println!("  POST {}/undo ({known})", ctx.input().api_url);
    UNDONE.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn run(engine: &Engine, api_url: &str) -> Result<SagaState, Box<dyn Error>> {
    println!("Calling {api_url}");
    CALLS.store(0, Ordering::Relaxed);
    let begun = tokio::time::Instant::now();
    let run = engine.start("api-integration", &Integration { api_url: api_url.into() }).await?;
    let mut events = Box::pin(run.events());
    while let Some(recorded) = events.next().await {
        if let Event::StepRetry { step, attempt, max_attempts, error, .. } = recorded?.event {
            let at = begun.elapsed().as_secs();
            println!("  after {at:>2} s: step {step} failed, attempt {attempt}/{max_attempts}: {error}");
        }
    }
    let ended = run.outcome().await?;
    println!("  after {:>2} s: {}", begun.elapsed().as_secs(), ended.status);
    Ok(ended)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options { clock: Arc::new(TokioClock::default()), ..Options::default() };
    let engine = Engine::in_memory_with(options).await?;
    engine.register(
        Saga::builder("api-integration")
            .step(
                Step::new("call-external-api", call_external_api)
                    .compensate(undo_the_call)
                    .timeout(secs(10))
                    .retry(Retry::fixed(3, secs(2))),
            )
            .build()?,
    )?;

    let ended = run(&engine, "https://api.example/good").await?;
    expect(ended.succeeded(), "the fourth attempt succeeds")?;
    println!("  {}", ended.result::<String>("call-external-api")?);

    // The attempt that timed out may have taken effect, so the call is undone.
    let ended = run(&engine, "https://api.example/bad").await?;
    expect(ended.status == Status::Compensated, "after four attempts the saga is rolled back")?;
    let step = ended.step("call-external-api").ok_or("there is such a step")?;
    expect(step.status == StepStatus::Compensated && step.attempts == 4, "it is undone after four attempts")?;
    expect(UNDONE.load(Ordering::Relaxed) == 1, "it is undone once")?;
    Ok(())
}

static CALLS: AtomicU32 = AtomicU32::new(0);
static UNDONE: AtomicU32 = AtomicU32::new(0);

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
