//! A broker that is down, dies, lacks its stream, or has a consumer of another kind; and a database that does not answer.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use backstitch_modules::lifecycles::nats::{BadConfig, Config, Consumer};
use serde_json::json;

use crate::lifecycle_nats::broker::{Broker, STREAM, SUBJECT, listen_to_the_log, logged};
use crate::lifecycle_nats::services::Answer;
use crate::lifecycle_nats::stage::{SITES, Stage, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_goes_away_is_found_again_and_what_ended_meanwhile_is_acknowledged() {
    for stage in Stage::each().await {
        let mut broker = Broker::with_stream().await;
        let node = stage.provisioner(broker.config()).await;
        stage.services.will("hook_creating", Answer::Waits);
        let first = broker.request(&json!({"site_id": "one"})).await;
        eventually("the hook is being created", async || stage.services.calls_for("hook_creating") == [1])
            .await;
        broker.server.kill();
        stage.services.release();
        node.until(SITES, "one", "live").await;
        broker.server.start_again().await;
        broker.until_acknowledged(first).await;
        assert_eq!(stage.services.calls_for("hook_creating"), [1]);

        let second = broker.request(&json!({"site_id": "two"})).await;
        broker.until_acknowledged(second).await;
        assert_eq!(&*node.get(SITES, "two").await.unwrap().instance.state, "live");
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_down_at_the_start_is_warned_about_and_found_when_it_comes() {
    listen_to_the_log();
    let mut broker = Broker::with_stream().await;
    let sequence = broker.request(&json!({"site_id": "s"})).await;
    broker.server.kill();
    let stage = Stage::sqlite();
    let node = stage.provisioner(broker.config()).await;
    logged("starts that come from NATS: no connection to the broker").await;
    broker.server.start_again().await;
    broker.until_acknowledged(sequence).await;
    assert_eq!(&*node.get(SITES, "s").await.unwrap().instance.state, "live");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_missing_is_asked_for_by_name_and_found_when_it_is_created() {
    listen_to_the_log();
    let broker = Broker::without_stream().await;
    let stage = Stage::sqlite();
    let node = stage.provisioner(broker.config()).await;
    logged("there is no stream SITES: create it").await;
    logged("nats stream add SITES --subjects='sites.requested'").await;
    broker.add_stream().await;
    let sequence = broker.request(&json!({"site_id": "s"})).await;
    broker.until_acknowledged(sequence).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_with_another_ack_wait_is_warned_about_and_its_patience_counts() {
    listen_to_the_log();
    let broker = Broker::without_stream().await;
    let before = pull::Config {
        durable_name: Some("backstitch".to_owned()),
        filter_subject: SUBJECT.to_owned(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_secs(1),
        ..pull::Config::default()
    };
    broker.add_stream().await.create_consumer(before).await.unwrap();
    let stage = Stage::sqlite();
    let node = stage.provisioner(Config { ack_wait: Duration::from_secs(600), ..broker.config() }).await;
    logged("its ack_wait is 1s, and 10m is configured").await;
    stage.services.will("hook_creating", Answer::Waits);
    let sequence = broker.request(&json!({"site_id": "s"})).await;
    eventually("the hook is being created", async || stage.services.calls_for("hook_creating") == [1]).await;
    crate::lifecycle_nats::stage::always(Duration::from_secs(3), "it is not delivered again", async || {
        broker.deliveries().await == 1
    })
    .await;
    stage.services.release();
    broker.until_acknowledged(sequence).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_does_not_wait_for_acknowledgements_is_not_used() {
    listen_to_the_log();
    let broker = Broker::without_stream().await;
    let careless = pull::Config {
        durable_name: Some("backstitch".to_owned()),
        ack_policy: AckPolicy::None,
        ..pull::Config::default()
    };
    let stream = broker.add_stream().await;
    stream.create_consumer(careless).await.unwrap();
    let sequence = broker.request(&json!({"site_id": "s"})).await;
    let stage = Stage::sqlite();
    let node = stage.provisioner(broker.config()).await;
    logged("does not wait for an acknowledgement of each message").await;
    stream.delete_consumer("backstitch").await.unwrap();
    broker.until_acknowledged(sequence).await;
    assert_eq!(&*node.get(SITES, "s").await.unwrap().instance.state, "live");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_not_lost_while_the_database_does_not_answer() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let node = stage.provisioner(broker.config()).await;
        let first = broker.request(&json!({"site_id": "one"})).await;
        broker.until_acknowledged(first).await;
        stage.execute("alter table lifecycles rename to lifecycles_away").await;
        let second = broker.request(&json!({"site_id": "two"})).await;
        let nonsense = async || broker.publish(b"nonsense".to_vec()).await;
        eventually("it was delivered more than once", async || broker.deliveries().await >= 3).await;
        stage.execute("alter table lifecycles_away rename to lifecycles").await;
        broker.until_acknowledged(second).await;
        assert_eq!(&*node.get(SITES, "two").await.unwrap().instance.state, "live");

        stage.execute("alter table lifecycle_dead_letters rename to letters_away").await;
        let third = nonsense().await;
        let delivered = broker.deliveries().await;
        eventually("it was delivered more than once", async || broker.deliveries().await >= delivered + 2)
            .await;
        stage.execute("alter table letters_away rename to lifecycle_dead_letters").await;
        broker.until_acknowledged(third).await;
        assert_eq!(node.lifecycles.dead_letters(None, 10).await.unwrap().len(), 1);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_before_anything_is_taken() {
    let node = Stage::sqlite().node().await;
    let mistaken = Config { concurrency: 0, ..Config::new("http://host", STREAM, "sites..a") };
    let BadConfig { mistakes } = Consumer::new(&node.lifecycles, mistaken).err().unwrap();
    assert_eq!(mistakes.len(), 3, "{mistakes:?}");
    let no_file = Config {
        credentials: Some("/nowhere/backstitch.creds".into()),
        ..Config::new("nats://host", STREAM, SUBJECT)
    };
    let told = Consumer::new(&node.lifecycles, no_file).err().unwrap().to_string();
    assert!(told.contains("lifecycle.nats.credentials: `/nowhere/backstitch.creds`"), "{told}");
}
