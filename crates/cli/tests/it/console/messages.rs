//! Messages of the outbox, and alerts.

use serde_json::json;

use crate::console::stage::{expect, on_both_stores};

#[tokio::test(flavor = "multi_thread")]
async fn aborted_message_shows_its_error_and_is_requeued_once() {
    on_both_stores(async |stage| {
        let id = stage.aborted("m-1").await;
        let operator = stage.as_role("operator").await;
        let list = operator.see("/outbox?status=aborted&topic=parcels").await;
        assert!(list.has(&format!("<a href=\"/outbox/{id}\">")) && list.has("parcels"), "{}", list.text);
        let place = format!("/outbox/{id}");
        let page = operator.see(&place).await;
        assert!(page.has("aborted") && page.has("&#34;parcel&#34;: &#34;m-1&#34;"), "{}", page.text);
        stage.services.answer("topic", 200, "{}");
        let form = page.must_form(&format!("{place}/retry"));
        let sent = operator.send(&form, &[]).await;
        let twice = operator.send(&form, &[]).await;
        assert_eq!((sent.status, sent.location()), (303, twice.location()));
        let new = sent.location().split('?').next().unwrap().to_owned();
        stage.until(&format!("/v1{new}"), |message| message["status"] == "succeeded").await;
        assert!(operator.see(&new).await.has("which was given up"));
        assert_eq!(stage.audited(1).await, [format!("operator POST {place}/retry: 303")]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_topic_list_says_that_there_are_more() {
    on_both_stores(async |stage| {
        let viewer = stage.as_role("viewer").await;
        let more = "these are the first 50 by name";
        let tell = async |number: u32| {
            let message = json!({ "topic": format!("many.{number}"), "idempotency_key": "m", "payload": {} });
            let id = expect(&stage.api.post("/v1/outbox", &message).await, 202)["id"].clone();
            // What is being sent at this moment is not counted.
            stage.until(&format!("/v1/outbox/{id}"), |message| message["status"] == "succeeded").await;
        };
        for number in 10..60 {
            tell(number).await;
        }
        let page = viewer.see("/outbox").await;
        assert!(page.has(">many.59</a>") && !page.has(more), "{}", page.text);
        tell(60).await;
        let page = viewer.see("/outbox").await;
        assert!(page.has(more), "{}", page.text);
        assert!(page.has(">many.59</a>") && !page.has("topic=many.60"), "{}", page.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_acknowledged_once_with_who_did_it() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        let saga = stage.stuck("order").await;
        let alerts =
            stage.until("/v1/admin/alerts", |page| page["items"][0]["notified_at"].is_string()).await;
        let alert = &alerts["items"][0];
        assert_eq!((&alert["tx_id"], &alert["acknowledged"]), (&json!(saga), &json!(null)));
        let id = alert["id"].as_i64().unwrap();
        let (operator, admin) = (stage.as_role("operator").await, stage.as_role("admin").await);
        let late = admin.see("/alerts").await.must_form(&format!("/alerts/{id}/acknowledge"));
        let page = operator.see("/alerts").await;
        assert!(page.has(&saga) && page.has("rollback_failed") && page.has("open"), "{}", page.text);
        let form = page.must_form(&format!("/alerts/{id}/acknowledge"));
        let page = operator.submit(&form, &[("note", "I call the bank")]).await;
        assert!(page.has("<b>operator</b>") && page.has("I call the bank"), "{}", page.text);
        // The first acknowledgement stays: a later one is refused, and its note is not kept.
        let twice = operator.send(&form, &[("note", "I call the bank")]).await;
        assert_eq!(twice.status, 303, "the same form, sent twice: {twice:?}");
        let late = admin.send(&late, &[("note", "I go there")]).await;
        assert_eq!(late.status, 409, "{late:?}");
        assert!(late.has("operator looks after it since") && late.has("nothing was done"), "{}", late.text);
        let again =
            stage.api.post(&format!("/v1/admin/alerts/{id}/acknowledge"), &json!({ "note": "mine" })).await;
        assert_eq!(again.status, 204, "{again:?}");
        let alerts = expect(&stage.api.get("/v1/admin/alerts").await, 200);
        let taken = &alerts["items"][0]["acknowledged"];
        assert_eq!(
            (&taken["by"], &taken["note"]),
            (&json!("operator"), &json!("I call the bank")),
            "{taken}"
        );
        assert!(taken["at"].is_string());
        let audited = stage.audited(4).await;
        let expected = [
            format!("admin POST /v1/admin/alerts/{id}/acknowledge: 204"),
            format!("admin POST /alerts/{id}/acknowledge: 409"),
            format!("operator POST /alerts/{id}/acknowledge: 303"),
            format!("operator POST /alerts/{id}/acknowledge: 303"),
        ];
        assert_eq!(audited, expected);
        let none = stage.api.post("/v1/admin/alerts/999/acknowledge", &json!({})).await;
        assert_eq!((none.status, none.problem().as_str()), (404, "alert-not-found"));
        let forbidden = stage.program.client.with_key(stage.key("viewer"));
        assert_eq!(
            forbidden.post(&format!("/v1/admin/alerts/{id}/acknowledge"), &json!({})).await.status,
            403
        );
        let refused = stage.place.refusal("update alert_acknowledgements set note = ''").await;
        assert!(refused.contains("never changes"), "{refused}");
    })
    .await;
}
