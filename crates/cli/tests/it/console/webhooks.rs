//! Subscriptions, deliveries and dead letters.

use serde_json::json;

use crate::console::stage::on_both_stores;

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_tested_disabled_enabled_and_replayed_once() {
    on_both_stores(async |stage| {
        let id = stage.subscribe("hook").await;
        stage.tell("e-1", "Completed").await;
        let admin = stage.as_role("admin").await;
        let place = format!("/webhooks/subscriptions/{id}");
        assert!(admin.see("/webhooks").await.has("of the last 1 none failed"));
        let page = admin.see(&place).await;
        stage.services.answer("hook", 418, "<i>teapot</i>");
        let test = page.must_form(&format!("{place}/test"));
        let tested = admin.submit(&test, &[]).await;
        assert!(
            tested.has("did not arrive") && tested.has("418") && tested.has("&#60;i&#62;teapot"),
            "{}",
            tested.text
        );
        let heard = stage.services.heard("hook");
        assert!(admin.submit(&test, &[]).await.has("418"), "what came of it the first time");
        assert_eq!(stage.services.heard("hook"), heard, "sent twice, the form makes one call");
        stage.services.answer("hook", 200, "");

        let disable = page.must_form(&format!("{place}/disable"));
        assert_eq!(admin.send(&disable, &[("note", "")]).await.status, 422);
        let page = admin.submit(&disable, &[("note", "it is moved")]).await;
        assert!(page.has("admin: it is moved") && page.has("disabled"), "{}", page.text);
        assert_eq!(admin.send(&disable, &[("note", "again")]).await.status, 409);
        let enable = page.must_form(&format!("{place}/enable"));
        let page = admin.submit(&enable, &[]).await;
        assert!(page.has("The endpoint is enabled"), "{}", page.text);
        assert_eq!(admin.send(&enable, &[]).await.status, 409, "it is enabled already");

        let heard = stage.services.heard("hook");
        let replay = page.must_form(&format!("{place}/replay"));
        let odd = admin.send(&replay, &[("since", "then"), ("until", "now")]).await;
        assert_eq!(odd.status, 422);
        let range = [("since", "2020-01-01T00:00:00Z"), ("until", "2999-01-01T00:00:00Z")];
        admin.submit(&replay, &range).await;
        admin.submit(&replay, &range).await;
        let found = stage
            .until(&format!("/v1/webhooks/deliveries?subscription_id={id}"), |page| {
                page["items"].as_array().unwrap().iter().all(|it| it["status"] == "Completed")
            })
            .await;
        assert_eq!(found["items"].as_array().unwrap().len(), 2, "sent twice, the form replays once: {found}");
        assert_eq!(stage.services.heard("hook"), heard + 1);
        let audited = stage.audited(1).await;
        assert_eq!(audited, [format!("admin POST {place}/replay: 303")]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_shows_its_attempts_and_is_requeued() {
    on_both_stores(async |stage| {
        let id = stage.subscribe("hook").await;
        stage.services.answer("hook", 400, "wrong version");
        let dead = stage.tell("e-1", "DeadLettered").await;
        let operator = stage.as_role("operator").await;
        let list = operator.see("/webhooks").await;
        assert!(
            list.has("enabled, failing") && list.has("of the last 1, 0 failing, 1 given up"),
            "{}",
            list.text
        );
        let page = operator.see(&format!("/webhooks/deliveries/{dead}")).await;
        for told in ["given up", "400", "wrong version", "http_400", "order.created", "e-1"] {
            assert!(page.has(told), "{told}: {}", page.text);
        }
        let attempt =
            page.text.split("<details id=\"sent-1\">").nth(1).unwrap().split("</details>").next().unwrap();
        assert!(attempt.contains("webhook-signature"), "its headers can be read without a mouse: {attempt}");
        stage.services.answer("hook", 200, "");
        let requeue = format!("/webhooks/dead-letters/{dead}/requeue");
        let form = page.must_form(&requeue);
        let sent = operator.send(&form, &[]).await;
        let twice = operator.send(&form, &[]).await;
        assert_eq!(sent.location(), twice.location(), "the same new delivery");
        let new = sent.location().split('?').next().unwrap().to_owned();
        stage.until(&format!("/v1{new}"), |delivery| delivery["status"] == "Completed").await;
        let page = operator.see(&format!("/webhooks/deliveries/{dead}")).await;
        assert!(page.form(&requeue).is_none() && page.has("Sent after all"), "{}", page.text);

        stage.services.answer("hook", 400, "no");
        for number in 2..5 {
            stage.tell(&format!("e-{number}"), "DeadLettered").await;
        }
        let filter = format!("subscription={id}&code=http_400");
        let preview = operator.see(&format!("/webhooks/dead-letters/requeue?{filter}")).await;
        assert!(preview.has("Send 3 dead letters after all"), "{}", preview.text);
        let form = preview.must_form("/webhooks/dead-letters/requeue");
        let later = stage.tell("e-5", "DeadLettered").await;
        stage.services.answer("hook", 200, "");
        let done = operator.submit(&form, &[]).await;
        assert!(done.has("<h1>3 are sent after all</h1>"), "{}", done.text);
        let twice = operator.submit(&form, &[]).await;
        assert!(twice.has("<h1>3 are sent after all</h1>"), "what came of it the first time: {}", twice.text);
        assert_eq!(stage.audited(1).await, ["operator POST /webhooks/dead-letters/requeue: 303"]);
        let left = operator.see(&format!("/webhooks/dead-letters?{filter}&waiting=yes")).await;
        let rows = left.text.matches("<tr><td><a href=\"/webhooks/deliveries/").count();
        assert!(rows == 1 && left.has(&format!("/webhooks/deliveries/{later}\"")), "{}", left.text);
        let all = operator.see("/webhooks/dead-letters").await;
        assert_eq!(all.text.matches("<tr><td><a href=\"/webhooks/deliveries/").count(), 5);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_dead_letters_are_sent_as_were_shown() {
    on_both_stores(async |stage| {
        let [gone, stays] = [stage.subscribe("gone").await, stage.subscribe("hook").await];
        for service in ["gone", "hook"] {
            stage.services.answer(service, 400, "no");
        }
        for number in 1..4 {
            let event = json!({ "type": "order.created", "id": format!("e-{number}"), "payload": {} });
            stage.api.post("/v1/webhooks/events", &event).await;
        }
        let all = |page: &serde_json::Value| page["items"].as_array().unwrap().len() == 6;
        stage.until("/v1/webhooks/dead-letters", all).await;
        let deleted = format!("/v1/webhooks/subscriptions/{gone}");
        let deleted = stage.api.send(hyper::Method::DELETE, &deleted, &[], "").await;
        assert_eq!(deleted.status, 204, "{deleted:?}");
        let operator = stage.as_role("operator").await;
        let preview = operator.see("/webhooks/dead-letters/requeue").await;
        assert!(preview.has("Send 3 dead letters after all"), "{}", preview.text);
        let done = operator.submit(&preview.must_form("/webhooks/dead-letters/requeue"), &[]).await;
        assert!(done.has("<h1>3 are sent after all</h1>"), "{}", done.text);
        let sent = stage.api.get(&format!("/v1/webhooks/deliveries?subscription_id={stays}")).await.json();
        assert_eq!(sent["items"].as_array().unwrap().len(), 6, "{sent}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_error_is_not_shown_as_missing() {
    on_both_stores(async |stage| {
        stage.subscribe("hook").await;
        stage.services.answer("hook", 400, "no");
        let dead = stage.tell("e-1", "DeadLettered").await;
        let viewer = stage.as_role("viewer").await;
        let place = format!("/webhooks/deliveries/{dead}");
        viewer.see(&place).await;
        stage.place.rows("alter table dead_letters rename to dead_letters_elsewhere").await;
        let page = viewer.get(&place).await;
        assert_eq!(page.status, 500, "{}", page.text);
    })
    .await;
}
