//! Ids can be copied wherever they are shown.

use serde_json::json;

use crate::console::stage::on_both_stores;

#[tokio::test(flavor = "multi_thread")]
async fn wherever_an_id_is_shown_it_can_be_copied() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        stage.declare_waiting("slow").await;
        let stuck = stage.stuck("order").await;
        let waiting = stage.start_waiting("slow").await;
        stage.subscribe("hook").await;
        stage.services.answer("hook", 400, "no");
        let dead = stage.tell("e-1", "DeadLettered").await.to_string();
        let message = stage.aborted("m-1").await.to_string();
        stage.declare_parcel().await;
        stage.api.post("/v1/lifecycles/parcel/p-1/start", &json!({ "correlation_id": "c-2" })).await;
        stage.until("/v1/admin/alerts", |page| page["items"][0]["tx_id"].is_string()).await;
        let second = stage.start_waiting("slow").await;
        let admin = stage.as_role("admin").await;
        let of = |id: &str| format!("data-copy=\"{id}\"");
        let seen: [(String, Vec<&str>); 12] = [
            ("/".into(), vec![&stuck, &waiting, "c-1"]),
            ("/sagas".into(), vec![&stuck, &waiting, "c-1"]),
            (format!("/sagas/{waiting}"), vec![&waiting, "c-1"]),
            ("/sagas/bulk?action=cancel".into(), vec![&waiting]),
            ("/alerts".into(), vec![&stuck]),
            ("/webhooks/deliveries".into(), vec![&dead]),
            (format!("/webhooks/deliveries/{dead}"), vec![&dead, "e-1"]),
            ("/webhooks/dead-letters".into(), vec![&dead]),
            ("/outbox".into(), vec![&message, "m-1"]),
            ("/lifecycles/parcel".into(), vec!["p-1", "c-2"]),
            ("/lifecycles/parcel/p-1".into(), vec!["p-1", "c-2"]),
            ("/find?id=c-1".into(), vec![&waiting, &second]),
        ];
        for (path, ids) in seen {
            let page = admin.see(&path).await;
            for id in ids {
                assert!(page.has(&of(id)), "{path} does not let {id} be copied: {}", page.text);
            }
        }
    })
    .await;
}
