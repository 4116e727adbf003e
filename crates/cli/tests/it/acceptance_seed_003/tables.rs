//! §1 and §8: the tables by name.

use crate::acceptance_seed_003::broker::Mood;
use crate::acceptance_seed_003::desk::on_both_stores;

const COLUMNS: [&str; 13] = [
    "id",
    "created_at",
    "updated_at",
    "idempotency_key",
    "order_request_json",
    "request_digest",
    "status",
    "attempts",
    "last_error_code",
    "last_error_msg",
    "locked_by",
    "locked_at",
    "expires_at",
];

#[tokio::test(flavor = "multi_thread")]
async fn s1_the_view_outbox_orders_has_the_columns_in_their_order() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        open.becomes(open.accepted("k-1").await, "succeeded").await;
        let sql = if desk.place.is_shared() {
            "select column_name from information_schema.columns \
             where table_schema = 'backstitch' and table_name = 'outbox_orders' order by ordinal_position"
        } else {
            "select name from pragma_table_info('outbox_orders')"
        };
        let names: Vec<String> = desk.place.rows(sql).await.into_iter().flatten().flatten().collect();
        assert_eq!(names, COLUMNS);
        let rows = desk.place.rows(&format!("select {} from outbox_orders", COLUMNS.join(", "))).await;
        assert_eq!((rows.len(), rows[0][6].as_deref()), (1, Some("succeeded")));
        assert!(rows[0][4].as_deref().unwrap().contains("7203.T"));
        assert_eq!(rows[0][5].as_deref().unwrap().len(), 64, "SHA-256 in hexadecimal");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_the_indexes_and_the_rules_are_there_by_name() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        open.becomes(open.accepted("k-1").await, "succeeded").await;
        let sql = if desk.place.is_shared() {
            "select indexname from pg_indexes where tablename = 'outbox'"
        } else {
            "select name from sqlite_schema where type = 'index' and tbl_name = 'outbox'"
        };
        let names: Vec<String> = desk.place.rows(sql).await.into_iter().flatten().flatten().collect();
        for name in ["idx_outbox_status", "idx_outbox_locked_at", "uq_outbox_idempo"] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        let time = if desk.place.is_shared() { "now()" } else { "1" };
        let insert = |key: &str, status: &str| {
            format!(
                "insert into outbox (topic, idempotency_key, payload, status, created_at, updated_at) \
                 values ('orders', '{key}', '1', '{status}', {time}, {time})"
            )
        };
        let twice = desk.place.refusal(&insert("k-1", "pending")).await.to_lowercase();
        assert!(twice.contains("unique") || twice.contains("the message exists"), "{twice}");
        let unknown = desk.place.refusal(&insert("k-2", "sent")).await.to_lowercase();
        assert!(unknown.contains("check"), "{unknown}");
    })
    .await;
}
