//! Creates a team of agents: registers the saga, listens to its events, runs it, and returns the result.
//!
//! `cargo run -p backstitch --example create_dev_team`

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstitch::{
    Context, Engine, Saga, SagaEvent, SagaState, Step, StepError, StepId, StepResult, Undo, secs,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Serialize, Deserialize)]
struct Team {
    team_name: String,
    user_input: String,
}

#[derive(Serialize, Deserialize)]
struct Agent {
    agent_id: String,
    role: String,
}

/// A step that starts an agent, and stops it again if the team is not created.
fn create_agent(step: &str, role: &'static str) -> Step<Team, Agent> {
    Step::new(step, move |ctx: Context<Team>| async move {
        if ctx.input().team_name == "one-too-many" && role == "frontend-developer" {
            return Err(StepError::refused("no capacity for another agent").with_code("NO_CAPACITY").into());
        }
        // The key is the same on every attempt, so a repeated call finds its agent.
        let agent_id = format!("agent for {}", ctx.idempotency_key());
        agents().insert(agent_id.clone());
        Ok(Agent { agent_id, role: role.to_owned() })
    })
    .compensate(|ctx, undo: Undo<Agent>| async move {
        let made = ctx.idempotency_key().replace(":undo", ":do");
        let agent_id = undo.result.map_or_else(|| format!("agent for {made}"), |agent| agent.agent_id);
        agents().remove(&agent_id);
        Ok(())
    })
}

async fn assign_tasks(ctx: Context<Team>) -> StepResult<usize> {
    let developer: Agent = ctx.result("create-backend-dev")?;
    for task in ["design the database schema", "design the API"] {
        println!("[Tasks] {}: {task} ({})", developer.role, ctx.input().user_input);
    }
    Ok(2)
}

async fn cancel_tasks(_: Context<Team>, undo: Undo<usize>) -> StepResult<()> {
    println!("[Tasks] {} cancelled", undo.result.unwrap_or_default());
    Ok(())
}

async fn tell_coordinator(ended: SagaState) -> StepResult<()> {
    if let (Some(step), Some(error)) = (&ended.failed_step, &ended.error) {
        println!("[Coordinator] team_creation_failed at {step}: {}", error.message);
    }
    TOLD.notify_one();
    Ok(())
}

/// The result for the user.
struct Answer {
    success: bool,
    error: Option<String>,
}

async fn execute_phase_5(
    engine: &Engine,
    user_input: &str,
    team_name: &str,
) -> Result<Answer, Box<dyn Error>> {
    let input = Team { team_name: team_name.into(), user_input: user_input.into() };
    let result = engine.start("create-dev-team", &input).await?.outcome().await?;
    if result.succeeded() {
        println!("[Phase 5] Team {team_name} created successfully");
        return Ok(Answer { success: true, error: None });
    }
    let failed_step = result.failed_step.as_ref().map_or("no step", StepId::as_str);
    println!("[Phase 5] Team creation failed: {failed_step}");
    Ok(Answer { success: false, error: result.error.map(|error| error.to_string()) })
}

async fn saga_started(event: Arc<SagaEvent>) {
    println!("[Phase 5] Saga {} started", event.record().definition);
}

async fn step_succeeded(event: Arc<SagaEvent>) {
    if let Some(step) = event.recorded.event.step() {
        println!("[Phase 5] Step {step} completed");
    }
}

async fn saga_compensating(event: Arc<SagaEvent>) {
    println!("[Phase 5] Saga {} compensating...", event.record().definition);
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(&format!("sqlite:{}", folder.path().join("teams.db").display())).await?;
    engine.register(
        Saga::builder("create-dev-team")
            .title("Create Development Team")
            .step(create_agent("create-product-owner", "product-owner"))
            .step(create_agent("create-backend-dev", "backend-developer"))
            .step(create_agent("create-frontend-dev", "frontend-developer"))
            .step(Step::new("assign-tasks", assign_tasks).compensate(cancel_tasks))
            .on_failure(tell_coordinator)
            .build()?,
    )?;
    engine.on("saga.started", saga_started)?;
    engine.on("step.succeeded", step_succeeded)?;
    engine.on("saga.compensating", saga_compensating)?;

    let answer = execute_phase_5(&engine, "user accounts", "accounts").await?;
    expect(answer.success && agents().len() == 3, "the team has three agents")?;

    let answer = execute_phase_5(&engine, "user accounts", "one-too-many").await?;
    tokio::time::timeout(secs(30), TOLD.notified()).await?;
    println!("[Phase 5] The user reads: {}", answer.error.unwrap_or_default());
    expect(!answer.success && agents().len() == 3, "the second team is gone again")?;

    engine.shutdown().await?;
    Ok(())
}

/// The running agents.
static AGENTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static TOLD: Notify = Notify::const_new();

fn agents() -> MutexGuard<'static, BTreeSet<String>> {
    AGENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
