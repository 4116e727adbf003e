//! Messages that nobody can make sense of.

use backstitch_modules::lifecycles::nats::Config;
use backstitch_modules::lifecycles::{Builder, DeadLetter, MAX_KEY};
use serde_json::json;

use crate::lifecycle_nats::broker::{ACK_WAIT, Broker};
use crate::lifecycle_nats::stage::{SITES, Stage, always, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_messages_are_kept_once_and_not_delivered_again() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let node = stage.provisioner(broker.config()).await;
        let unreadable: Vec<(Vec<u8>, &str)> = vec![
            (b"\xff not text".to_vec(), "not JSON"),
            (b"".to_vec(), "not JSON"),
            (b"[1]".to_vec(), "is a list: write an object"),
            (b"{}".to_vec(), "site_id: is missing"),
            (br#"{"site_id":7}"#.to_vec(), "write text"),
            (br#"{"site_id":""}"#.to_vec(), "`key` must have 1 to 200 bytes"),
            (format!(r#"{{"site_id":"{}"}}"#, "x".repeat(MAX_KEY + 1)).into_bytes(), "`key` must have"),
            (br#"{"site_id":"a\u0000b"}"#.to_vec(), "`key` contains"),
            (br#"{"site_id":"\u200b"}"#.to_vec(), "`key` contains"),
            (br#"{"site_id":"s","plan":1,"plan":2}"#.to_vec(), "`plan` is there twice"),
            (br#"{"site_id":"s","correlation_id":"a\u0000b"}"#.to_vec(), "`correlation_id` contains"),
        ];
        for (body, _) in &unreadable {
            broker.publish(body.clone()).await;
        }
        let good = broker.request(&json!({"site_id": "good"})).await;
        broker.until_acknowledged(good).await;
        assert_eq!(
            &*node.get(SITES, "good").await.unwrap().instance.state,
            "live",
            "the others do not hold it up"
        );

        let mut kept = node.lifecycles.dead_letters(None, 100).await.unwrap();
        assert!(kept.is_sorted_by(|newer, older| newer.id > older.id));
        assert_eq!(kept.len(), unreadable.len());
        for (body, reason) in &unreadable {
            let at = kept.iter().position(|letter| letter.body == *body).unwrap();
            let DeadLetter { source, reason: told, .. } = kept.swap_remove(at);
            assert_eq!(source, "nats:SITES");
            assert!(told.contains(reason), "{reason}: {told}");
        }
        let deliveries = broker.deliveries().await;
        assert_eq!(deliveries, good, "each was delivered once");
        always(ACK_WAIT * 3 / 2, "nothing is delivered again", async || {
            broker.deliveries().await == deliveries
        })
        .await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_delivered_again_is_kept_once_and_one_of_a_new_stream_is_another() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        broker.publish(b"nonsense".to_vec()).await;
        // Two consumers are delivered the same message, as one is twice that forgot what it heard.
        let one = Config { durable: "one".to_owned(), ..broker.config() };
        let mut node = stage.node().await;
        node.consume(one);
        node.consume(broker.config());
        broker.until_acknowledged(1).await;
        let letters = async || node.lifecycles.dead_letters(None, 100).await.unwrap();
        let context = broker.context();
        let stream = context.get_stream("SITES").await.unwrap();
        eventually("the other has it too", async || {
            stream.consumer_info("one").await.is_ok_and(|info| info.ack_floor.stream_sequence == 1)
        })
        .await;
        assert_eq!(letters().await.len(), 1);

        context.delete_stream("SITES").await.unwrap();
        broker.add_stream().await;
        assert_eq!(broker.publish(b"nonsense".to_vec()).await, 1, "its numbers begin again");
        eventually("the new one is kept too", async || letters().await.len() == 2).await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_machine_that_is_not_there_yet_waits_for_it() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let mut node = stage.node().await;
        node.consume(Config { machine: "parcel".to_owned(), ..broker.config() });
        let sequence = broker.request(&json!({"key": "k"})).await;
        eventually("it is put off", async || broker.deliveries().await > 1).await;
        let parcel =
            Builder::new("parcel", "packed").terminal("sent").edge("packed", "sent").build().unwrap();
        node.lifecycles.machines.declare(parcel).await.unwrap();
        node.lifecycles.machines.apply("parcel", None).await.unwrap();
        broker.until_acknowledged(sequence).await;
        assert_eq!(&*node.get("parcel", "k").await.unwrap().instance.state, "packed");
        assert_eq!(node.lifecycles.dead_letters(None, 10).await.unwrap(), []);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_newest_first_a_page_at_a_time() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        // One after another, so that their order is known.
        let node = stage.provisioner(Config { concurrency: 1, ..broker.config() }).await;
        for number in 0..5 {
            broker.publish(number.to_string().into_bytes()).await;
        }
        broker.until_acknowledged(5).await;
        let mut bodies = Vec::new();
        let mut before = None;
        loop {
            let page = node.lifecycles.dead_letters(before, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            bodies.extend(page.into_iter().map(|letter| String::from_utf8(letter.body).unwrap()));
        }
        assert_eq!(bodies, ["4", "3", "2", "1", "0"]);
        node.stop().await;
    }
}
