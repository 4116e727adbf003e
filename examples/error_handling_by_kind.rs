//! Handles failures by their code, with an idempotent compensation.
//!
//! `cargo run -p backstitch --example error_handling_by_kind`

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch::{Context, Engine, Retry, Saga, SagaState, Status, Step, StepError, StepResult, Undo, secs};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize)]
struct NewUser {
    user_id: String,
    /// The error code of the second step, if it fails.
    fails_with: Option<String>,
}

async fn create_user(ctx: Context<NewUser>) -> StepResult<String> {
    let user_id = ctx.input().user_id.clone();
    println!("  user {user_id} created");
    users().insert(user_id.clone());
    Ok(user_id)
}

/// Idempotent: it checks whether anything is left to undo.
async fn delete_user(ctx: Context<NewUser>, undo: Undo<String>) -> StepResult<()> {
    let user_id = undo.result.unwrap_or_else(|| ctx.input().user_id.clone());
    println!("  [Compensate] Starting user deletion: {user_id}");
    if !users().remove(&user_id) {
        println!("  [Compensate] User {user_id} already deleted");
        return Ok(());
    }
    if ctx.attempt() == 1 {
        // The user is deleted, but the response was lost: an error makes the engine retry.
        let error = StepError::in_doubt("connection reset").with_code("NETWORK_ERROR");
        println!("  [Compensate] Failed to delete user {user_id}: {error}");
        return Err(error.into());
    }
    println!("  [Compensate] User {user_id} deleted successfully");
    Ok(())
}

async fn grant_access(ctx: Context<NewUser>) -> StepResult<()> {
    match &ctx.input().fails_with {
        Some(code) => Err(StepError::refused("access cannot be granted").with_code(code).into()),
        None => Ok(()),
    }
}

/// The reaction to a failed saga.
#[derive(Debug, PartialEq)]
enum Measure {
    RetryLater(String),
    TellUser(String),
    AlertOps(String),
}

fn measure_for(ended: &SagaState) -> Measure {
    let code = ended.error.as_ref().and_then(|error| error.code.as_deref());
    match code {
        Some("NETWORK_ERROR") => Measure::RetryLater(ended.input.as_str().to_owned()),
        Some("VALIDATION_ERROR") => Measure::TellUser("the data is not valid, please check it".into()),
        other => Measure::AlertOps(format!("saga {}: {}", ended.id, other.unwrap_or("no code"))),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (measures, mut taken) = mpsc::unbounded_channel();
    let engine = Engine::in_memory().await?;
    engine.register(
        Saga::builder("critical-operation")
            .compensation_retry(Retry::fixed(5, Duration::from_millis(20)))
            .step(Step::new("create-user", create_user).compensate(delete_user))
            .step(Step::new("grant-access", grant_access))
            // Called at least once for every rolled-back saga; an error makes the engine call it again.
            .on_failure(move |ended| {
                let sent = measures.send(measure_for(&ended));
                async move { Ok(sent?) }
            })
            .build()?,
    )?;

    for (user, code) in [("ada", "NETWORK_ERROR"), ("bob", "VALIDATION_ERROR"), ("eve", "SEGFAULT")] {
        println!("{user}: the second step fails with {code}");
        let input = NewUser { user_id: user.into(), fails_with: Some(code.into()) };
        let ended = engine.start("critical-operation", &input).await?.outcome().await?;
        expect(ended.status == Status::Compensated && users().is_empty(), "the user is gone again")?;
        let measure = tokio::time::timeout(secs(30), taken.recv()).await?.ok_or("a measure is taken")?;
        match (code, measure) {
            ("NETWORK_ERROR", Measure::RetryLater(input)) => {
                println!("  may be different next time: starting it again");
                let mut input: NewUser = serde_json::from_str(&input)?;
                input.fails_with = None;
                let ended = engine.start("critical-operation", &input).await?.outcome().await?;
                println!("  second try: {}", ended.status);
                expect(ended.succeeded() && users().remove(user), "the second try succeeds")?;
            }
            ("VALIDATION_ERROR", Measure::TellUser(text)) => println!("  the user reads: {text}"),
            ("SEGFAULT", Measure::AlertOps(text)) => println!("  the operator is paged: {text}"),
            (_, measure) => return Err(format!("not the right measure: {measure:?}").into()),
        }
    }
    Ok(())
}

static USERS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn users() -> MutexGuard<'static, BTreeSet<String>> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
