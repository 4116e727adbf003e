//! What outside workers have counts among what an endpoint may have at once, also when the node is gone that gave it to them.

use std::sync::Arc;

use backstitch::delivery::limiter::{Limiter, LimiterSettings};
use backstitch::delivery::membership::MembershipSettings;
use backstitch::inbox::Answer;
use backstitch::{Desk as _, Work, secs};
use backstitch_modules::webhooks::{Counter, Dispatch, Nobody, QUEUE, membership};
use backstitch_testkit::service::{Reply, Service};
use tokio_util::task::AbortOnDropHandle;

use crate::webhooks::delivery_workers::{subscribe, work};
use crate::webhooks::stage::{LEASE, Stage, asks};

/// By then the others take a node for gone, and the leases that it gave last still.
const GONE: u64 = 11;

fn counter(stage: &Stage, dispatch: Arc<Dispatch>) -> Counter {
    Counter::of(dispatch, stage.webhooks.subscriptions.clone(), Arc::new(Nobody))
}

async fn lease(counter: &Counter, most: usize) -> Vec<Work> {
    counter.lease(&[QUEUE], most, LEASE).await.unwrap()
}

async fn complete(counter: &Counter, work: &Work) {
    counter.answer(work.job, work.token, &Answer::Succeeded("null".to_owned())).await.unwrap();
}

/// So many deliveries wait for an endpoint that may have so many at once.
async fn waiting(stage: &Stage, orders: usize, max_concurrency: u32) {
    let service = "http://127.0.0.1:9/".to_owned();
    subscribe(stage, service, |terms| terms.max_concurrency = max_concurrency).await;
    for number in 0..orders {
        stage.tell(&format!("o-{number}")).await;
    }
    stage.decide().await;
}

/// One of several nodes, that looks for the others whenever something is wanted, and takes what it gains at once.
struct Node {
    counter: Counter,
    dispatch: Arc<Dispatch>,
    limiter: Limiter<i64>,
}

impl Node {
    async fn on(stage: &Stage) -> Self {
        let webhooks = stage.another().await;
        let membership = Arc::new(membership(
            &webhooks.jobs,
            MembershipSettings { every: secs(0), ..MembershipSettings::default() },
        ));
        let limiter = Limiter::new(LimiterSettings::default());
        let dispatch = stage.dispatch_as(membership, &webhooks, limiter.clone());
        Self { counter: counter(stage, dispatch.clone()), dispatch, limiter }
    }
}

/// How many these nodes hand out together, once they have seen each other. Whose part a single one is depends on the number
/// of the lane.
async fn leased_by(nodes: &[&Node]) -> usize {
    for node in nodes.iter().chain(nodes) {
        lease(&node.counter, 0).await;
    }
    let mut leased = 0;
    for node in nodes {
        leased += lease(&node.counter, 10).await.len();
    }
    leased
}

/// As long after a crash as it takes until nobody waits for whoever crashed.
async fn crash(stage: Stage) -> Stage {
    let stage = stage.crash().await;
    stage.advance(secs(GONE)).await;
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn what_workers_have_counts_after_a_crash_until_they_answer_or_their_leases_are_over() {
    for stage in Stage::each().await {
        waiting(&stage, 6, 3).await;
        let before = lease(&counter(&stage, stage.dispatch()), 2).await;
        assert_eq!(before.len(), 2);
        let stage = crash(stage).await;
        let here = counter(&stage, stage.dispatch());
        let first = lease(&here, 10).await;
        assert_eq!((first.len(), lease(&here, 10).await.len()), (1, 0), "two are under way from before");
        complete(&here, &before[0]).await;
        assert_eq!((lease(&here, 10).await.len(), lease(&here, 10).await.len()), (1, 0), "one was answered");
        complete(&here, &first[0]).await;
        assert_eq!((lease(&here, 10).await.len(), lease(&here, 10).await.len()), (1, 0));
        // The lease from before is over, and those from after it are not.
        stage.advance(LEASE.saturating_sub(secs(GONE))).await;
        let again = lease(&here, 10).await;
        assert_eq!((again.len(), again[0].job), (1, before[1].job), "who never came back holds no place");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sender_leaves_a_worker_from_before_the_crash_its_place() {
    for stage in Stage::each().await {
        let service = Service::always(|| Reply::http(204, "")).await;
        let narrow = subscribe(&stage, service.url(), |terms| terms.max_concurrency = 1).await;
        stage.tell("o-1").await;
        stage.decide().await;
        let before = lease(&counter(&stage, stage.dispatch()), 1).await;
        let stage = crash(stage).await;
        let wide = subscribe(&stage, service.url(), |_| ()).await;
        let event = stage.tell("o-2").await.event;
        let dispatch = stage.dispatch();
        let _working = work(&stage, dispatch.clone());
        let count = |what: &str, lane: i64| {
            format!(
                "select count(*) from webhook_delivery_sagas where status = '{what}' and subscription_id = {lane}"
            )
        };
        while stage.number(&count("Completed", wide.id)).await == 0 {
            tokio::time::sleep(secs(1) / 200).await;
        }
        assert_eq!(service.heard().len(), 1, "both wait in one look, and only one may be sent");
        complete(&counter(&stage, dispatch), &before[0]).await;
        while stage.number(&count("Completed", narrow.id)).await < 2 {
            tokio::time::sleep(secs(1) / 200).await;
        }
        assert_eq!(service.heard().len(), 2, "of event {event} too");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_sent_itself_ends_with_it_and_holds_no_place() {
    for stage in Stage::each().await {
        waiting(&stage, 2, 1).await;
        let lane = stage.number("select max(id) from webhook_subscriptions").await;
        assert_eq!(stage.webhooks.jobs.lease(&asks(&[(lane, 1)])).await.unwrap().len(), 1);
        let stage = crash(stage).await;
        assert_eq!(lease(&counter(&stage, stage.dispatch()), 10).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_node_that_left_the_others_count_what_its_workers_have() {
    let stage = Stage::postgres().await;
    waiting(&stage, 6, 3).await;
    let [leaves, one, other] = [Node::on(&stage).await, Node::on(&stage).await, Node::on(&stage).await];
    for node in [&leaves, &one, &other, &leaves, &one, &other] {
        lease(&node.counter, 0).await;
    }
    let work = lease(&leaves.counter, 10).await;
    assert_eq!(work.len(), 1, "its part");
    leaves.dispatch.leave().await;
    let others = [&one, &other];
    assert_eq!(leased_by(&others).await, 2);
    complete(&one.counter, &work[0]).await;
    assert_eq!(leased_by(&others).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_nobody_asks_takes_no_part_although_workers_have_something_from_it() {
    let stage = Stage::postgres().await;
    waiting(&stage, 8, 4).await;
    let [asked_once, other] = [Node::on(&stage).await, Node::on(&stage).await];
    let work = lease(&asked_once.counter, 3).await;
    let limiter = asked_once.limiter.clone();
    let _running = AbortOnDropHandle::new(tokio::spawn(async move { asked_once.counter.run().await }));
    stage.advance(secs(GONE)).await;
    // Twice: what it does after it has seen to its places the first time is done by then.
    for work in &work[..2] {
        let free = limiter.free();
        complete(&other.counter, work).await;
        while limiter.free() == free {
            tokio::time::sleep(secs(1) / 200).await;
        }
    }
    assert_eq!(leased_by(&[&other]).await, 3, "all but what the last worker has");
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_waits_for_what_workers_have_of_its_part() {
    let stage = Stage::postgres().await;
    waiting(&stage, 8, 4).await;
    let here = Node::on(&stage).await;
    let work = lease(&here.counter, 10).await;
    assert_eq!(work.len(), 4, "whoever is alone has everything");
    let comes = Node::on(&stage).await;
    let both = [&comes, &here];
    assert_eq!(leased_by(&both).await, 0, "half of it is the other's part, and still under way");
    complete(&here.counter, &work[0]).await;
    assert_eq!(leased_by(&both).await, 1);
    complete(&comes.counter, &work[1]).await;
    assert_eq!(leased_by(&both).await, 1);
    assert_eq!(leased_by(&both).await, 0, "four are under way");
}
