//! User story 4: a failed rollback is escalated to an administrator.

use backstitch_demo::services::{Behaviour, Phase, Service};
use backstitch_testkit::smtp::{Setup, SmtpServer};
use backstitch_testkit::webhook::Receiver;
use serde_json::{Value, json};

use crate::acceptance_seed_001::shop::Shop;
use crate::acceptance_seed_001::stage::{Stage, on_both_stores};
use crate::support::within;

const STUCK: [&str; 2] = ["refuse:inventory", "fail-undo:payment"];

/// Waits until the newest alert has been delivered.
async fn notified(shop: &Shop) -> Value {
    within(async {
        loop {
            let alerts = shop.alerts().await;
            if let Some(alert) = alerts.into_iter().find(|alert| !alert["notified_at"].is_null()) {
                return alert;
            }
        }
    })
    .await
}

/// Waits until the one alert there is says of each of these channels when it had it, and gives those times.
async fn notified_over(shop: &Shop, channels: &[&str]) -> Vec<String> {
    let at = |alert: &Value, channel: &str| {
        let notice = alert["notices"].as_array()?.iter().find(|notice| notice["channel"] == channel)?;
        notice["notified_at"].as_str().map(str::to_owned)
    };
    within(async {
        loop {
            let alerts = shop.alerts().await;
            let times: Option<_> = channels.iter().map(|channel| at(&alerts[0], channel)).collect();
            if let Some(times) = times {
                return times;
            }
        }
    })
    .await
}

fn undo_attempts(stage: &Stage, tx: &str) -> Vec<u32> {
    let undos = stage.calls(tx).into_iter().filter(|call| call.phase == Phase::Undo);
    undos
        .inspect(|call| assert_eq!(call.key, format!("{tx}:payment:undo")))
        .map(|call| call.attempt)
        .collect()
}

#[tokio::test]
async fn us4_1_fr_011_fr_016_rollback_fails_after_five_retries() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.run(&STUCK, "rollback_failed").await;
        assert_eq!(undo_attempts(&stage, &tx), [1, 2, 3, 4, 5, 6], "five retries, under one key");
        let log = ["U payment", "S payment", "U inventory", "F inventory", "RF payment"];
        assert_eq!(shop.log(&tx).await, log);
        let failed = shop.entries(&tx).await.pop().unwrap();
        assert!(failed["error"].as_str().unwrap().contains("something went wrong here"), "{failed}");
        let messages = shop.messages(&tx).await;
        assert_eq!(messages.last().unwrap(), "Order Failed - Support has been told");
        let order = shop.order(&tx).await;
        assert_eq!(
            (&order["status"], &order["steps"][0]["status"]),
            (&json!("failed"), &json!("compensation_failed"))
        );
    })
    .await;
}

#[tokio::test]
async fn fr_016_how_often_a_rollback_is_retried_can_be_configured() {
    on_both_stores(async |stage| {
        let shop = stage.open_with(&[("BACKSTITCH_ORDERS_ROLLBACK_RETRIES", "2")]).await;
        let tx = shop.run(&STUCK, "rollback_failed").await;
        assert_eq!(undo_attempts(&stage, &tx), [1, 2, 3]);
        let mended = shop.run(&["refuse:inventory", "fail-undo:payment:2x"], "failed_refunded").await;
        assert_eq!(undo_attempts(&stage, &mended), [1, 2, 3], "the last retry can still succeed");
    })
    .await;
}

#[tokio::test]
async fn us4_2_us4_3_fr_020_fr_021_sc_006_alert_by_mail_and_webhook() {
    on_both_stores(async |stage| {
        let mut smtp = SmtpServer::start(&Setup::default()).await;
        let mut receiver = Receiver::answering(&["204 No Content"]).await;
        let shop = stage
            .open_with(&[
                ("BACKSTITCH_ALERTS_EMAIL_HOST", "127.0.0.1"),
                ("BACKSTITCH_ALERTS_EMAIL_PORT", &smtp.port().to_string()),
                ("BACKSTITCH_ALERTS_EMAIL_SECURITY", "none"),
                ("BACKSTITCH_ALERTS_EMAIL_FROM", "shop@example.com"),
                ("BACKSTITCH_ALERTS_EMAIL_TO", "admin@example.com"),
                ("BACKSTITCH_ALERTS_WEBHOOK_URL", &receiver.url()),
            ])
            .await;
        let tx = shop.run(&STUCK, "rollback_failed").await;
        let mail = within(smtp.next_mail()).await;
        assert_eq!(mail.recipients, ["admin@example.com"]);
        for expected in [&tx, "payment", "something went wrong here"] {
            assert!(mail.text.contains(expected), "{expected} is missing: {}", mail.text);
        }
        assert!(mail.header("subject").contains(&tx) && mail.header("subject").contains("payment"));
        let webhook = within(receiver.next()).await;
        assert!(webhook.line.starts_with("POST /hook"), "{}", webhook.line);
        assert_eq!((&webhook.body["tx_id"], &webhook.body["service"]), (&json!(tx), &json!("payment")));
        let said = webhook.body["error"]["message"].as_str().unwrap();
        assert!(said.contains("something went wrong here"), "{said}");

        let alert = notified(&shop).await;
        assert_eq!((&alert["tx_id"], &alert["service"]), (&json!(tx), &json!("payment")));
        assert_eq!(webhook.header("idempotency-key"), alert["key"]);
        assert!(alert["error"].as_str().unwrap().contains("something went wrong here"), "{alert}");
        let (occurred, told) =
            (alert["occurred_at"].as_str().unwrap(), alert["notified_at"].as_str().unwrap());
        assert!(occurred <= told && told.ends_with('Z'), "{alert}");
        let channels = ["email", "webhook"];
        let times = notified_over(&shop, &channels).await;
        assert!(times.iter().any(|at| at == told), "{alert}: {times:?}");
        for (channel, at) in channels.iter().zip(&times) {
            assert!(occurred <= at.as_str() && at.ends_with('Z'), "{channel}: {at}");
            for change in ["attempts = 7", "notified_at = null"] {
                let sql = format!("update alert_notices set {change} where channel = '{channel}'");
                let refused = stage.refusal(&sql).await;
                assert!(refused.contains("never changes"), "{sql}: {refused}");
            }
        }
        assert_eq!(notified_over(&shop, &channels).await, times, "when each of them was told is kept");
        assert_eq!(shop.alerts().await.len(), 1);
        assert!(smtp.stop().await.is_empty() && receiver.is_idle(), "each was told once");
    })
    .await;
}

#[tokio::test]
async fn us4_2_alert_without_channels_is_logged_and_listed() {
    on_both_stores(async |stage| {
        let mut shop = stage.open().await;
        let tx = shop.run(&STUCK, "rollback_failed").await;
        let line = shop.program.logs(&tx).await;
        assert!(
            line.contains("rollback failed: payment") && line.contains("something went wrong here"),
            "{line}"
        );
        let alert = notified(&shop).await;
        assert_eq!((&alert["tx_id"], &alert["channel"]), (&json!(tx), &json!("log")));
    })
    .await;
}

#[tokio::test]
async fn us4_3_alert_is_not_notified_before_its_mail_is_out() {
    on_both_stores(async |stage| {
        // A mail server that accepts connections and never greets.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shop = stage
            .open_with(&[
                ("BACKSTITCH_ALERTS_EMAIL_HOST", "127.0.0.1"),
                ("BACKSTITCH_ALERTS_EMAIL_PORT", &silent.local_addr().unwrap().port().to_string()),
                ("BACKSTITCH_ALERTS_EMAIL_SECURITY", "none"),
                ("BACKSTITCH_ALERTS_EMAIL_FROM", "shop@example.com"),
                ("BACKSTITCH_ALERTS_EMAIL_TO", "admin@example.com"),
            ])
            .await;
        shop.run(&STUCK, "rollback_failed").await;
        let (_connection, _) = within(silent.accept()).await.unwrap();
        notified_over(&shop, &["log"]).await;
        let alert = shop.alerts().await.remove(0);
        assert_eq!((&alert["notified_at"], &alert["channel"]), (&json!(null), &json!(null)), "{alert}");
        let email = alert["notices"].as_array().unwrap().iter().find(|notice| notice["channel"] == "email");
        assert_eq!(email.unwrap()["notified_at"], json!(null), "{alert}");
    })
    .await;
}

#[tokio::test]
async fn us4_lists_show_the_stuck_step_and_its_error() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.run(&["refuse:logistics", "fail-undo:payment"], "rollback_failed").await;
        shop.run(&[], "complete").await;
        for path in ["/v1/sagas?stuck_step=payment", "/v1/sagas?status=failed"] {
            let list = shop.client.get(path).await.json();
            let [saga] = &list["items"].as_array().unwrap()[..] else { panic!("{list}") };
            assert_eq!((&saga["id"], &saga["failed_step"]), (&json!(tx), &json!("logistics")));
            assert_eq!(saga["stuck_step"], "payment");
            assert!(saga["stuck_error"].as_str().unwrap().contains("something went wrong here"), "{saga}");
        }
        for path in ["/v1/sagas?stuck_step=logistics", "/v1/sagas?stuck_step=payment&status=succeeded"] {
            assert_eq!(shop.client.get(path).await.json()["items"], json!([]), "{path}");
        }
        for path in ["/", "/sagas?stuck_step=payment", "/sagas/bulk?action=resolve&stuck_step=payment"] {
            let page = shop.client.get(path).await;
            let page = String::from_utf8_lossy(&page.body).into_owned();
            assert!(page.contains("something went wrong here"), "{path}: {page}");
        }
    })
    .await;
}

#[tokio::test]
async fn us4_resolution_closes_the_alerts_of_its_step() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let open = async || {
            let alerts = shop.alerts().await;
            alerts.into_iter().filter(|alert| alert["acknowledged"].is_null()).collect::<Vec<_>>()
        };
        stage.services.set(Service::Payment, Phase::Undo, Behaviour::Fail);
        let tx = shop.run(&["refuse:inventory"], "rollback_failed").await;
        let other = shop.run(&["refuse:inventory"], "rollback_failed").await;
        let path = format!("/v1/sagas/{tx}/steps/payment/resolve");
        let resolve = async |action: &str| {
            let answer = shop.client.post(&path, &json!({"action": action, "note": "ada: as agreed"})).await;
            assert_eq!(answer.status, 202, "{answer:?}");
        };
        resolve("retry").await;
        let again = within(async {
            loop {
                let found = open().await;
                if let Some(alert) = found.into_iter().find(|alert| alert["tx_id"] == json!(tx)) {
                    return alert;
                }
            }
        })
        .await;
        let first = shop.alerts().await.pop().unwrap();
        assert_ne!(first["key"], again["key"], "a retry that fails raises a new alert");
        assert_eq!(first["acknowledged"]["by"], "resolution", "{first}");
        shop.ends(&tx, "rollback_failed").await;
        resolve("done").await;
        shop.ends(&tx, "failed_refunded").await;
        let left = open().await;
        assert_eq!((left.len(), &left[0]["tx_id"]), (1, &json!(other)), "{left:?}");
    })
    .await;
}

#[tokio::test]
async fn us4_administrator_resolves_and_the_order_is_refunded() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        stage.services.set(Service::Payment, Phase::Undo, Behaviour::Fail);
        let tx = shop.run(&["refuse:inventory"], "rollback_failed").await;
        stage.services.set(Service::Payment, Phase::Undo, Behaviour::Succeed);
        let path = format!("/v1/sagas/{tx}/steps/payment/resolve");
        let resolved =
            shop.client.post(&path, &json!({"action": "retry", "note": "ada: the bank is back"})).await;
        assert_eq!(resolved.status, 202, "{resolved:?}");
        shop.ends(&tx, "failed_refunded").await;
        assert_eq!(shop.log(&tx).await[4..], ["RF payment", "R payment", "D"], "what was recorded stays");
        assert!(stage.in_effect(&tx).is_empty());
    })
    .await;
}

#[tokio::test]
async fn us4_customer_with_a_skipped_refund_sees_no_refund() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        stage.services.set(Service::Payment, Phase::Undo, Behaviour::Fail);
        for (action, outcome, told) in [
            ("skip", "failed_not_refunded", "Order Failed - Not Refunded"),
            ("done", "failed_refunded", "Order Failed - Refunded"),
        ] {
            let tx = shop.run(&["refuse:inventory"], "rollback_failed").await;
            let path = format!("/v1/sagas/{tx}/steps/payment/resolve");
            let resolved =
                shop.client.post(&path, &json!({"action": action, "note": "ada: as agreed"})).await;
            assert_eq!(resolved.status, 202, "{resolved:?}");
            shop.ends(&tx, outcome).await;
            assert_eq!(shop.messages(&tx).await.last().unwrap(), told);
            // A reader that resumes before the last event gets the same.
            let last = shop.history(&tx).await.len() as u64 - 1;
            let rest = shop.follow(&tx, Some(last)).await.rest().await;
            assert_eq!(rest.last().unwrap().data["message"], told);
            assert_eq!(shop.log(&tx).await.last().unwrap(), "D", "what is recorded stays the same");
        }
    })
    .await;
}
