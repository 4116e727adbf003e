//! Sagas that are orphaned, make no progress, or wait for an operator.

use std::time::Duration;

use backstitch_testkit::service::{Reply, Service};
use serde_json::json;

use crate::doctor::stage::{BLIND, Open, id, in_seconds, made_up, open, plant};
use crate::support::{Place, on_both, within};

fn one(severity: &str, subject: &str) -> Vec<(String, String)> {
    vec![(severity.to_owned(), subject.to_owned())]
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_saga_is_found_and_the_remedy_wakes_it() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        open.declare().await;
        let saga = open.start().await;
        let is = format!("id = {}", id(&place, &saga));
        let of = format!("saga_id = {}", id(&place, &saga));
        within(async {
            while place.rows(&format!("select 1 from jobs where {of}")).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        place.rows(&format!("update sagas set owner = null, wake_at = null where {is}")).await;
        assert_eq!(open.found("unattended_sagas").await, [], "it has a job");
        place.unguarded("jobs", &format!("delete from jobs where {of}")).await;
        let finding = open.finds("unattended_sagas", "error", &saga).await;
        let advice = finding["action"].as_str().unwrap();
        assert!(advice.contains(&format!("POST /v1/sagas/{saga}/pause")), "{advice}");
        open.post(&format!("/v1/sagas/{saga}/pause"), &json!({}), 202).await;
        open.is_well("unattended_sagas").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sagas_of_an_unregistered_definition_are_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        assert_eq!(open.found("definitions").await, []);
        plant(&place, 1, "ghost", "null", &in_seconds(&place, -60)).await;
        open.finds("definitions", "error", "ghost v1").await;
        plant(&place, 2, "spectre", "999999", "null").await;
        open.finds("definitions", "error", "spectre v1").await;
        let stuck = open.found("stuck_sagas").await;
        assert!(!stuck.contains(&("warning".to_owned(), made_up(1))), "it is told once: {stuck:?}");
    })
    .await;
}

/// Inserts sagas until one is found unadopted: a definition that was just applied may still cause a poll, which adopts earlier
/// ones.
async fn finds_planted(open: &Open, check: &str, subject: &str, plant: impl AsyncFn(u32)) -> String {
    within(async {
        for number in 1.. {
            plant(number).await;
            let said = open.diagnosis().await;
            let found = said["findings"].as_array().unwrap().iter().find(|finding| {
                finding["check"] == check && finding["severity"] == "warning" && finding["subject"] == subject
            });
            if let Some(finding) = found {
                return finding["message"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        unreachable!()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn unadopted_runnable_saga_is_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[BLIND]).await;
        open.declare().await;
        let due = in_seconds(&place, -60);
        let unclaimed = async |number| plant(&place, number, "parcel", "null", &due).await;
        finds_planted(&open, "unattended_sagas", "parcel v1", unclaimed).await;
        let left = async |number| plant(&place, 1_000 + number, "parcel", "999999", "null").await;
        finds_planted(&open, "nodes", "life 999999", left).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_node_with_sagas_is_found_by_name() {
    let place = Place::Postgres(crate::support::fresh_database().await);
    let open = open(&place, &[BLIND]).await;
    open.declare().await;
    let silent = async |number| {
        let node = "insert into nodes (name, lease_ms, heartbeat_at, schema_version) \
                    values ('gone', 10, now() - interval '90 minutes', 999)";
        place.rows(node).await;
        let epoch = place.rows("select max(epoch)::text from nodes").await[0][0].clone().unwrap();
        plant(&place, number, "parcel", &epoch, "null").await;
    };
    let message = finds_planted(&open, "nodes", "gone", silent).await;
    assert!(message.contains("gone for 1h"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_saga_is_found_and_a_running_call_is_not() {
    on_both(async |place: Place| {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", silent.local_addr().unwrap());
        let open = open(&place, &[("BACKSTITCH_SAGAS_MAX_ACTIVE", "1")]).await;
        open.put("ship", &json!({ "steps": [{ "id": "send", "action": { "http": { "url": url } } }] })).await;
        let called = open.client.start(&json!({ "definition": "ship" })).await;
        let (_call, _) = within(silent.accept()).await.unwrap();
        let saga = open.client.start(&json!({ "definition": "ship" })).await;
        let finding = open.finds("stuck_sagas", "warning", &saga).await;
        let stuck = open.found("stuck_sagas").await;
        assert!(!stuck.contains(&("warning".to_owned(), called)), "its service has a minute: {stuck:?}");
        assert!(
            finding["action"].as_str().unwrap().contains(&format!("backstitch cancel {saga}")),
            "{finding}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_saga_is_found_with_its_reason() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        open.declare().await;
        // A row without a log, as after the loss of a part of the file.
        plant(&place, 1, "parcel", "(select max(epoch) from nodes)", "null").await;
        let finding = open.finds("stuck_sagas", "error", &made_up(1)).await;
        let message = finding["message"].as_str().unwrap();
        assert!(message.ends_with("the log does not begin with saga.started"), "{finding}");
        for path in ["/v1/health", "/v1/health?stuck_after=0s"] {
            let health = open.client.get(path).await.json();
            assert_eq!(health["stuck"][0]["id"], made_up(1), "`doctor.stuck_after` is 0s here: {health}");
        }
        let calm = open.client.get("/v1/health?stuck_after=10m").await.json();
        assert_eq!(calm["stuck"], json!([]), "{calm}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_job_and_expired_lease_are_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        open.declare().await;
        open.start().await;
        open.finds("jobs", "warning", "work/packing").await;
        let health = open.client.get("/v1/health").await.json();
        let waiting = &health["waiting_for_workers"][0];
        assert_eq!(
            (&health["status"], &waiting["queue"]),
            (&json!("attention"), &json!("packing")),
            "{health}"
        );
        let job = open.lease("packing", 1).await;
        // No worker asks for more, so the expired lease stays unnoticed.
        let finding = open.finds("jobs", "error", "work/packing").await;
        assert!(
            finding["message"].as_str().unwrap().contains(&format!("job {}", job["job_id"])),
            "{finding}"
        );
        let again = open.lease("packing", 60).await;
        assert_eq!(again["job_id"], job["job_id"]);
        open.is_well("jobs").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_rollback_and_its_undelivered_alert_are_found() {
    on_both(async |place: Place| {
        // Nothing listens there.
        let nowhere = ("BACKSTITCH_ALERTS_WEBHOOK_URL", "http://127.0.0.1:1/");
        let open = open(&place, &[nowhere]).await;
        open.declare().await;
        let saga = open.start().await;
        open.report(&open.lease("packing", 30).await, "complete", json!({ "result": 1 })).await;
        let refused = json!({ "error": { "message": "it is broken", "kind": "refused" } });
        open.report(&open.lease("post", 30).await, "fail", refused.clone()).await;
        open.report(&open.lease("unpacking", 30).await, "fail", refused).await;
        let finding = open.finds("failed_rollbacks", "warning", &saga).await;
        assert!(finding["message"].as_str().unwrap().contains("`pack` (it is broken)"), "{finding}");
        let command = format!("backstitch resolve {saga} pack retry --note");
        assert!(finding["action"].as_str().unwrap().contains(&command), "{finding}");
        let key = place.rows("select idempotency_key from outbox where topic = 'backstitch.alerts'").await;
        let key = key[0][0].clone().unwrap();
        // Its log has it before the webhook fails for the first time.
        let finding = open.finds("alerts", "warning", &key).await;
        assert!(finding["message"].as_str().unwrap().contains("webhook: "), "{finding}");
        let note = json!({ "action": "skip", "note": "ada: it stays packed" });
        open.post(&format!("/v1/sagas/{saga}/steps/pack/resolve"), &note, 202).await;
        open.is_well("failed_rollbacks").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_of_a_kind_are_listed_and_the_others_counted() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        for number in 1..=12 {
            plant(&place, number, "parcel", "null", "null").await;
        }
        let first = made_up(1);
        open.finds("unattended_sagas", "error", &first).await;
        let said = open.diagnosis().await;
        let told = crate::doctor::stage::told(&said, "unattended_sagas");
        assert_eq!(told.len(), 11, "{said}");
        assert_eq!((told[..1].to_vec(), told[10..].to_vec()), (one("error", &first), one("error", "")));
        let check = said["checks"].as_array().unwrap().iter().find(|it| it["name"] == "unattended_sagas");
        assert_eq!(check.unwrap()["findings"], 12);
        assert!(said.to_string().contains("2 of the same kind are not listed"), "{said}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_per_host_above_its_share_of_the_slots_is_found() {
    on_both(async |place: Place| {
        let variables = [("BACKSTITCH_CALLS_PER_HOST", "3"), ("BACKSTITCH_SAGAS_MAX_ACTIVE", "8")];
        let finding = open(&place, &variables).await.finds("settings", "warning", "calls.per_host").await;
        assert!(
            finding["action"].as_str().unwrap().starts_with("set sagas.max_active to 12 or more"),
            "{finding}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_holds_all_slots_is_named() {
    on_both(async |place: Place| {
        let (hung, healthy) = tokio::join!(
            Service::always(|| Reply::Stall(Vec::new())),
            Service::always(|| Reply::http(200, "{}"))
        );
        let open = open(&place, &[("BACKSTITCH_SAGAS_MAX_ACTIVE", "1")]).await;
        for (name, url) in [("hung", hung.url()), ("healthy", healthy.url())] {
            let steps = json!({"steps": [{"id": "call", "action": {"http": {"url": url}}, "timeout": "1h"}]});
            open.put(name, &steps).await;
        }
        open.client.start(&json!({ "definition": "hung" })).await;
        open.client.start(&json!({ "definition": "healthy" })).await;
        let holder = format!("host `{}`", hung.url().replace("http://", "").replace("/call", ""));
        let finding = open.finds("stuck_sagas", "warning", &holder).await;
        let message = finding["message"].as_str().unwrap();
        assert!(message.starts_with("1 saga waits for a slot of `sagas.max_active`"), "{finding}");
        let health = open.client.get("/v1/health").await.json();
        let full = &health["waiting_for_room"][0];
        assert_eq!((&full["scope"], &full["held_by"]), (&json!("slots"), &json!(holder)), "{health}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_host_is_named_with_its_waiting_calls() {
    on_both(async |place: Place| {
        let (hung, healthy) = tokio::join!(
            Service::always(|| Reply::Stall(Vec::new())),
            Service::always(|| Reply::http(200, "{}"))
        );
        let open =
            open(&place, &[("BACKSTITCH_CALLS_PER_HOST", "1"), ("BACKSTITCH_SAGAS_MAX_ACTIVE", "2")]).await;
        for (name, url) in [("hung", hung.url()), ("healthy", healthy.url())] {
            let steps = json!({"steps": [{"id": "call", "action": {"http": {"url": url}}, "timeout": "1h"}]});
            open.put(name, &steps).await;
        }
        for _ in 0..5 {
            open.client.start(&json!({ "definition": "hung" })).await;
        }
        let host = hung.url().replace("http://", "").replace("/call", "");
        let finding = open.finds("stuck_sagas", "warning", &format!("host `{host}`")).await;
        let message = finding["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("4 attempts wait for room at host `{host}`")), "{finding}");
        let health = open.client.get("/v1/health").await.json();
        let full = &health["waiting_for_room"][0];
        assert_eq!((&full["host"], &full["waiting"]), (&json!(host), &json!(4)), "{health}");
        assert_eq!(health["status"], "attention");
        let saga = open.client.start(&json!({ "definition": "healthy" })).await;
        let path = format!("/v1/sagas/{saga}");
        within(async {
            while open.client.get(&path).await.json()["status"] != "succeeded" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    })
    .await;
}
