//! Claims of actions where the database is slow, nodes disagree about the time, or a node meets what it has itself.

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::{Clock, SystemClock};
use backstitch::{Retry, StepError, Timestamp};
use backstitch_modules::lifecycles::sites::Endpoints;
use backstitch_modules::lifecycles::{Builder, Given};
use futures::future::try_join_all;

use crate::lifecycles::services::Answer;
use crate::lifecycles::stage::{SITES, Stage, drive, endpoints};

/// Lets the server do something to each row of lifecycles that is written.
async fn whenever(stage: &Stage, event: &str, what_happens: &str) {
    let function = format!(
        "create function meddle() returns trigger language plpgsql as $$ begin {what_happens} return new; end $$"
    );
    stage.execute(&function).await.unwrap();
    let trigger = format!("create trigger meddle before {event} execute function meddle()");
    stage.execute(&trigger).await.unwrap();
}

/// Longer than a claim may be old for something to begin, and shorter than it lasts.
const LONG_ON_ITS_WAY: &str = "perform pg_sleep(0.6);";

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_not_begun_under_a_claim_whose_commit_was_long_on_its_way() {
    let stage = Stage::postgres().await;
    stage.provide_driven_sites().await;
    whenever(&stage, "insert on lifecycles for each row", LONG_ON_ITS_WAY).await;
    let driving = stage.drive();
    // What is passed at once is handed over by the commit that begins it.
    stage.start("s").await;
    stage.until("s", "live").await;
    let calls = stage.services.calls();
    assert!(calls[0].is_in_doubt, "it was begun by whoever claimed it after that one");
    assert_eq!((calls.len(), stage.services.most_at_once()), (3, 1));
    stage.audit(SITES, "s").await;
    driving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_not_begun_under_a_claim_whose_answer_was_long_on_its_way() {
    let stage = Stage::postgres().await;
    stage.provide_driven_sites().await;
    stage.start("s").await;
    whenever(&stage, "update on lifecycles for each row when (new.token = 1)", LONG_ON_ITS_WAY).await;
    let driving = stage.drive();
    stage.until("s", "live").await;
    let calls = stage.services.calls();
    assert!(calls[0].is_in_doubt, "it was begun under a later claim");
    assert_eq!((calls.len(), stage.services.most_at_once()), (3, 1));
    stage.audit(SITES, "s").await;
    driving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_has_it_does_not_claim_again_however_late_its_renewals_are() {
    let stage = Stage::postgres().await;
    stage.provide_driven_sites().await;
    whenever(
        &stage,
        "update on lifecycles for each row when (new.key = 'late' and new.holder is not null)",
        "new.due_at := clock() - interval '1 hour';",
    )
    .await;
    let driving = stage.drive();
    stage.services.will("source_resolving", Answer::Hangs);
    let late = stage.start("late").await.standing.id;
    stage.services.was_asked().await;
    stage.execute("update lifecycles set holder = holder where key = 'late'").await.unwrap();
    assert_eq!(stage.texts("select key from lifecycles where due_at < clock()").await, ["late"]);
    // Another attempt is found by a look, which finds what is due longest first.
    stage.services.will("source_resolving", Answer::Fails(StepError::not_done("busy")));
    stage.start("other").await;
    stage.until("other", "live").await;
    let calls = stage.services.calls().into_iter().filter(|call| call.id == late).count();
    assert_eq!(calls, 1);
    assert_eq!(stage.texts("select token::text from lifecycles where key = 'late'").await, ["1"]);
    driving.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_batches_over_the_same_keys_in_opposite_order_do_not_wait_for_each_other() {
    let stage = Stage::postgres().await;
    stage.provide_sites().await;
    let (other_engine, other) = stage.another().await;
    // One after the other, so that two who write are sure to meet.
    whenever(&stage, "insert on lifecycles for each row", "perform pg_sleep(0.02);").await;
    for round in 0..5 {
        let keys: Vec<String> = (0..12).map(|nth| format!("{round}-{nth}")).collect();
        // First they begin, then they begin again.
        for new in [keys.len(), 0] {
            let up = keys.iter().map(|key| stage.lifecycles.start(SITES, key, Given::default()));
            let down = keys.iter().rev().map(|key| other.start(SITES, key, Given::default()));
            let (up, down) = tokio::join!(try_join_all(up), try_join_all(down));
            let moved = up.unwrap().into_iter().chain(down.unwrap());
            assert_eq!(moved.filter(|moved| moved.from.is_none()).count(), new);
        }
        assert_eq!(stage.get(&keys[0]).await.instance.attempt, 4);
    }
    drop(other);
    other_engine.shutdown().await.unwrap();
}

/// The clock of a machine that nobody has set right.
struct Ahead;

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(Duration::from_secs(3600))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_clock_is_ahead_goes_by_the_clock_of_the_server() {
    let stage = Stage::postgres().await;
    let patient = Endpoints { retry: Some(Retry::fixed(2, Duration::from_secs(60))), ..endpoints() };
    stage.lifecycles.provide_sites(&patient).await.unwrap();
    let slow = Builder::new("slow", "waiting")
        .terminal("done")
        .edge("waiting", "done")
        .stuck_after("waiting", Duration::from_secs(60));
    stage.declare(slow.build().unwrap()).await;
    stage.lifecycles.start("slow", "k", Given::default()).await.unwrap();
    let (ahead_engine, ahead) = stage.another_by(Arc::new(Ahead)).await;
    assert_eq!((ahead.stuck(10).await.unwrap(), ahead.count_stuck().await.unwrap()), (vec![], 0));

    let driving = drive(&ahead);
    stage.services.will("source_resolving", Answer::Fails(StepError::not_done("busy")));
    ahead.start(SITES, "s", Given::default()).await.unwrap();
    while stage.log("s").await.last().unwrap().event.name() != "action.retry" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let in_a_minute = "select key from lifecycles where machine <> 'slow' and due_at > clock() + interval '30 s' \
                       and due_at < clock() + interval '61 s'";
    assert_eq!(stage.texts(in_a_minute).await, ["s"]);
    let from_the_future = "select type from saga_events where at > clock() + interval '1 minute'";
    assert_eq!(stage.texts(from_the_future).await, Vec::<String>::new());
    // Something else is looked for and found meanwhile, and the attempt still waits for its time.
    ahead.start(SITES, "other", Given::default()).await.unwrap();
    stage.until("other", "live").await;
    let attempts = stage.services.calls().into_iter().filter(|call| call.state == "source_resolving");
    assert_eq!(attempts.map(|call| call.attempt).collect::<Vec<_>>(), [1, 1]);
    driving.stop().await;
    drop(ahead);
    ahead_engine.shutdown().await.unwrap();
}
