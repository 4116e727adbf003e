//! Definitions and settings of orders: active against staged.

use crate::console::stage::on_both_stores;

const NEXT: &str =
    "name: order\nsteps:\n  - id: only\n    action: { worker: { queue: hands } }\n    timeout: 5m\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_written_looked_at_applied_and_discarded() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        let admin = stage.as_role("admin").await;
        let page = admin.see("/definitions/order").await;
        assert!(page.has("<svg") && page.has("undo first") && page.has("When a step fails"), "{}", page.text);
        let form = admin.see("/new-definition?of=order").await.must_form("/new-definition");
        let wrong = "name: order\nsteps:\n  - idd: <b>\n    action: { worker: {} }\n";
        let told = admin.send(&form, &[("text", wrong)]).await;
        assert_eq!(told.status, 422, "{told:?}");
        assert!(
            told.has("steps[0].idd") && told.has("steps[0].id") && told.has("idd: &#60;b&#62;"),
            "{}",
            told.text
        );

        let page = admin.submit(&form, &[("text", NEXT)]).await;
        assert!(
            page.has("version 2 waits to be applied") && page.has("<ins>") && page.has("<del>"),
            "{}",
            page.text
        );
        assert!(page.has("steps[first]: removed") && page.has("steps[only]: added"), "{}", page.text);
        let apply = page.must_form("/definitions/order/apply");
        let discard = page.must_form("/definitions/order/discard");
        let page = admin.submit(&discard, &[]).await;
        assert!(page.has("What was staged is discarded.") && page.form("/definitions/order/apply").is_none());
        admin.submit(&form, &[("text", NEXT)]).await;
        for stale in [&apply, &discard] {
            let refused = admin.send(stale, &[]).await;
            assert_eq!(refused.status, 409, "{refused:?}");
        }
        let page = admin.see("/definitions/order").await;
        let page = admin.submit(&page.must_form("/definitions/order/apply"), &[]).await;
        assert!(page.has("The staged version is active"), "{}", page.text);
        assert_eq!(stage.api.get("/v1/definitions/order").await.json()["active"], 3);
        let audited = stage.audited(2).await;
        assert_eq!(
            audited,
            ["admin POST /definitions/order/apply: 303", "admin POST /definitions/order/discard: 409"]
        );
        assert!(admin.see("/definitions").await.has(r#"<a href="/definitions/order">order</a>"#));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn order_settings_are_staged_applied_and_discarded() {
    on_both_stores(async |stage| {
        let admin = stage.as_role("admin").await;
        let form = admin.see("/orders").await.must_form("/orders/services");
        let told =
            admin.send(&form, &[("order", "payment, payment, shop"), ("payment.url", "nowhere")]).await;
        assert_eq!(told.status, 422, "{told:?}");
        assert!(
            told.has("listed twice")
                && told.has(r#"value="payment, payment, shop""#)
                && told.has(r#"value="nowhere""#),
            "{}",
            told.text
        );
        let url = |name: &str| stage.services.url(name);
        let services = [
            ("order", "inventory, payment, logistics"),
            ("payment.url", &url("pay")),
            ("payment.rollback_url", &url("refund")),
            ("payment.retry", "3"),
            ("inventory.url", &url("take")),
            ("inventory.rollback_url", &url("put")),
            ("logistics.url", &url("send")),
            ("logistics.rollback_url", &url("stop")),
        ];
        let page = admin.submit(&form, &services).await;
        let apply = page.must_form("/orders/services/apply");
        let other = [("order", "payment, inventory, logistics")];
        let others: Vec<_> = services.into_iter().skip(1).chain(other).collect();
        admin.submit(&form, &others).await;
        assert_eq!(admin.send(&apply, &[]).await.status, 409, "another change is staged by now");
        let page = admin.see("/orders").await;
        let page = admin.submit(&page.must_form("/orders/services/apply"), &[]).await;
        assert!(page.form("/orders/services/apply").is_none(), "{}", page.text);
        let active = stage.api.get("/v1/admin/config/services").await.json()["active"].clone();
        assert_eq!(active["order"][0], "payment", "{active}");
        assert_eq!(active["endpoints"]["payment"]["retry"]["count"], 3, "{active}");
        let bad = admin.send(&page.must_form("/orders/services"), &[("payment.retry", "often")]).await;
        assert!(bad.status == 422 && bad.has("endpoints.payment.retry"), "{}", bad.text);
        assert!(bad.has(r#"value="often""#), "{}", bad.text);

        let form = page.must_form("/orders/timeouts");
        let told = admin.send(&form, &[("payment.timeout", "soon")]).await;
        assert!(told.status == 422 && told.has(r#"value="soon""#), "{}", told.text);
        let page = admin.submit(&form, &[("payment.timeout", "45s")]).await;
        assert!(page.has("<ins>+   &#34;payment&#34;: &#34;45s&#34;"), "{}", page.text);
        let page = admin.submit(&page.must_form("/orders/timeouts/discard"), &[]).await;
        admin.submit(&page.must_form("/orders/timeouts"), &[("payment.timeout", "50s")]).await;
        let page = admin.see("/orders").await;
        admin.submit(&page.must_form("/orders/timeouts/apply"), &[]).await;
        assert_eq!(stage.api.get("/v1/admin/config/timeouts").await.json()["active"]["payment"], "50s");
        assert_eq!(stage.audited(1).await, ["admin POST /orders/timeouts/apply: 303"]);
    })
    .await;
}
