//! The sagas of fault tests. Each response follows from the saga's input and the attempt, so every epoch of every node
//! gets the
//! same response.

use std::sync::Arc;
use std::time::Duration;

use backstitch::kernel::saga::Phase;
use backstitch::{Context, Problems, Retry, Saga, Step, StepError, StepResult, Undo};
use serde::{Deserialize, Serialize};

use super::ledger::{Answer, Ledger, RawCall};

/// The names of all sagas here.
pub const NAMES: [&str; 6] = ["sequence", "diamond", "refused", "slow", "stubborn", "announced"];
/// The topic of the messages that `announced` publishes.
pub const TOPIC: &str = "orders";
/// The publishing step; with the saga's id before it, the key of its messages.
pub const ANNOUNCING: &str = "announce";

/// The timeout of a step.
const TIMEOUT: Duration = Duration::from_millis(150);
/// The longest response time of a step.
const LONGEST_CALL_MICROS: u64 = 5_000;

/// The input of every saga here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Selects the services' responses.
    pub n: u64,
}

/// The response to an attempt for order `n`.
type Rule = fn(n: u64, attempt: u32) -> Answer;

const ALWAYS: Rule = |_, _| Answer::Done;
const NEVER: Rule = |_, _| Answer::Refused;

/// All sagas, writing their calls to this ledger.
///
/// # Errors
/// Never: the definitions are right.
pub fn all(ledger: &Arc<Ledger>) -> Result<Vec<Saga>, Problems> {
    let every_few = |every| move |step: Step<Order, u64>| step.retry(Retry::fixed(3, every));
    let soon = every_few(Duration::from_millis(10));
    let step = |id, rule| soon(undoable(ledger, id, rule, ALWAYS));
    let named = |name: &str| Saga::builder(name).step_timeout(TIMEOUT).compensation_retry(retry_soon());
    let sagas = [
        named("sequence")
            .step(step("reserve", ALWAYS))
            // Some fail at the first attempt.
            .step(step(
                "charge",
                |n, attempt| {
                    if n / 6 % 5 == 2 && attempt == 1 { Answer::Failed } else { Answer::Done }
                },
            ))
            .step(step("ship", ALWAYS)),
        named("diamond")
            .step(step("prepare", ALWAYS).depends_on([] as [&str; 0]))
            .step(step("left", ALWAYS).depends_on(["prepare"]))
            .step(
                step("middle", |n, _| if n / 6 % 3 == 0 { Answer::Refused } else { Answer::Done })
                    .depends_on(["prepare"]),
            )
            .step(step("right", ALWAYS).depends_on(["prepare"]).concurrency(16))
            .step(step("join", ALWAYS).depends_on(["left", "middle", "right"])),
        named("refused").step(step("first", ALWAYS)).step(step("second", ALWAYS)).step(step("third", NEVER)),
        named("slow")
            .step(step("quick", ALWAYS))
            .step(
                step("hanging", |n, _| if n / 6 % 2 == 0 { Answer::Silent } else { Answer::Done })
                    .retry(Retry::none()),
            )
            .step(step("last", ALWAYS)),
        named("stubborn")
            .step(step("easy", ALWAYS))
            .step(soon(undoable(ledger, "hard", ALWAYS, |_, attempt| {
                if attempt <= 2 { Answer::Failed } else { Answer::Done }
            })))
            .step(step("never", NEVER)),
        named("announced")
            .step(soon(announcing(ledger)))
            .step(step("after", |n, _| if n / 6 % 4 == 0 { Answer::Refused } else { Answer::Done })),
    ];
    sagas.into_iter().map(backstitch::Builder::build).collect()
}

fn retry_soon() -> Retry {
    Retry::fixed(5, Duration::from_millis(10))
}

fn undoable(ledger: &Arc<Ledger>, id: &'static str, rule: Rule, undo_rule: Rule) -> Step<Order, u64> {
    let forward = ledger.clone();
    let back = ledger.clone();
    Step::new(id, move |context: Context<Order>| {
        let ledger = forward.clone();
        async move { call(&ledger, &context, Phase::Do, rule).await.map(|()| context.input().n) }
    })
    .compensate(move |context: Context<Order>, _: Undo<u64>| {
        let ledger = back.clone();
        async move { call(&ledger, &context, Phase::Undo, undo_rule).await }
    })
}

fn announcing(ledger: &Arc<Ledger>) -> Step<Order, u64> {
    let forward = ledger.clone();
    let back = ledger.clone();
    Step::new(ANNOUNCING, move |context: Context<Order>| {
        let ledger = forward.clone();
        async move {
            call(&ledger, &context, Phase::Do, ALWAYS).await?;
            let key = format!("{}:{ANNOUNCING}", context.saga_id());
            context.publish(TOPIC, &key, context.input())?;
            Ok(context.input().n)
        }
    })
    .compensate(move |context: Context<Order>, _: Undo<u64>| {
        let ledger = back.clone();
        async move { call(&ledger, &context, Phase::Undo, ALWAYS).await }
    })
}

/// A service: it takes effect when the ledger has the line, and responds a little later.
async fn call(ledger: &Ledger, context: &Context<Order>, phase: Phase, rule: Rule) -> StepResult<()> {
    let answer = rule(context.input().n, context.attempt());
    ledger.append(&RawCall {
        caller: ledger.caller().to_owned(),
        saga: context.saga_id(),
        step: context.step().to_string(),
        phase,
        attempt: context.attempt(),
        key: context.idempotency_key(),
        answer,
    })?;
    let (high, low) = context.saga_id().0.as_u64_pair();
    let spread = high ^ low ^ u64::from(context.attempt()) ^ context.step().as_str().len() as u64;
    tokio::time::sleep(Duration::from_micros(spread % LONGEST_CALL_MICROS)).await;
    match answer {
        Answer::Done => Ok(()),
        Answer::Failed => Err(StepError::not_done("not now").into()),
        Answer::Refused => Err(StepError::refused("no").into()),
        Answer::Silent => std::future::pending().await,
    }
}
