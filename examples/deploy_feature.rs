//! Deploys a feature in three steps. If one fails, the earlier ones are undone in reverse order.
//!
//! `cargo run -p backstitch --example deploy_feature`

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstitch::{Context, Engine, Retry, Saga, SagaState, Status, Step, StepError, StepResult, Undo, secs};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Serialize, Deserialize)]
struct Feature {
    name: String,
    migration_file: String,
    service_name: String,
}

#[derive(Serialize, Deserialize)]
struct Branch {
    branch_name: String,
}

async fn create_branch(ctx: Context<Feature>) -> StepResult<Branch> {
    let branch_name = format!("feature/{}", ctx.input().name);
    create(format!("branch {branch_name}"));
    Ok(Branch { branch_name })
}

async fn delete_branch(ctx: Context<Feature>, undo: Undo<Branch>) -> StepResult<()> {
    // Without a result it is unknown whether the branch was created, so its name is computed again.
    let name = undo.result.map_or_else(|| format!("feature/{}", ctx.input().name), |it| it.branch_name);
    remove(&format!("branch {name}"));
    Ok(())
}

async fn migrate(ctx: Context<Feature>) -> StepResult<()> {
    create(format!("migration {}", ctx.input().migration_file));
    Ok(())
}

async fn roll_back_migration(ctx: Context<Feature>, _: Undo<()>) -> StepResult<()> {
    remove(&format!("migration {}", ctx.input().migration_file));
    Ok(())
}

async fn deploy(ctx: Context<Feature>) -> StepResult<()> {
    if ctx.input().service_name == "broken-service" {
        return Err(StepError::refused("the image does not start").with_code("CRASH_LOOP").into());
    }
    create(format!("service {}", ctx.input().service_name));
    Ok(())
}

async fn undeploy(ctx: Context<Feature>, _: Undo<()>) -> StepResult<()> {
    remove(&format!("service {}", ctx.input().service_name));
    Ok(())
}

async fn report_failure(ended: SagaState) -> StepResult<()> {
    if let (Some(step), Some(error)) = (&ended.failed_step, &ended.error) {
        println!("Saga failed at step {step}: {error}");
    }
    REPORTED.notify_one();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(&format!("sqlite:{}", folder.path().join("deploy.db").display())).await?;
    let saga = Saga::builder("deploy-feature")
        .title("Deploy New Feature")
        .step(Step::new("create-branch", create_branch).compensate(delete_branch).timeout(secs(30)))
        .step(Step::new("update-database", migrate).compensate(roll_back_migration))
        .step(Step::new("deploy-service", deploy).compensate(undeploy).retry(Retry::exponential(3, secs(1))))
        .on_failure(report_failure)
        .build()?;
    engine.register(saga)?;

    println!("Deploying auth-service");
    let feature = Feature {
        name: "user-auth".into(),
        migration_file: "001_add_users.sql".into(),
        service_name: "auth-service".into(),
    };
    let result = engine.start("deploy-feature", &feature).await?.outcome().await?;
    println!("Saga result: {}", result.status);
    let branch: Branch = result.result("create-branch")?;
    println!("It lives on {}", branch.branch_name);
    expect(result.succeeded() && world().len() == 3, "the first deployment succeeds")?;

    println!("Deploying broken-service");
    let feature = Feature {
        name: "payments".into(),
        migration_file: "002_add_payments.sql".into(),
        service_name: "broken-service".into(),
    };
    let result = engine.start("deploy-feature", &feature).await?.outcome().await?;
    tokio::time::timeout(secs(30), REPORTED.notified()).await?;
    println!("Saga result: {}", result.status);
    expect(result.status == Status::Compensated, "the second deployment is rolled back")?;
    expect(world().len() == 3, "only the first deployment is left")?;

    engine.shutdown().await?;
    Ok(())
}

/// The outside world: branches, migrations, services.
static WORLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static REPORTED: Notify = Notify::const_new();

fn world() -> MutexGuard<'static, BTreeSet<String>> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn create(thing: String) {
    println!("  created {thing}");
    world().insert(thing);
}

/// Removing something absent is fine: a compensation may run twice, or without its action.
fn remove(thing: &str) {
    if world().remove(thing) {
        println!("  removed {thing}");
    }
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
