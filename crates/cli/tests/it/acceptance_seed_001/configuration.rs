//! User story 6: the order of the services and their timeouts change while the server runs.

use std::collections::BTreeSet;

use backstitch_demo::services::{Phase, Service};
use futures::future::join_all;
use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_001::stage::{Stage, on_both_stores};

fn endpoints(stage: &Stage) -> Value {
    let endpoint = |service| {
        json!({
            "url": stage.services.url(service, Phase::Do), "rollback_url": stage.services.url(service, Phase::Undo)
        })
    };
    let each = Service::ALL.map(|service| (service.name().to_owned(), endpoint(service)));
    Value::Object(each.into_iter().collect())
}

#[tokio::test]
async fn us6_1_fr_025_fr_028_active_and_staged_settings_are_shown() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let services =
            json!({"order": ["payment", "inventory", "logistics"], "endpoints": endpoints(&stage)});
        assert_eq!(shop.config("services").await, json!({"active": services, "staged": null}));
        let timeouts = json!({"payment": "30s", "inventory": "60s", "logistics": "120s"});
        assert_eq!(shop.config("timeouts").await, json!({"active": timeouts, "staged": null}));
        shop.stage("services", &json!({"order": ["logistics", "payment", "inventory"]})).await;
        shop.stage("timeouts", &json!({"payment": 45})).await;
        let standing = shop.config("services").await;
        assert_eq!(standing["active"], services);
        assert_eq!(standing["staged"]["order"], json!(["logistics", "payment", "inventory"]));
        assert_eq!(standing["staged"]["endpoints"], endpoints(&stage));
        let staged = json!({"payment": "45s", "inventory": "60s", "logistics": "120s"});
        let standing = shop.config("timeouts").await;
        assert_eq!((&standing["active"], &standing["staged"]), (&timeouts, &staged));
    })
    .await;
}

#[tokio::test]
async fn only_the_expected_revision_is_applied_or_discarded() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let ask = async |method: Method, path: &str, revision: &str| {
            let path = format!("/v1/admin/config/{path}?revision={revision}");
            shop.client.send(method, &path, &[], "").await
        };
        for (kind, first, second) in [
            (
                "services",
                json!({"order": ["logistics", "payment", "inventory"]}),
                json!({"order": ["payment", "logistics", "inventory"]}),
            ),
            ("timeouts", json!({"payment": "45s"}), json!({"payment": "50s"})),
        ] {
            let seen = shop.stage(kind, &first).await.json()["revision"].as_str().unwrap().to_owned();
            let now = shop.stage(kind, &second).await.json()["revision"].as_str().unwrap().to_owned();
            for (method, path) in [(Method::POST, "apply"), (Method::DELETE, "staged")] {
                let refused = ask(method, &format!("{kind}/{path}"), &seen).await;
                assert_eq!((refused.status, refused.problem().as_str()), (409, "raced"), "{refused:?}");
                assert_eq!(refused.json()["revision"], now);
            }
            assert_eq!(shop.config(kind).await["revision"], now, "nothing was done");
            let applied = ask(Method::POST, &format!("{kind}/apply"), &now).await;
            assert_eq!((applied.status, &applied.json()["staged"]), (200, &json!(null)), "{applied:?}");
            let again = shop.stage(kind, &first).await.json()["revision"].as_str().unwrap().to_owned();
            assert_eq!(ask(Method::DELETE, &format!("{kind}/staged"), &again).await.status, 200);
        }
    })
    .await;
}

#[tokio::test]
async fn us6_2_fr_026_fr_029_staged_settings_wait_for_apply() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let change = json!({"order": ["logistics", "inventory", "payment"]});
        assert_eq!(shop.stage("services", &change).await.status, 200);
        assert_eq!(shop.stage("timeouts", &json!({"payment": "1ms"})).await.status, 200);
        let tx = shop.run(&[], "complete").await;
        assert_eq!(stage.called_so_far(&tx), ["do payment", "do inventory", "do logistics"]);
        shop.kill().await;
        let shop = stage.open().await;
        assert_eq!(shop.config("services").await["staged"]["order"], change["order"], "it outlives a crash");
        assert_eq!(shop.config("timeouts").await["staged"]["payment"], "1ms");
        for kind in ["services", "timeouts"] {
            let discarded = shop.discard(kind).await;
            assert_eq!((discarded.status, &discarded.json()["staged"]), (200, &json!(null)));
            assert_eq!(shop.config(kind).await["staged"], json!(null));
        }
    })
    .await;
}

#[tokio::test]
async fn us6_3_fr_003_fr_027_new_orders_use_applied_settings() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let old = shop.confirm(&["hang:payment"]).await;
        stage.asked_to_do(&old, Service::Payment).await;
        shop.stage("services", &json!({"order": ["logistics", "inventory", "payment"]})).await;
        let applied = shop.apply("services").await.json();
        assert_eq!(applied["active"]["order"], json!(["logistics", "inventory", "payment"]));
        assert_eq!((&applied["staged"], &applied["version"]), (&json!(null), &json!(2)));
        assert_eq!(applied["in_flight"], json!([{"version": 1, "sagas": 1}]));
        let new = shop.run(&[], "complete").await;
        assert_eq!(stage.called_so_far(&new), ["do logistics", "do inventory", "do payment"]);
        stage.services.release();
        shop.ends(&old, "complete").await;
        assert_eq!(stage.called_so_far(&old), ["do payment", "do inventory", "do logistics"]);
    })
    .await;
}

#[tokio::test]
async fn us6_3_running_order_is_rolled_back_at_its_old_endpoint() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.confirm(&["refuse:logistics", "hang:inventory"]).await;
        stage.asked_to_do(&tx, Service::Inventory).await;
        let nowhere = json!({"url": "http://127.0.0.1:1/do", "rollback_url": "http://127.0.0.1:1/undo"});
        shop.change("services", &json!({"endpoints": {"payment": nowhere}})).await;
        stage.services.release();
        shop.ends(&tx, "failed_refunded").await;
        assert!(stage.in_effect(&tx).is_empty());
        let new = shop.run(&[], "failed_refunded").await;
        assert!(stage.calls(&new).is_empty());
    })
    .await;
}

#[tokio::test]
async fn us6_4_fr_030_new_orders_use_applied_timeouts() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let old = shop.confirm(&["hang:logistics"]).await;
        stage.asked_to_do(&old, Service::Logistics).await;
        shop.stage("timeouts", &json!({"logistics": "300ms"})).await;
        let applied = shop.apply("timeouts").await.json();
        assert_eq!((&applied["active"]["logistics"], &applied["staged"]), (&json!("300ms"), &json!(null)));
        let new = shop.run(&["hang:logistics"], "failed_refunded").await;
        assert!(shop.log(&new).await.contains(&"F logistics".to_owned()));
        assert_eq!(shop.outcome(&old).await, "processing");
        stage.services.release();
        shop.ends(&old, "complete").await;
    })
    .await;
}

#[tokio::test]
async fn sc_008_settings_apply_under_load_without_losing_orders() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let orders_in_turn = [
            json!(["logistics", "inventory", "payment"]),
            json!(["inventory", "payment", "logistics"]),
            json!(["payment", "inventory", "logistics"]),
        ];
        let mut orders = Vec::new();
        for (number, order) in orders_in_turn.iter().enumerate() {
            let buying = join_all((0..10).map(|_| shop.confirm(&[])));
            let changing = async {
                shop.change("services", &json!({"order": order})).await;
                shop.change("timeouts", &json!({"payment": 31 + number})).await;
                assert_eq!(shop.client.get("/health/ready").await.status, 200);
            };
            let (confirmed, ()) = tokio::join!(buying, changing);
            orders.extend(confirmed);
        }
        let mut first_services = BTreeSet::new();
        for tx in &orders {
            shop.ends(tx, "complete").await;
            let called = stage.called_so_far(tx);
            let known = |order: &Value| {
                let names = order.as_array().unwrap().iter();
                names.map(|name| format!("do {}", name.as_str().unwrap())).collect::<Vec<_>>()
            };
            assert!(
                orders_in_turn.iter().any(|order| known(order) == called),
                "one whole setting: {called:?}"
            );
            first_services.insert(called[0].clone());
        }
        // Whichever setting the orders of each round met, no single one was in force in all three.
        assert!(first_services.len() > 1, "all ran under one setting: {first_services:?}");
        assert_eq!(shop.config("timeouts").await["active"]["payment"], "33s");
    })
    .await;
}

#[tokio::test]
async fn us6_unconfigured_server_is_configured_by_its_api() {
    on_both_stores(async |stage| {
        let shop = stage.open_unconfigured().await;
        assert_eq!(shop.config("services").await, json!({"active": null, "staged": null}));
        let timeouts = json!({"payment": "30s", "inventory": "60s", "logistics": "120s"});
        assert_eq!(shop.config("timeouts").await, json!({"active": timeouts, "staged": null}));
        shop.change("services", &json!({"endpoints": endpoints(&stage)})).await;
        shop.run(&[], "complete").await;
    })
    .await;
}
