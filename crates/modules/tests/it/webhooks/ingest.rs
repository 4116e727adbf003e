//! Events come in once, and go to everybody who wants them: §2.3.

use std::collections::BTreeSet;

use backstitch::Payload;
use backstitch_modules::webhooks::{Error, NewEvent};

use crate::webhooks::stage::{Stage, order_created};

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_the_same_event_again_is_the_same_event_and_routes_nothing_twice() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        let first = stage.tell("o-1").await;
        assert_eq!((first.deliveries, first.repeated), (1, false));
        // Somebody who subscribes later does not get it by a repeat.
        stage.subscribe(&["*"], 8).await;
        let spelled_otherwise =
            NewEvent { payload: Payload::parse("{ \"order\":\"o-1\" }").unwrap(), ..order_created("o-1") };
        for event in [order_created("o-1"), spelled_otherwise] {
            let again = stage.webhooks.ingest.accept(event).await.unwrap();
            assert_eq!((again.event, again.deliveries, again.repeated), (first.event, 1, true));
            assert_eq!(again.webhook_id, first.webhook_id);
        }
        assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_an_id_with_another_body_or_type_is_a_conflict_and_changes_nothing() {
    for stage in Stage::each().await {
        stage.subscribe(&["*"], 8).await;
        let first = stage.tell("o-1").await;
        let body = NewEvent { payload: Payload::parse("{}").unwrap(), ..order_created("o-1") };
        let kind = NewEvent { kind: "order.paid".to_owned(), ..order_created("o-1") };
        for other in [body, kind] {
            let refused = stage.webhooks.ingest.accept(other).await.unwrap_err();
            assert!(matches!(refused, Error::Conflict { event, .. } if event == first.event), "{refused}");
        }
        assert_eq!(stage.number("select count(*) from webhook_events").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_payloads_are_compared_by_their_canonical_form() {
    // What is no number to anybody who reads doubles is compared as it stands.
    let giant = "[1e400]";
    for stage in Stage::each().await {
        for (nth, (first, again, is_same)) in [
            (r#"{"n": 2}"#, r#"{"n": 2.0}"#, true),
            (r#"{"n": 100}"#, r#"{"n":1e2}"#, true),
            (r#"{"a": 1, "b": [2, {"c": 3, "d": 4}]}"#, r#"{"b":[2,{"d":4,"c":3}],"a":1}"#, true),
            (r#""\u00e9\/""#, r#""é/""#, true),
            (giant, giant, true),
            (r#"{"n": 2}"#, r#"{"n": "2"}"#, false),
            (r#"{"n": 2}"#, r#"{"n": 2.5}"#, false),
            (r#"{"n": 0}"#, r#"{"n": null}"#, false),
            (r#"{"n": null}"#, "{}", false),
            ("[1, 2]", "[2, 1]", false),
            (r#"{"id": 1794919190069040301}"#, r#"{"id":1794919190069040301}"#, true),
            (r#"{"id": 1794919190069040301}"#, r#"{"id": 1794919190069040302}"#, false),
            ("[-9007199254740993]", "[-9007199254740994]", false),
            ("[9007199254740993, 9007199254740992]", "[9007199254740992, 9007199254740993]", false),
            ("[9007199254740993, 1, 2]", "[9007199254740993, 1, 3]", false),
            ("[100000000000000000]", "[1e17]", true),
            (giant, "[1e401]", false),
        ]
        .into_iter()
        .enumerate()
        {
            let event = |payload: &str| NewEvent {
                payload: Payload::parse(payload).unwrap(),
                ..order_created(&format!("o-{nth}"))
            };
            let taken = stage.webhooks.ingest.accept(event(first)).await.unwrap();
            for (payload, is_same) in [(first, true), (again, is_same)] {
                match stage.webhooks.ingest.accept(event(payload)).await {
                    Ok(told) => assert!(is_same && told.repeated && told.event == taken.event, "{payload}"),
                    Err(why) => {
                        assert!(!is_same && matches!(why, Error::Conflict { .. }), "{payload}: {why}");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_many_at_once_share_transactions_and_each_gets_its_own_answer() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        stage.subscribe(&["order.created", "*"], 8).await;
        let events: Vec<_> = (0..50).map(|number| order_created(&format!("o-{}", number % 25))).collect();
        let accepted = stage.webhooks.ingest.accept_all(events).await;
        let fresh = accepted.iter().flatten().filter(|accepted| !accepted.repeated).count();
        assert_eq!(fresh, 25);
        let numbers: BTreeSet<i64> = accepted.iter().flatten().map(|accepted| accepted.event).collect();
        assert_eq!(numbers.len(), 25);
        assert!(accepted.iter().flatten().all(|accepted| accepted.deliveries == 2), "{accepted:?}");
        assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 50);
        let other = NewEvent { payload: Payload::null(), ..order_created("o-3") };
        let mixed =
            stage.webhooks.ingest.accept_all(vec![order_created("o-3"), other, order_created("n-1")]).await;
        assert!(mixed[0].as_ref().unwrap().repeated && !mixed[2].as_ref().unwrap().repeated);
        assert!(matches!(mixed[1], Err(Error::Conflict { .. })), "and fails none of its neighbours");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_two_nodes_that_take_the_same_events_route_them_once() {
    let stage = Stage::postgres().await;
    stage.subscribe(&["*"], 8).await;
    let other = stage.another().await;
    let events = || (0..60).map(|number| order_created(&format!("o-{number}"))).collect::<Vec<_>>();
    let backwards = events().into_iter().rev().collect();
    let (here, there) =
        tokio::join!(stage.webhooks.ingest.accept_all(events()), other.ingest.accept_all(backwards));
    let fresh = here.iter().chain(&there).filter(|it| !it.as_ref().unwrap().repeated).count();
    assert_eq!(fresh, 60);
    assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_goes_to_those_who_name_its_type_and_to_the_disabled_among_them_too() {
    for stage in Stage::each().await {
        for types in
            [&["order.created"][..], &["order.*"], &["*"], &["invoice.*", "order.created", "order.*"]]
        {
            stage.subscribe(types, 8).await;
        }
        stage.subscribe(&["order", "orders.*", "order.created.late"], 8).await;
        let disabled = stage.subscribe(&["order.*"], 8).await;
        stage.webhooks.subscriptions.disable(disabled.id, "moving house").await.unwrap();
        assert_eq!(stage.tell("o-1").await.deliveries, 5);
        let nobody = NewEvent { kind: "nobody.cares".to_owned(), ..order_created("o-2") };
        assert_eq!(stage.webhooks.ingest.accept(nobody).await.unwrap().deliveries, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_event_is_refused_with_a_reason() {
    let stage = Stage::sqlite().await;
    for (id, kind) in
        [(Some(""), "order"), (Some("a\0b"), "order"), (None, ""), (None, "order.*"), (None, "a b")]
    {
        let event = NewEvent { id: id.map(str::to_owned), kind: kind.to_owned(), payload: Payload::null() };
        let refused = stage.webhooks.ingest.accept(event).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
    }
    let long = NewEvent { id: Some("x".repeat(201)), ..order_created("") };
    assert!(stage.webhooks.ingest.accept(long).await.is_err());
    assert_eq!(stage.number("select count(*) from webhook_events").await, 0);
}
