//! "Error Categorisation".

use serde_json::json;

use crate::acceptance_seed_004::stage::{expect, on_both_stores, refused, site};

const KINDS: [&str; 5] = ["github_api", "vercel_api", "no_github_token", "quota_exceeded", "internal"];

#[tokio::test(flavor = "multi_thread")]
async fn error_kinds_are_the_seeds() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for kind in KINDS {
            open.start(kind, &json!({})).await;
            let failed = expect(&open.fail(kind, kind).await, 200);
            assert_eq!(
                (&failed["state"], &failed["error_kind"], &failed["last_error"]),
                (&json!("failed"), &json!(kind), &json!("it broke"))
            );
            let site = open.get(&format!("/v1/sites/{kind}")).await;
            assert_eq!((&site["error_kind"], &site["last_error"]), (&json!(kind), &json!("it broke")));
        }
        let machine = open.get("/v1/lifecycles/site-provisioning").await;
        assert_eq!(machine["definition"]["error_kinds"], json!(KINDS));
        open.start("s", &json!({})).await;
        let unknown = open.fail("s", "vercel-api").await;
        refused(&unknown, 422, "invalid-fields", "did you mean `vercel_api`?");
        assert_eq!(unknown.json()["problems"][0]["place"], "error_kind");
        refused(
            &open.fail("s", "the moon").await,
            422,
            "invalid-fields",
            "use one of github_api, vercel_api",
        );
        assert_eq!(open.look("s").await["state"], "requested");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_error_is_free_text() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for (nth, message) in ["", "ü🧵\n\t\"quoted\" <b>", &"x".repeat(4096)].into_iter().enumerate() {
            let key = nth.to_string();
            open.start(&key, &json!({})).await;
            let body = json!({ "error_kind": "internal", "message": message });
            expect(&open.client.post(&site(&key, "/fail"), &body).await, 200);
            assert_eq!(open.look(&key).await["last_error"], message);
        }
        open.start("s", &json!({})).await;
        for message in ["a\u{0}b".to_owned(), "x".repeat(4097)] {
            let body = json!({ "error_kind": "internal", "message": message });
            refused(&open.client.post(&site("s", "/fail"), &body).await, 422, "invalid-fields", "message");
        }
    })
    .await;
}
