//! Passing results on: each step, and each compensation, reads the results of earlier steps.
//!
//! `cargo run -p backstitch --example order_processing`

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstitch::{Context, Engine, Retry, Saga, Status, Step, StepError, StepResult, Undo, secs};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Purchase {
    user_id: String,
    user_email: String,
    amount: u32,
}

#[derive(Serialize, Deserialize)]
struct Order {
    order_id: String,
    amount: u32,
}

#[derive(Serialize, Deserialize)]
struct Payment {
    payment_id: String,
}

async fn create_order(ctx: Context<Purchase>) -> StepResult<Order> {
    let order_id = format!("order-of-{}", ctx.input().user_id);
    println!("  {order_id} created");
    Ok(Order { order_id, amount: ctx.input().amount })
}

async fn cancel_order(_: Context<Purchase>, undo: Undo<Order>) -> StepResult<()> {
    if let Some(order) = undo.result {
        println!("  {} cancelled, because {}", order.order_id, undo.error);
    }
    Ok(())
}

async fn process_payment(ctx: Context<Purchase>) -> StepResult<Payment> {
    // The result of an earlier step.
    let order: Order = ctx.result("create-order")?;
    let payment_id = format!("payment-for-{}", order.order_id);
    accounts().insert(ctx.input().user_id.clone(), order.amount);
    println!("  {payment_id}: {} charged for {}", order.amount, order.order_id);
    Ok(Payment { payment_id })
}

async fn refund_payment(ctx: Context<Purchase>, undo: Undo<Payment>) -> StepResult<()> {
    // A compensation sees the results of other steps too.
    let order: Order = ctx.result("create-order")?;
    if accounts().remove(&ctx.input().user_id).is_some() {
        let payment = undo.result.map_or_else(|| "a payment in doubt".to_owned(), |it| it.payment_id);
        println!("  {payment}: {} refunded for {}", order.amount, order.order_id);
    }
    Ok(())
}

async fn send_confirmation(ctx: Context<Purchase>) -> StepResult<()> {
    let order: Order = ctx.result("create-order")?;
    let payment: Payment = ctx.result("process-payment")?;
    let to = &ctx.input().user_email;
    if !to.contains('@') {
        return Err(StepError::refused(format!("`{to}` is not an address"))
            .with_code("VALIDATION_ERROR")
            .into());
    }
    println!("  mail to {to}: order {}, payment {}", order.order_id, payment.payment_id);
    // Written in the transaction of this step's success, and sent afterwards.
    ctx.publish("orders.confirmed", &ctx.idempotency_key(), &order)?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(&format!("sqlite:{}", folder.path().join("orders.db").display())).await?;
    engine.register(
        Saga::builder("order-processing")
            .retry(Retry::fixed(2, secs(1)))
            .step(Step::new("create-order", create_order).compensate(cancel_order))
            .step(Step::new("process-payment", process_payment).compensate(refund_payment))
            .step(Step::new("send-confirmation", send_confirmation))
            .build()?,
    )?;

    println!("Ada buys");
    let ada = Purchase { user_id: "ada".into(), user_email: "ada@example.org".into(), amount: 42 };
    // With the key, a repeated request returns the same order.
    let run = engine.start("order-processing", &ada).key("request-1").await?;
    let again = engine.start("order-processing", &ada).key("request-1").await?;
    expect(run.id() == again.id(), "the same request is the same order")?;
    let ended = run.outcome().await?;
    println!("Saga result: {}", ended.status);
    expect(ended.succeeded() && accounts().get("ada") == Some(&42), "Ada has paid once")?;

    println!("Bob buys, but his address is wrong");
    let bob = Purchase { user_id: "bob".into(), user_email: "bob".into(), amount: 7 };
    let ended = engine.start("order-processing", &bob).await?.outcome().await?;
    println!("Saga result: {}", ended.status);
    expect(ended.status == Status::Compensated, "Bob's order is rolled back")?;
    expect(!accounts().contains_key("bob"), "Bob has his money back")?;

    engine.shutdown().await?;
    Ok(())
}

/// Payments by customer.
static ACCOUNTS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

fn accounts() -> MutexGuard<'static, BTreeMap<String, u32>> {
    ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}
