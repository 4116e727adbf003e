//! §1: order requests in SQL from other programs. On SQLite they use Debian's shell, whose
//! SQLite is older than the server's.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tokio_postgres::NoTls;

use crate::acceptance_seed_003::broker::Mood;
use crate::acceptance_seed_003::desk::{Desk, on_both_stores};
use crate::support::{Place, within};

/// SHA-256 of `{"sku":"a"}`.
const DIGEST: &str = "4ff75ed514c3a3ceb1483b9e153c34be929a7cc7fde008a16761cac1d8b1ca33";

/// Runs SQL as any program would: on the search path that a session begins with. The first value it gives, or why it is
/// refused.
async fn run(place: &Place, sql: &str) -> Result<String, String> {
    match place {
        Place::Sqlite(_) => {
            let db = place.db();
            let mut shell = Command::new("sqlite3");
            shell.args(["-cmd", ".timeout 30000", db.strip_prefix("sqlite:").unwrap(), sql]);
            let output = shell.output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
            if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
        }
        Place::Postgres(address) => {
            let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
            let _connection = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
            let said = client.simple_query(sql).await;
            let said = said.map_err(|why| why.as_db_error().unwrap().message().to_owned())?;
            let first = said.into_iter().find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            Ok(first.unwrap_or_default())
        }
    }
}

async fn value(desk: &Desk, sql: &str) -> String {
    run(&desk.place, sql).await.unwrap()
}

async fn refusal(desk: &Desk, sql: &str) -> String {
    run(&desk.place, sql).await.unwrap_err()
}

async fn becomes(desk: &Desk, sql: &str, expected: &str) {
    within(async {
        while value(desk, sql).await != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_an_insert_into_outbox_orders_is_sent_to_the_broker() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        let insert = format!(
            "insert into outbox_orders (idempotency_key, order_request_json, request_digest, status) \
             values ('raw-1', '{{\"sku\": \"a\"}}', '{DIGEST}', 'pending')"
        );
        for _ in 0..2 {
            value(&desk, &insert).await;
        }
        becomes(&desk, "select status from outbox_orders where idempotency_key = 'raw-1'", "succeeded").await;
        let ledger = format!(
            "select status from idempo_ledger where idempotency_key = 'raw-1' and request_digest = '{DIGEST}'"
        );
        assert_eq!(value(&desk, &ledger).await, "succeeded");
        assert_eq!(
            value(&desk, "select count(*) from outbox_orders").await,
            "1",
            "inserted twice, kept once"
        );
        assert_eq!(desk.broker.counts()["raw-1"], 1);
        let known = open.ask(&json!({ "idempotency_key": "raw-1", "sku": "a" })).await;
        assert_eq!((known.status, &known.json()["status"]), (200, &json!("succeeded")), "{known:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_columns_that_are_left_out_have_their_defaults() {
    on_both_stores(Mood::Hangs, async |desk| {
        desk.place.migrate().await;
        let insert = format!(
            "insert into outbox_orders (idempotency_key, order_request_json, request_digest, expires_at) \
             values ('raw-1', '1', '{DIGEST}', '2070-01-31T12:00:00Z')"
        );
        value(&desk, &insert).await;
        let given = "select count(*) from outbox_orders where status = 'pending' and attempts = 0 \
                     and created_at = updated_at and expires_at is not null and locked_by is null";
        assert_eq!(value(&desk, given).await, "1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_outbox_orders_refuses_internal_columns() {
    on_both_stores(Mood::Hangs, async |desk| {
        desk.place.migrate().await;
        let insert = |columns: &str, values: &str| {
            format!("insert into outbox_orders (idempotency_key, {columns}) values ('k-1', {values})")
        };
        let whole = "order_request_json, request_digest";
        value(&desk, &insert(whole, &format!("'{{\"sku\":\"a\"}}', '{DIGEST}'"))).await;
        let statements = [
            (insert(whole, &format!("'2', '{}'", "0".repeat(64))), "first used for another"),
            (insert("order_request_json", "'1'"), "request_digest"),
            (insert("request_digest", &format!("'{DIGEST}'")), "order_request_json"),
            (
                format!(
                    "insert into outbox_orders (order_request_json, request_digest) values ('1', '{DIGEST}')"
                ),
                "idempotency_key",
            ),
            (insert(&format!("{whole}, status"), &format!("'1', '{DIGEST}', 'sending'")), "is pending"),
            (insert(&format!("{whole}, attempts"), &format!("'1', '{DIGEST}', 3")), "is pending"),
            (insert(&format!("id, {whole}"), &format!("7, '1', '{DIGEST}'")), "is pending"),
            ("update outbox_orders set attempts = 7".to_owned(), "changed by the outbox alone"),
            ("delete from outbox_orders".to_owned(), "removed by retention alone"),
            ("delete from idempo_ledger".to_owned(), "ledger"),
            ("update idempo_ledger set status = 'failed'".to_owned(), "ledger"),
        ];
        for (statement, words) in statements {
            let refused = refusal(&desk, &statement).await;
            assert!(refused.contains(words), "{statement}: {refused}");
        }
        assert_eq!(value(&desk, "select count(*) from outbox_orders where attempts = 0").await, "1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_inserted_without_times_is_sent() {
    on_both_stores(Mood::Takes, async |desk| {
        let _open = desk.open().await;
        let outbox = if desk.place.is_shared() { "backstitch.outbox" } else { "outbox" };
        let columns = "(topic, idempotency_key, payload)";
        value(&desk, &format!("insert into {outbox} {columns} values ('orders', 'raw-1', '1')")).await;
        becomes(&desk, "select status from outbox_orders", "succeeded").await;
        let is_recent = if desk.place.is_shared() {
            "created_at > now() - interval '1 h'"
        } else {
            "julianday(created_at) > julianday('now', '-1 hour')"
        };
        let recent = format!("select count(*) from outbox_orders where {is_recent}");
        assert_eq!(value(&desk, &recent).await, "1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_a_failed_request_that_is_due_is_shown_as_pending() {
    on_both_stores(Mood::Refuses, async |desk| {
        let mut open = desk.open_with("backoff = [\"1h\"]", &[]).await;
        let id = open.accepted("k-1").await;
        open.becomes(id, "failed").await;
        assert_eq!(value(&desk, "select status from outbox_orders").await, "failed");
        open.program.child.kill().await.unwrap();
        let past = if desk.place.is_shared() { "now() - interval '1 s'" } else { "1" };
        desk.place.rows(&format!("update outbox set due_at = {past}")).await;
        assert_eq!(value(&desk, "select status from outbox_orders").await, "pending");
    })
    .await;
}
