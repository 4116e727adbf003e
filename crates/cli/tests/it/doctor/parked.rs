//! Items that the database rejects: found, listed, and handled as the remedy says.

use backstitch_testkit::obstacle;
use serde_json::{Value, json};

use crate::doctor::stage::{JSON, Open, in_seconds, open};
use crate::support::program::output_of;
use crate::support::{Place, on_both};

#[tokio::test(flavor = "multi_thread")]
async fn parked_item_is_found_with_its_error_and_remedy() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        open.is_well("parked_items").await;
        park(&place, "webhook_results", &["7", "8"]).await;
        place.rows("update parked_items set retry_at = parked_at where item = '8'").await;
        let found = open.finds("parked_items", "error", "webhook_results:7").await;
        assert!(found["message"].as_str().unwrap().contains("duplicate key"), "{found}");
        assert_eq!(open.found("parked_items").await.len(), 1, "what is tried again is not parked");
        place.rows("update parked_items set parked_at = retry_at where item = '7'").await;
        park(&place, "zones", &["1"]).await;
        // The doctor's last look may be a second old.
        open.finds("parked_items", "error", "zones:1").await;
        let found: Vec<String> = open.found("parked_items").await.into_iter().map(|(_, id)| id).collect();
        assert_eq!(found, ["zones:1", "webhook_results:7"], "longest parked first");
        place.rows("delete from parked_items").await;
        open.is_well("parked_items").await;
    })
    .await;
}

/// Parks made-up items for an hour.
async fn park(place: &Place, area: &str, items: &[&str]) {
    let (now, later) = (in_seconds(place, 0), in_seconds(place, 3600));
    for item in items {
        let park = format!(
            "insert into parked_items (area, item, reason, attempts, parked_at, retry_at)
             values ('{area}', '{item}', 'duplicate key', 1, {now}, {later})"
        );
        place.rows(&park).await;
    }
}

/// Runs the command of this verb that the finding names, word by word.
async fn follow(open: &Open, finding: &Value, verb: &str) -> String {
    let begin = format!("backstitch parked {verb} ");
    let action = finding["action"].as_str().unwrap();
    let command = action.split('`').find(|quoted| quoted.starts_with(&begin));
    let command = command.unwrap_or_else(|| panic!("no {verb} in {action}"));
    let server = format!("http://{}", open.client.address);
    let mut arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    arguments.extend(["--server", &server]);
    let output = output_of(&arguments).await;
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Has the database reject an event of the rows of a table that meet a condition.
async fn obstruct(place: &Place, table: &str, event: &str, condition: &str) {
    let sql = if place.is_shared() {
        obstacle::on_postgres(table, event, condition)
    } else {
        obstacle::on_sqlite(table, event, condition)
    };
    place.rows(&sql).await;
}

async fn clear(place: &Place, table: &str) {
    let sql =
        if place.is_shared() { obstacle::gone_on_postgres(table) } else { obstacle::gone_on_sqlite(table) };
    place.rows(&sql).await;
}

/// Another program inserts the dead letter that the end of this delivery inserts.
async fn insert_conflict(place: &Place, delivery: &Value) {
    let conflict = format!(
        "insert into dead_letters (saga_id, event_id, subscription_id, attempt_count, webhook_id, created_at)
         select id, event_id, subscription_id, 4711, 'msg_foreign', created_at from webhook_delivery_sagas
         where id = {delivery}"
    );
    place.rows(&conflict).await;
}

/// The words of the newest entry of the audit.
async fn audited(open: &Open) -> String {
    let audit = open.client.get("/v1/audit?limit=1").await.json();
    audit["items"][0]["what"].as_str().unwrap_or_default().to_owned()
}

/// A subscription that is disabled, with a delivery that waits for it.
async fn waiting_delivery(open: &Open) -> (Value, Value) {
    let terms = json!({
        "url": "http://127.0.0.1:1/", "event_types": ["*"], "max_retry_limit": 1, "enabled": false,
    });
    let subscription = open.post("/v1/webhooks/subscriptions", &terms, 201).await["id"].clone();
    open.post("/v1/webhooks/events", &json!({ "type": "order.created", "payload": {} }), 202).await;
    let deliveries = open.client.get("/v1/webhooks/deliveries").await.json();
    (subscription, deliveries["items"][0]["id"].clone())
}

async fn enable(open: &Open, subscription: &Value) {
    let path = format!("/v1/webhooks/subscriptions/{subscription}");
    let change = json!({ "enabled": true }).to_string();
    let answer = open.client.send(hyper::Method::PATCH, &path, &JSON, change).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

async fn until_dead_lettered(open: &Open, delivery: &Value) {
    let path = format!("/v1/webhooks/deliveries/{delivery}");
    crate::support::within(async {
        while open.client.get(&path).await.json()["status"] != "DeadLettered" {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remedy_of_a_conflicting_dead_letter_resolves_the_finding() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let (subscription, delivery) = waiting_delivery(&open).await;
        insert_conflict(&place, &delivery).await;
        enable(&open, &subscription).await;
        let job = crate::support::within(async {
            loop {
                if let Some((_, subject)) = open.found("parked_items").await.pop() {
                    return subject.strip_prefix("webhook_results:").unwrap().to_owned();
                }
            }
        })
        .await;
        let finding = open.finds("parked_items", "error", &format!("webhook_results:{job}")).await;

        let said = follow(&open, &finding, "remove-conflict").await;
        assert!(said.contains(&format!("dead letter of delivery {delivery} is removed")), "{said}");
        until_dead_lettered(&open, &delivery).await;
        open.is_well("parked_items").await;
        let letter = open.client.get(&format!("/v1/webhooks/dead-letters/{delivery}")).await.json();
        assert_eq!(letter["attempt_count"], 1, "{letter}");
        let what = audited(&open).await;
        assert!(what.contains("4711 attempts") && what.contains("msg_foreign"), "{what}");
        let refused = place.refusal(&format!("delete from dead_letters where saga_id = {delivery}")).await;
        assert!(refused.contains("only after its delivery"), "{refused}");
    })
    .await;
}

/// A delivery with a failed first attempt and a lowered limit: it becomes a dead letter when its next attempt is due.
async fn exhausted_delivery(open: &Open) -> Value {
    let terms = json!({
        "url": "http://127.0.0.1:1/", "event_types": ["*"], "max_retry_limit": 9, "base_delay": "1h", "max_delay": "1h",
    });
    let subscription = open.post("/v1/webhooks/subscriptions", &terms, 201).await["id"].clone();
    open.post("/v1/webhooks/events", &json!({ "type": "order.created", "payload": {} }), 202).await;
    let delivery = crate::support::within(async {
        loop {
            let waiting = open.client.get("/v1/webhooks/deliveries?status=PendingRetry").await.json();
            if let Some(delivery) = waiting["items"].as_array().and_then(|items| items.first()) {
                return delivery["id"].clone();
            }
        }
    })
    .await;
    let path = format!("/v1/webhooks/subscriptions/{subscription}");
    let change = json!({ "max_retry_limit": 1 }).to_string();
    let answer = open.client.send(hyper::Method::PATCH, &path, &JSON, change).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    delivery
}

#[tokio::test(flavor = "multi_thread")]
async fn remedy_of_a_conflict_at_a_due_delivery_resolves_it() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let delivery = exhausted_delivery(&open).await;
        insert_conflict(&place, &delivery).await;
        let is_due = format!(
            "update webhook_delivery_sagas set next_attempt_at = {} where id = {delivery}",
            in_seconds(&place, 0)
        );
        place.unguarded("webhook_delivery_sagas", &is_due).await;
        let id = format!("webhook_deliveries:{delivery}");
        let finding = open.finds("parked_items", "error", &id).await;

        let said = follow(&open, &finding, "remove-conflict").await;
        assert!(said.contains(&format!("dead letter of delivery {delivery} is removed")), "{said}");
        until_dead_lettered(&open, &delivery).await;
        open.is_well("parked_items").await;
        let letter = open.client.get(&format!("/v1/webhooks/dead-letters/{delivery}")).await.json();
        assert_eq!(letter["attempt_count"], 1, "{letter}");
        let what = audited(&open).await;
        assert!(what.contains("4711 attempts") && what.contains("msg_foreign"), "{what}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_conflict_is_audited_when_the_retry_fails() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let (_, delivery) = waiting_delivery(&open).await;
        insert_conflict(&place, &delivery).await;
        park(&place, "webhook_deliveries", &[&delivery.to_string()]).await;
        obstruct(&place, "parked_items", "update", "new.retry_at < old.retry_at").await;
        let path = format!("/v1/parked/webhook_deliveries:{delivery}");
        let removed = open.client.post(&format!("{path}/remove-conflict"), &json!({})).await;
        assert_eq!((removed.status, &removed.json()["retried"]), (200, &json!(false)), "{removed:?}");
        assert_eq!(removed.json()["row"]["attempt_count"], 4711, "{removed:?}");
        let what = audited(&open).await;
        assert!(what.contains("4711 attempts") && what.ends_with("could not be retried at once"), "{what}");

        clear(&place, "parked_items").await;
        let retried = open.client.post(&format!("{path}/retry"), &json!({})).await;
        assert_eq!(retried.status, 202, "{retried:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remedy_of_a_rejected_item_resolves_the_finding() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        obstruct(&place, "jobs", "insert", "new.delivery_id is not null").await;
        let (subscription, delivery) = waiting_delivery(&open).await;
        enable(&open, &subscription).await;
        let id = format!("webhook_deliveries:{delivery}");
        let finding = open.finds("parked_items", "error", &id).await;
        assert!(finding["message"].as_str().unwrap().contains(obstacle::IN_THE_WAY), "{finding}");

        // Without the cause put right it is rejected again.
        follow(&open, &finding, "retry").await;
        let again = crate::support::within(async {
            loop {
                let page = open.client.get(&format!("/v1/parked?item={delivery}")).await.json();
                if page["items"][0]["attempts"] == 2 {
                    return page["items"][0].clone();
                }
            }
        })
        .await;
        assert_eq!((&again["id"], &again["area"]), (&json!(id), &json!("webhook_deliveries")));
        clear(&place, "jobs").await;
        follow(&open, &finding, "retry").await;
        until_dead_lettered(&open, &delivery).await;
        open.is_well("parked_items").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_items_are_listed_and_retried_by_http() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        park(&place, "outbox", &["1", "2"]).await;
        park(&place, "key_retention", &["`a:b/c?d` of saga/order"]).await;
        let get = async |query: &str| {
            let answer = open.client.get(&format!("/v1/parked{query}")).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            answer.json()
        };
        let ids = |page: &Value| -> Vec<String> {
            page["items"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
        };
        let key = "key_retention:`a:b/c?d` of saga/order";
        let page = get("?limit=2").await;
        assert_eq!(ids(&page), [key, "outbox:1"]);
        let cursor = page["next_cursor"].as_str().unwrap();
        let page = get(&format!("?limit=2&cursor={cursor}")).await;
        assert_eq!((ids(&page), &page["next_cursor"]), (vec!["outbox:2".to_owned()], &Value::Null));
        let item = &page["items"][0];
        assert_eq!(
            (&item["area"], &item["item"], &item["attempts"]),
            (&json!("outbox"), &json!("2"), &json!(1))
        );
        assert_eq!(item["reason"], "duplicate key");
        assert!(item["retry_at"].as_str() > item["parked_at"].as_str(), "{item}");
        assert!(item["action"].as_str().unwrap().contains("backstitch parked retry outbox:2"), "{item}");
        assert_eq!(ids(&get("?area=outbox&reason=DUPL").await).len(), 2);
        assert_eq!(ids(&get("?since=2090-01-01T00:00:00Z").await).len(), 0);
        assert_eq!(ids(&get("?retry_before=2090-01-01T00:00:00Z&item=2").await), ["outbox:2"]);
        for wrong in ["?cursor=7", "?since=now", "?retry_before=", "?limit=0", "?key=7"] {
            let answer = open.client.get(&format!("/v1/parked{wrong}")).await;
            assert_eq!((answer.status, answer.problem().as_str()), (400, "bad-query"), "{wrong}");
        }

        let post = async |path: &str| open.client.post(&format!("/v1/parked/{path}"), &json!({})).await;
        let escaped = "key_retention:%60a%3Ab%2Fc%3Fd%60%20of%20saga%2Forder";
        let retried = post(&format!("{escaped}/retry")).await;
        assert_eq!((retried.status, &retried.json()["id"]), (202, &json!(key)), "{retried:?}");
        let again = post(&format!("{escaped}/retry")).await;
        assert_eq!((again.status, again.problem().as_str()), (404, "parked-item-not-found"), "{again:?}");
        assert_eq!(ids(&get("").await), ["outbox:1", "outbox:2"]);
        let none = post("outbox:1/remove-conflict").await;
        assert_eq!((none.status, none.problem().as_str()), (409, "no-conflict"));
        for unknown in ["outbox:3/retry", "outbox:3/remove-conflict", "nowhere:1/retry"] {
            let unknown = post(unknown).await;
            assert_eq!((unknown.status, unknown.problem().as_str()), (404, "parked-item-not-found"));
        }
        assert_eq!(post("outbox/retry").await.problem(), "bad-id");
        let some = open.client.post("/v1/parked/retry", &json!({ "area": "jobs" })).await;
        assert_eq!((some.status, &some.json()["retried"]), (202, &json!(0)));
        place.rows("update parked_items set reason = 'a check' where item = '1'").await;
        let some = open.client.post("/v1/parked/retry", &json!({ "reason": "CHECK" })).await;
        assert_eq!((some.status, &some.json()["retried"]), (202, &json!(1)));
        assert_eq!(audited(&open).await, "retry: 1 parked items, reason=CHECK");
        assert_eq!(ids(&get("").await), ["outbox:2"], "it has another reason");
        let all = post("retry").await;
        assert_eq!((all.status, &all.json()["retried"]), (202, &json!(1)));
        open.is_well("parked_items").await;
        assert_eq!(audited(&open).await, "retry: 1 parked items");
    })
    .await;
}
