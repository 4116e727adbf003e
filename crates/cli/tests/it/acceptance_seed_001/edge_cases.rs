//! The edge cases in the order of the requirements.

use backstitch_demo::services::{Phase, Service};
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::acceptance_seed_001::shop::order;
use crate::acceptance_seed_001::stage::{MISSED_SOON, Stage, on_both_stores};
use crate::support::within;

#[tokio::test]
async fn edge_1_reconnecting_customer_gets_exactly_the_rest() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.confirm(&["hang:inventory", "refuse:logistics"]).await;
        stage.asked_to_do(&tx, Service::Inventory).await;
        let mut stream = shop.follow(&tx, None).await;
        let mut read = Vec::new();
        while read.len() < 3 {
            read.push(stream.next().await.unwrap());
        }
        // The connection is gone; the order continues.
        drop(stream);
        let path = format!("/v1/orders/{tx}/events");
        let ahead = shop.client.send(Method::GET, &path, &[("last-event-id", "1000")], "").await;
        assert_eq!((ahead.status, ahead.problem().as_str()), (400, "bad-header"), "nobody waits for ever");
        let again = shop.follow(&tx, read.last().unwrap().id).await;
        stage.services.release();
        read.extend(again.rest().await);
        let numbers: Vec<_> = read.iter().map(|event| event.id.unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "each once");
        assert_eq!(read.last().unwrap().data["message"], "Order Failed - Refunded");

        assert_eq!(shop.follow(&tx, None).await.rest().await, read, "whoever comes late gets all of it");
        for missed in 1..read.len() {
            let last = read[missed - 1].id;
            assert_eq!(shop.follow(&tx, last).await.rest().await, read[missed..]);
        }
        let last = read.len().to_string();
        let nothing = shop.client.send(Method::GET, &path, &[("last-event-id", &last)], "").await;
        assert_eq!(nothing.status, 204);
        let beyond = (read.len() + 1).to_string();
        let refused = shop.client.send(Method::GET, &path, &[("last-event-id", &beyond)], "").await;
        assert_eq!((refused.status, refused.problem().as_str()), (400, "bad-header"), "as sagas do");
    })
    .await;
}

#[tokio::test]
async fn edge_1_customer_misses_nothing_after_a_server_crash() {
    on_both_stores(async |stage| {
        let shop = stage.open_with(&MISSED_SOON).await;
        let tx = shop.confirm(&["hang:payment:1x"]).await;
        stage.asked_to_do(&tx, Service::Payment).await;
        let mut stream = shop.follow(&tx, None).await;
        let mut read = vec![stream.next().await.unwrap(), stream.next().await.unwrap()];
        drop(stream);
        shop.kill().await;
        let shop = stage.open_with(&MISSED_SOON).await;
        read.extend(shop.follow(&tx, read.last().unwrap().id).await.rest().await);
        let numbers: Vec<_> = read.iter().map(|event| event.id.unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert_eq!(read.last().unwrap().data["message"], "Order Complete");
    })
    .await;
}

#[tokio::test]
async fn edge_2_repeated_confirmation_is_new_without_a_key() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let (first, second) = (shop.run(&[], "complete").await, shop.run(&[], "complete").await);
        assert_ne!(first, second);
        assert_eq!(stage.services.applied().len(), 6, "both were carried out");
        let ids = stage.rows("select order_id from orders").await;
        assert_eq!(ids, vec![vec![Some("o-17".to_owned())]; 2]);

        let headers = [("content-type", "application/json"), ("idempotency-key", "checkout-9")];
        let confirm = async |body: Value| {
            shop.client.send(Method::POST, "/v1/orders", &headers, body.to_string()).await
        };
        let once = confirm(order(&[])).await;
        let again = confirm(order(&[])).await;
        assert_eq!((once.status, again.status), (202, 202));
        assert_eq!(once.json()["tx_id"], again.json()["tx_id"]);
        let other = confirm(order(&["refuse:payment"])).await;
        assert_eq!((other.status, other.problem().as_str()), (409, "idempotency-conflict"));
        assert_eq!(stage.rows("select order_id from orders").await.len(), 3);
    })
    .await;
}

/// Calls a service as if for this transaction.
async fn ask(stage: &Stage, tx: &str, phase: Phase) -> u16 {
    let client = legacy::Client::builder(TokioExecutor::new()).build_http();
    let body = json!({"saga_id": tx, "step": "payment", "attempt": 1, "input": order(&[])});
    let request = Request::post(stage.services.url(Service::Payment, phase))
        .header("idempotency-key", format!("{tx}:payment:{}", phase.as_str()))
        .body(Full::<bytes::Bytes>::new(body.to_string().into()))
        .unwrap();
    let answer = within(client.request(request)).await.unwrap();
    let status = answer.status().as_u16();
    within(answer.into_body().collect()).await.unwrap();
    status
}

#[tokio::test]
async fn edge_3_fr_017_rollback_of_an_unknown_call_succeeds() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        // The service did nothing and did not say so: it is asked to undo what it knows nothing of.
        let tx = shop.run(&["redirect:inventory"], "failed_refunded").await;
        let undone = stage.asked_to_undo(&tx, Service::Inventory).await;
        assert_eq!((undone.attempt, undone.answered), (1, Some(200)));
        assert_eq!(shop.log(&tx).await[3..], ["F inventory", "R inventory", "R payment", "D"]);
        for _ in 0..2 {
            assert_eq!(ask(&stage, "unheard-of", Phase::Undo).await, 200);
        }
        assert_eq!(ask(&stage, "unheard-of", Phase::Do).await, 409, "what comes after its undo is too late");
        assert!(stage.services.applied().is_empty());
    })
    .await;
}

#[tokio::test]
async fn edge_4_unrecorded_response_is_requested_and_applied_once() {
    on_both_stores(async |stage| {
        let shop = stage.open_with(&MISSED_SOON).await;
        let tx = shop.confirm(&["hang:payment:1x"]).await;
        stage.asked_to_do(&tx, Service::Payment).await;
        shop.freeze();
        stage.services.release();
        stage.called(&tx, |call| call.answered == Some(200)).await;
        shop.kill().await;
        assert_eq!(stage.view(&tx).await.len(), 1, "the service has answered, and the log has only the U");
        let shop = stage.open_with(&MISSED_SOON).await;
        shop.ends(&tx, "complete").await;
        let calls = stage.calls(&tx);
        assert_eq!(stage.called_so_far(&tx)[..2], ["do payment", "do payment"]);
        assert_eq!((calls[0].key.as_str(), calls[0].attempt), (calls[1].key.as_str(), calls[1].attempt - 1));
        assert_eq!(shop.log(&tx).await[..3], ["U payment", "U payment", "S payment"]);
        assert_eq!(stage.in_effect(&tx), ["payment", "inventory", "logistics"], "each once");
    })
    .await;
}

#[tokio::test]
async fn edge_4_an_answer_that_the_network_lost_is_rolled_back() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.run(&["drop:logistics"], "failed_refunded").await;
        assert_eq!(shop.log(&tx).await[5..], ["F logistics", "R logistics", "R inventory", "R payment", "D"]);
        assert!(stage.in_effect(&tx).is_empty(), "it had been done, and was undone");
    })
    .await;
}

#[tokio::test]
async fn edge_5_every_failed_rollback_is_retried_and_reported() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let wishes = ["drop:logistics", "fail-undo:logistics", "fail-undo:inventory", "fail-undo:payment"];
        let tx = shop.run(&wishes, "rollback_failed").await;
        let log = shop.log(&tx).await;
        assert_eq!(log[5..], ["F logistics", "RF logistics", "RF inventory", "RF payment"]);
        let undos = stage.called_so_far(&tx).split_off(3);
        let expected = ["logistics", "inventory", "payment"].map(|name| vec![format!("undo {name}"); 6]);
        assert_eq!(undos, expected.concat());
        let mut alerts = shop.alerts().await;
        alerts.reverse();
        let services: Vec<_> = alerts.iter().map(|alert| alert["service"].clone()).collect();
        assert_eq!(services, ["logistics", "inventory", "payment"], "one alert each");
        assert!(alerts.iter().all(|alert| alert["tx_id"] == tx), "{alerts:?}");

        let one_of_two = ["refuse:logistics", "fail-undo:inventory"];
        let other = shop.run(&one_of_two, "rollback_failed").await;
        assert_eq!(
            shop.log(&other).await[6..],
            ["RF inventory", "R payment"],
            "one that fails stops no other"
        );
        assert_eq!(stage.in_effect(&other), ["inventory"]);
    })
    .await;
}
