//! Several nodes on one database give an endpoint no more together than one would.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstitch::delivery::limiter::{Limiter, LimiterSettings};
use backstitch::delivery::membership::MembershipSettings;
use backstitch::inbox::Answer;
use backstitch::kernel::delivery::Status;
use backstitch::{Desk as _, StepError, Work};
use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::{Counter, Dispatch, Nobody, Subscription, Terms, membership};
use backstitch_testkit::service::{Reply, Service};
use tokio::sync::Semaphore;

use crate::webhooks::delivery_workers::{subscribe, until, work};
use crate::webhooks::stage::{LEASE, Stage};

const HOUR: Duration = Duration::from_secs(3600);
/// Looks for the others whenever something is wanted, and takes what it gains at once.
const AT_ONCE: MembershipSettings = MembershipSettings { every: Duration::ZERO, gone_after: HOUR };

/// A node that hands out attempts.
struct Node {
    dispatch: Arc<Dispatch>,
    counter: Counter,
    limiter: Limiter<i64>,
}

impl Node {
    async fn on(stage: &Stage, settings: MembershipSettings) -> Self {
        let limiter = Limiter::new(LimiterSettings { failures_in_a_row: 1, ..LimiterSettings::default() });
        let webhooks = stage.another().await;
        let membership = Arc::new(membership(&webhooks.jobs, settings));
        let dispatch = stage.dispatch_as(membership, &webhooks, limiter.clone());
        let counter = Counter::of(dispatch.clone(), webhooks.subscriptions, Arc::new(Nobody));
        Self { dispatch, counter, limiter }
    }

    /// So many nodes that know of each other.
    async fn members(stage: &Stage, count: usize) -> Vec<Self> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(Self::on(stage, AT_ONCE).await);
        }
        for node in nodes.iter().chain(&nodes) {
            node.lease(0).await;
        }
        nodes
    }

    /// As the engine does for a worker.
    async fn lease(&self, most: usize) -> Vec<Work> {
        self.counter.get_ready().await.unwrap();
        self.counter.lease(&["webhooks"], most, LEASE).await.unwrap()
    }
}

/// The lanes that each of two nodes serves, none of them both.
async fn served_apart(nodes: &[Node]) -> Vec<BTreeSet<i64>> {
    let mut served = Vec::new();
    for node in nodes {
        served.push(node.lease(100).await.iter().map(lane_of).collect::<BTreeSet<_>>());
    }
    assert!(served[0].is_disjoint(&served[1]), "{served:?}");
    served
}

/// Somebody with these limits.
async fn limited(stage: &Stage, max_concurrency: u32, rate_limit: Option<u32>) -> Subscription {
    let usual = Terms::to("https://example.com/hooks", vec!["order.*".to_owned()]);
    let terms = Terms { max_concurrency, rate_limit, ..usual };
    stage.registrar_to(Egress::default()).create(&terms, &[], None).await.unwrap().0
}

/// So many orders, and all of their jobs.
async fn tell(stage: &Stage, orders: usize) {
    for number in 0..orders {
        stage.tell(&format!("o-{number}")).await;
    }
    stage.decide().await;
}

async fn complete(node: &Node, work: &Work) {
    let done = Answer::Succeeded("null".to_owned());
    node.counter.answer(work.job, work.token, &done).await.unwrap();
}

fn lane_of(work: &Work) -> i64 {
    let body: serde_json::Value = work.body.decode().unwrap();
    body["subscription_id"].as_i64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_has_no_more_requests_at_once_from_all_nodes_than_it_may() {
    const AT_MOST: usize = 3;
    const ALL: usize = 20;
    for nodes in [2, 3] {
        let stage = Stage::postgres().await;
        let gate = Arc::new(Semaphore::new(0));
        let gated = gate.clone();
        let service =
            Service::always(move || Reply::Gated(gated.clone(), Box::new(Reply::http(204, "")))).await;
        subscribe(&stage, service.url(), |terms| terms.max_concurrency = 3).await;
        tell(&stage, ALL).await;
        let nodes = Node::members(&stage, nodes).await;
        let _working: Vec<_> = nodes.iter().map(|node| work(&stage, node.dispatch.clone())).collect();
        for answered in 0..ALL {
            // What was heard and may not be answered yet is under way.
            loop {
                let heard = service.heard().len();
                assert!(heard <= answered + AT_MOST, "{heard} came, of which {answered} were answered");
                if heard == ALL.min(answered + AT_MOST) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            gate.add_permits(1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_all_nodes_hand_out_at_once_is_the_limit() {
    let stage = Stage::postgres().await;
    for (nodes, limit) in [(1, 3), (2, 1), (2, 3), (3, 1), (3, 2), (3, 3), (3, 10)] {
        let subscription = limited(&stage, limit, None).await;
        tell(&stage, 12).await;
        let nodes = Node::members(&stage, nodes).await;
        let mut handed_out = Vec::new();
        // Twice, since nobody has more left for the second time.
        for node in nodes.iter().chain(&nodes) {
            handed_out.extend(node.lease(100).await);
        }
        assert_eq!(handed_out.len(), limit as usize, "{} nodes", nodes.len());
        for node in &nodes {
            node.dispatch.leave().await;
        }
        stage.webhooks.subscriptions.delete(subscription.id).await.unwrap();
        stage.execute_unguarded("webhook_events", "delete from webhook_events").await;
    }
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 0, "all have left");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_with_one_request_at_once_are_served_each_by_one_node() {
    let stage = Stage::postgres().await;
    let service = Service::always(|| Reply::http(204, "")).await;
    let mut lanes = BTreeSet::new();
    for _ in 0..4 {
        lanes.insert(subscribe(&stage, service.url(), |terms| terms.max_concurrency = 1).await.id);
    }
    tell(&stage, 3).await;
    let nodes = Node::members(&stage, 2).await;
    let served = served_apart(&nodes).await;
    assert_eq!((served[0].len(), served[1].len()), (2, 2), "{served:?}");
    assert_eq!(&served[0] | &served[1], lanes);
    // The places are taken; two others begin anew.
    stage.advance(HOUR).await;
    let nodes = Node::members(&stage, 2).await;
    let _working: Vec<_> = nodes.iter().map(|node| work(&stage, node.dispatch.clone())).collect();
    while service.heard().len() < 12 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_holds_over_all_nodes() {
    const RATE: u32 = 10;
    let stage = Stage::postgres().await;
    limited(&stage, 100, Some(RATE)).await;
    tell(&stage, 40).await;
    let nodes = Node::members(&stage, 3).await;
    let (begun, mut handed_out) = (Instant::now(), 0);
    for node in nodes.iter().chain(&nodes) {
        handed_out += u32::try_from(node.lease(100).await.len()).unwrap();
    }
    let most = f64::from(RATE) * (1.0 + begun.elapsed().as_secs_f64());
    assert!(handed_out >= RATE && f64::from(handed_out) <= most, "{handed_out} of {most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_a_second_is_one_nodes() {
    let stage = Stage::postgres().await;
    let mut lanes = BTreeSet::new();
    for _ in 0..6 {
        lanes.insert(limited(&stage, 16, Some(1)).await.id);
    }
    tell(&stage, 3).await;
    let nodes = Node::members(&stage, 2).await;
    let served = served_apart(&nodes).await;
    assert_eq!(&served[0] | &served[1], lanes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_had_that_died_or_left_is_the_others() {
    let stage = Stage::postgres().await;
    limited(&stage, 6, None).await;
    tell(&stage, 12).await;
    let nodes = Node::members(&stage, 3).await;
    assert_eq!(nodes[0].lease(100).await.len(), 2);
    nodes[1].dispatch.leave().await;
    assert_eq!(nodes[0].lease(100).await.len(), 1, "one of them left");
    stage.advance(HOUR).await;
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 2);
    // Its leases have run out too.
    let again = nodes[0].lease(100).await;
    assert_eq!(again.len(), 6, "the other one died");
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 1);
    assert_eq!(nodes[2].lease(100).await.len(), 0, "it was not dead after all, and all six are under way");
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 2);
    for work in &again[..4] {
        complete(&nodes[0], work).await;
    }
    assert_eq!(nodes[2].lease(100).await.len(), 3, "its part");
    assert_eq!(nodes[0].lease(100).await.len(), 1, "and what is left of the other's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_to_others_waits_until_they_know_of_it() {
    let slow = MembershipSettings { every: HOUR, gone_after: 3 * HOUR };
    let stage = Stage::postgres().await;
    limited(&stage, 4, None).await;
    tell(&stage, 12).await;
    let alone = Node::on(&stage, slow).await;
    let work = alone.lease(1).await;
    assert_eq!(work.len(), 1, "whoever is alone need not wait");
    complete(&alone, &work[0]).await;
    alone.dispatch.leave().await;
    let here = Node::on(&stage, AT_ONCE).await;
    assert_eq!(here.lease(0).await.len(), 0);
    let comes = Node::on(&stage, slow).await;
    let known = async {
        while stage.number("select count(*) from webhook_senders").await < 2 {
            tokio::task::yield_now().await;
        }
        // Time to do what it must not do.
        tokio::time::sleep(Duration::from_millis(50)).await;
        here.lease(100).await.len()
    };
    tokio::select! {
        handed_out = comes.lease(100) => panic!("it did not wait: {}", handed_out.len()),
        handed_out = known => assert_eq!(handed_out, 2, "the other two are left for whoever came"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_the_others_may_count_no_more_hands_out_nothing() {
    let stage = Stage::postgres().await;
    limited(&stage, 100, None).await;
    tell(&stage, 6).await;
    let known = Node::on(&stage, AT_ONCE).await;
    assert_eq!(known.lease(1).await.len(), 1);
    known.dispatch.leave().await;
    assert_eq!(known.lease(1).await.len(), 1);
    let short = Duration::from_millis(30);
    let forgotten = Node::on(&stage, MembershipSettings { gone_after: short, ..AT_ONCE }).await;
    until_it_leases(&forgotten).await;
    stage.execute("revoke insert on webhook_senders from backstitch_worker").await.unwrap();
    tokio::time::sleep(short).await;
    assert!(forgotten.counter.lease(&["webhooks"], 1, LEASE).await.is_err());
    assert_eq!(known.lease(1).await.len(), 1, "it is counted for long yet");
    stage.execute("grant insert on webhook_senders to backstitch_worker").await.unwrap();
    until_it_leases(&forgotten).await;
}

/// Waits until a node with a short membership leases a job. On a busy machine its membership may expire before.
async fn until_it_leases(node: &Node) {
    let leases = async || {
        node.counter.get_ready().await.ok()?;
        node.counter.lease(&["webhooks"], 1, LEASE).await.ok()?.pop()
    };
    while leases().await.is_none() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_was_changed_is_forgiven_by_every_node() {
    for stage in Stage::each().await {
        let subscription = limited(&stage, 10, None).await;
        tell(&stage, 20).await;
        let nodes = Node::members(&stage, 2).await;
        let registrar = stage.registrar_to(Egress::default());
        for round in 0..3 {
            for node in &nodes {
                let failed = node.lease(1).await.pop().unwrap();
                let error = StepError::not_done("no").with_code("http_500");
                node.counter.answer(failed.job, failed.token, &Answer::Failed(error)).await.unwrap();
                assert!(node.lease(1).await.is_empty(), "it is left alone");
            }
            // Time stands still, and every change is seen all the same.
            match round {
                0 => stage.webhooks.subscriptions.enable(subscription.id).await.unwrap(),
                1 => registrar.rotate(subscription.id, None, Duration::ZERO, false).await.unwrap().0,
                _ => {
                    let read = stage.webhooks.subscriptions.get(subscription.id).await.unwrap();
                    registrar.change(&read, &read.terms, None).await.unwrap()
                }
            };
            for node in &nodes {
                assert!(node.limiter.refusal(&subscription.id).is_some());
                assert_eq!(node.lease(1).await.len(), 1, "round {round}");
                assert_eq!(node.limiter.refusal(&subscription.id), None);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_stops_leaves_its_share_to_the_others() {
    let stage = Stage::postgres().await;
    let service = Service::always(|| Reply::http(204, "")).await;
    subscribe(&stage, service.url(), |_| ()).await;
    let node = Node::on(&stage, AT_ONCE).await;
    let working = work(&stage, node.dispatch.clone());
    let event = stage.tell("o-1").await.event;
    until(&stage, event, Status::Completed).await;
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 1);
    drop(working);
    let delivery_worker = crate::webhooks::delivery_workers::delivery_worker(&stage, node.dispatch.clone());
    delivery_worker.run(std::future::ready(())).await;
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_stops_keeps_its_share_until_requests_end() {
    let stage = Stage::postgres().await;
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let service = Service::always(move || Reply::Gated(held.clone(), Box::new(Reply::http(204, "")))).await;
    subscribe(&stage, service.url(), |terms| terms.max_concurrency = 1).await;
    tell(&stage, 1).await;
    let node = Node::on(&stage, AT_ONCE).await;
    let delivery_worker = crate::webhooks::delivery_workers::delivery_worker(&stage, node.dispatch.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { delivery_worker.run(async { drop(stopped.await) }).await });
    while service.heard().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stop);
    // Time to leave, which it must not do yet.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 1);
    gate.add_permits(1);
    running.await.unwrap();
    assert_eq!(stage.number("select count(*) from webhook_senders").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_tell_of_itself_in_time_goes_by_what_it_knows() {
    let stage = Stage::postgres().await;
    limited(&stage, 10, None).await;
    tell(&stage, 2).await;
    let node = Node::on(&stage, AT_ONCE).await;
    assert_eq!(node.lease(1).await.len(), 1);
    stage.execute("begin").await.unwrap();
    stage.execute("lock table webhook_senders in exclusive mode").await.unwrap();
    assert_eq!(node.lease(1).await.len(), 1, "while nobody answers");
    stage.execute("rollback").await.unwrap();
}
