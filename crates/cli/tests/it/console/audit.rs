//! The audit shows what was done, not only the path.

use serde_json::json;

use crate::console::stage::{expect, on_both_stores};

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_says_which_action_on_which_filter_and_how_many() {
    on_both_stores(async |stage| {
        let newest = async || {
            let page = expect(&stage.api.get("/v1/audit?limit=1").await, 200);
            page["items"][0]["what"].as_str().unwrap_or_default().to_owned()
        };
        stage.declare_waiting("slow").await;
        for tenant in ["acme", "acme", "other"] {
            let body = json!({ "definition": "slow", "attributes": { "tenant": tenant } });
            stage.api.start(&body).await;
        }
        let (operator, admin) = (stage.as_role("operator").await, stage.as_role("admin").await);
        let form = operator.see("/sagas/bulk?attr.tenant=acme&action=cancel").await.must_form("/sagas/bulk");
        operator.submit(&form, &[("note", "acme has left")]).await;
        assert_eq!(newest().await, "cancel: 2 of 2 sagas, attr.tenant=acme");
        assert!(admin.see("/audit").await.has("cancel: 2 of 2 sagas, attr.tenant=acme"));

        stage.declare("order").await;
        let saga = stage.stuck("order").await;
        let place = format!("/sagas/{saga}");
        let form = operator.see(&place).await.must_form(&format!("{place}/steps/first/resolve"));
        operator.submit(&form, &[("action", "skip"), ("note", "written off")]).await;
        assert_eq!(newest().await, "skip");
        let saga = stage.stuck("order").await;
        let decision = json!({ "action": "done", "note": "by hand" });
        expect(&stage.api.post(&format!("/v1/sagas/{saga}/steps/first/resolve"), &decision).await, 202);
        assert_eq!(newest().await, "done", "through the API too");

        stage.subscribe("hook").await;
        stage.services.answer("hook", 400, "no");
        stage.tell("e-1", "DeadLettered").await;
        let form = operator.see("/webhooks/dead-letters/requeue?code=http_400").await;
        operator.submit(&form.must_form("/webhooks/dead-letters/requeue"), &[]).await;
        assert_eq!(newest().await, "requeue: 1 of 1 dead letters, code=http_400");

        let all = json!({ "final_error_code": "http_400" });
        expect(&stage.api.post("/v1/webhooks/dead-letters/requeue", &all).await, 200);
        assert!(newest().await.ends_with(" dead letters, final_error_code=http_400"), "through the API too");

        let form = admin.see("/new-definition").await.must_form("/new-definition");
        let text = "name: greeting\nsteps: [{ id: a, action: { worker: { queue: q } } }]";
        admin.submit(&form, &[("text", text)]).await;
        assert_eq!(newest().await, "staged greeting version 1");
        let form = admin.see("/orders").await.must_form("/orders/timeouts");
        admin.submit(&form, &[("payment.timeout", "45s")]).await;
        assert!(newest().await.starts_with("staged timeouts: {"), "{}", newest().await);
        assert!(newest().await.contains("45s"), "{}", newest().await);
    })
    .await;
}
