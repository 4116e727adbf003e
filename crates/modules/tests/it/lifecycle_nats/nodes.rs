//! Several nodes on one database.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use crate::lifecycle_nats::broker::Broker;
use crate::lifecycle_nats::services::Answer;
use crate::lifecycle_nats::stage::{SITES, Stage, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_take_the_same_requests_never_drive_one_site_at_once() {
    let stage = Stage::postgres().await;
    let broker = Broker::with_stream().await;
    let mut nodes = Vec::new();
    for _ in 0..2 {
        // On a busy machine nobody is to be taken for dead here.
        let mut node = stage.node_with(Duration::from_secs(30)).await;
        node.provide_sites().await;
        node.drive();
        node.consume(broker.config());
        nodes.push(node);
    }
    let sites: Vec<String> = (0..20).map(|nth| format!("s{nth}")).collect();
    let mut last = 0;
    for _ in 0..3 {
        let requests = sites.iter().map(|site| json!({"site_id": site}));
        for request in requests.collect::<Vec<_>>() {
            last = broker.request(&request).await;
        }
    }
    broker.until_acknowledged(last).await;
    for site in &sites {
        assert_eq!(&*nodes[0].get(SITES, site).await.unwrap().instance.state, "live");
    }
    assert_eq!(stage.services.most_at_once(), 1);
    for action in ["source_resolving", "vercel_creating", "hook_creating"] {
        assert_eq!(stage.services.calls_for(action), vec![1; sites.len()], "{action}");
    }
    join_all(nodes.into_iter().map(crate::lifecycle_nats::stage::Node::stop)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_site_another_node_drives_is_acknowledged_all_the_same() {
    let stage = Stage::postgres().await;
    let broker = Broker::with_stream().await;
    let mut takes = stage.node().await;
    takes.provide_sites().await;
    takes.consume(broker.config());
    let mut performs = stage.node().await;
    performs.drive();
    stage.services.will("hook_creating", Answer::Waits);
    let sequence = broker.request(&json!({"site_id": "s"})).await;
    eventually("the hook is being created", async || stage.services.calls_for("hook_creating") == [1]).await;
    assert_eq!(broker.info().await.unwrap().num_ack_pending, 1);
    stage.services.release();
    broker.until_acknowledged(sequence).await;
    assert_eq!(broker.deliveries().await, 1);
    assert_eq!(takes.get(SITES, "s").await.unwrap().instance.attempt, 1);
    takes.stop().await;
    performs.stop().await;
}
