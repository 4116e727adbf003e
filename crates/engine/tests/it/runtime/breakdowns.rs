//! A part of the engine breaks down, and is started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use backstitch::outbox::Routes;
use backstitch::store::Error;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Context, Engine, Saga, Step, secs};

use crate::runtime::support::*;

/// While it is armed, whatever the engine's own tasks ask of the store panics.
#[derive(Clone, Default)]
struct Trap {
    armed: Arc<AtomicBool>,
    sprung: Arc<AtomicU32>,
}

#[async_trait]
impl Watch for Trap {
    async fn at(&self, moment: Moment<'_>) -> Result<(), Error> {
        let asked_by_a_loop = !matches!(moment, Moment::BeforeCommit(_) | Moment::AfterCommit(_))
            // The test itself runs in no task.
            && tokio::task::try_id().is_some();
        if self.armed.load(Ordering::SeqCst) && asked_by_a_loop {
            self.sprung.fetch_add(1, Ordering::SeqCst);
            panic!("the store broke down");
        }
        Ok(())
    }
}

fn saga(trace: &Trace, hangs: bool) -> Saga {
    let told = trace.clone();
    let a = if hangs { hanging("a", trace) } else { noting("a", trace) };
    let publishes = Step::new("b", |ctx: Context<serde_json::Value>| async move {
        ctx.publish("t", &ctx.idempotency_key(), &1)?;
        Ok(())
    });
    let saga = Saga::builder("s").step(a).step(publishes).on_success(move |_| {
        told.say("told");
        async { Ok(()) }
    });
    saga.build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_is_started_again() {
    let (post, trace, trap) = (Post::default(), Trace::default(), Trap::default());
    let bench = Bench::with(|options| options.routes = Routes::all_to(Arc::new(post.clone())));
    let engine = bench.open_with(saga(&trace, true)).await;
    let left = start(&engine, "s").await;
    wait_for_start_of(&left, "a").await;
    drop(engine);

    trap.armed.store(true, Ordering::SeqCst);
    let store = Arc::new(Watched::new(bench.store.clone(), trap.clone()));
    let engine = Engine::on_store(store, bench.options.clone()).await.unwrap();
    engine.register(saga(&trace, false)).unwrap();
    tokio::time::sleep(secs(10)).await;
    assert!(trap.sprung.load(Ordering::SeqCst) > 10, "each loop fell into it again and again");
    assert!(post.topics().is_empty() && trace.count("told") == 0);

    trap.armed.store(false, Ordering::SeqCst);
    eventually("what was left is adopted and tells of its end", async || trace.count("told") == 1).await;
    eventually("its message is sent", async || post.topics() == ["t"]).await;
    tokio::time::timeout(secs(5), engine.shutdown()).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_publishes_while_the_store_breaks_down_is_told_so_and_can_ask_again() {
    let (trap, bench) = (Trap::default(), Bench::new());
    let store = Arc::new(Watched::new(bench.store.clone(), trap.clone()));
    let engine = Engine::on_store(store, bench.options.clone()).await.unwrap();
    trap.armed.store(true, Ordering::SeqCst);
    let told = engine.publish("t", "k", &1).await.unwrap_err();
    assert!(told.to_string().contains("the store broke down"), "{told}");
    trap.armed.store(false, Ordering::SeqCst);
    engine.publish("t", "k", &1).await.unwrap();
}
