//! Receivers verify signatures, also during a rotation of the secret.

use serde_json::json;
use standardwebhooks::Webhook;

use crate::acceptance_seed_000::receiver::Heard;
use crate::acceptance_seed_000::stage::{expect, number, on_both_stores, with};

fn verifies(secret: &str, heard: &Heard) -> bool {
    Webhook::new(secret).unwrap().verify(&heard.body, &heard.headers).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_signed_and_during_a_rotation_with_both_secrets() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let made = open.subscribe(&stage.terms("a")).await;
        let (id, first) = (number(&made, "id"), made["secret"].as_str().unwrap().to_owned());
        open.tell("o-1").await;
        let heard = stage.receiver.has_heard("a", 1).await.remove(0);
        assert!(verifies(&first, &heard));
        assert_eq!(heard.header("x-backstitch-attempt"), "1");
        let forged = Heard { body: "{}".into(), ..heard };
        assert!(!verifies(&first, &forged));

        let rotate = format!("/v1/webhooks/subscriptions/{id}/rotate-secret");
        let rotated = expect(&open.client.post(&rotate, &json!({})).await, 200);
        let second = rotated["secret"].as_str().unwrap().to_owned();
        assert!(first != second && rotated["previous_secret_until"].is_string(), "{rotated}");
        open.tell("o-2").await;
        let heard = stage.receiver.has_heard("a", 2).await.remove(1);
        assert!(verifies(&first, &heard) && verifies(&second, &heard));

        let lost = open.client.post(&rotate, &json!({})).await;
        assert_eq!(lost.status, 409, "the first one is promised for a day: {lost:?}");
        // Without an overlap the old one is good no more.
        let third = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let own = json!({ "secret": third, "overlap": 0 });
        assert_eq!(expect(&open.client.post(&rotate, &own).await, 200)["secret"], third);
        open.tell("o-3").await;
        let heard = stage.receiver.has_heard("a", 3).await.remove(2);
        assert!(verifies(third, &heard) && !verifies(&first, &heard) && !verifies(&second, &heard));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_is_shown_once_and_headers_never() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let terms = with(
            stage.terms("a"),
            json!({ "headers": { "Authorization": "Bearer hush", "X-Tenant": "t-1" } }),
        );
        let made = open.subscribe(&terms).await;
        let secret = made["secret"].as_str().unwrap().to_owned();
        let path = format!("/v1/webhooks/subscriptions/{}", made["id"]);
        for shown in [open.client.get(&path).await, open.client.get("/v1/webhooks/subscriptions").await] {
            let text = String::from_utf8(shown.body.to_vec()).unwrap();
            assert!(
                text.contains("Authorization") && !text.contains("hush") && !text.contains("whsec_"),
                "{text}"
            );
        }
        open.kill().await;
        let open = stage.open().await;
        open.tell("o-1").await;
        let heard = stage.receiver.has_heard("a", 1).await.remove(0);
        assert!(verifies(&secret, &heard));
        assert_eq!((heard.header("authorization"), heard.header("x-tenant")), ("Bearer hush", "t-1"));
        let audit = String::from_utf8(open.client.get("/v1/audit").await.body.to_vec()).unwrap();
        assert!(audit.contains("/v1/webhooks/subscriptions") && !audit.contains("hush"), "{audit}");
    })
    .await;
}
