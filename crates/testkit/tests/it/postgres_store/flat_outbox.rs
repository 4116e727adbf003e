//! The cost of outbox queries does not depend on the number of messages.

use std::ops::Deref;

use backstitch_testkit::scale;
use backstitch_testkit::sql::statement;
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::support::fresh_client;

macro_rules! query {
    ($name:literal) => {
        include_str!(concat!("../../../../engine/queries/postgres/", $name, ".sql"))
    };
}

/// A statement of the engine.
fn query(name: &str) -> String {
    statement("engine", "postgres", name)
}

const FEW: i64 = 1_000;
/// More messages than the age metrics use.
const MORE_THAN_AGED: i64 = 12_000;

/// Fills the outbox with waiting messages of ten topics: every other one is due, every third one has an ordering key.
async fn fill(client: &Client, messages: i64) {
    let indexes = "select indexname, indexdef from pg_indexes
        where schemaname = 'backstitch' and tablename = 'outbox' and indexname <> 'outbox_pkey'";
    let indexes = client.query(indexes, &[]).await.unwrap();
    // Sorted after all inserts, instead of one by one.
    for index in &indexes {
        client.batch_execute(&format!("drop index {}", index.get::<_, &str>(0))).await.unwrap();
    }
    let rows = format!(
        "insert into outbox (topic, idempotency_key, ordering_key, payload, due_at, created_at, updated_at)
         select
             'topic-' || (n % 10), 'key-' || n, case when n % 3 = 0 then 'order-' || n end, '{{}}',
             clock() + (n * 7919 % 1000 + 1) * case n / 10 % 2 when 0 then -1 else 1 end * interval '1 hour',
             clock(), clock()
         from generate_series(1::bigint, {messages}) as n"
    );
    client.batch_execute(&rows).await.unwrap();
    for index in &indexes {
        client.batch_execute(index.get(1)).await.unwrap();
    }
    client.batch_execute("vacuum analyze outbox").await.unwrap();
}

/// A connection like the store's to a database with this many messages.
async fn filled(messages: i64) -> impl Deref<Target = impl Deref<Target = Client>> {
    let client = fresh_client().await;
    fill(&client, messages).await;
    client
}

/// The number of pages that a statement reads.
pub(super) async fn pages(client: &Client, statement: &str, values: &str, afterwards: &str) -> i64 {
    client.batch_execute(&format!("prepare looked_at as {statement}")).await.unwrap();
    let explained = format!("explain (analyze, buffers, format json) execute looked_at {values}");
    let explained = client.simple_query(&explained).await.unwrap();
    client.batch_execute("deallocate looked_at").await.unwrap();
    let text = explained.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: Value = serde_json::from_str(text.unwrap()).unwrap();
    let top = &plan[0]["Plan"];
    let of = |plan: &Value| {
        plan["Shared Hit Blocks"].as_i64().unwrap() + plan["Shared Read Blocks"].as_i64().unwrap()
    };
    let parts = top["Plans"].as_array().unwrap().iter();
    let later = parts.filter(|part| part["Subplan Name"] == afterwards);
    of(top) + later.map(of).sum::<i64>()
}

/// The cost of finding topics, claiming, settling and listing messages.
async fn costs(messages: i64) -> [i64; 4] {
    let client = filled(messages).await;
    let looking = pages(&client, query!("waiting_topics"), "", "").await;
    let claim = "(array['topic-3', 'topic-4'], array[25, 25], array[10000, 10000], 'tester', 0, null)";
    let claiming = pages(&client, query!("due_messages"), claim, "CTE put_aside").await;
    let claimed = "select id from outbox where status = 'sending' order by id";
    let claimed = client.query(claimed, &[]).await.unwrap();
    let claimed: Vec<String> = claimed.iter().map(|row| row.get::<_, i64>(0).to_string()).collect();
    assert_eq!(claimed.len(), 50, "there is enough to do");
    let nothing = |kind: &str| format!("array_fill(null::{kind}, array[50])");
    let ends = format!(
        "(array[{}], array_fill(1, array[50]),
         array_fill('succeeded'::text, array[50]), array_fill(1, array[50]), {}, {}, {}, {})",
        claimed.join(","),
        nothing("bigint"),
        nothing("text"),
        nothing("text"),
        nothing("text")
    );
    let settling = pages(&client, query!("settle_outbox"), &ends, "CTE told").await;
    let rare_ones = "(array['aborted', 'sending', 'succeeded'], 'topic-3', 9223372036854775807, 10)";
    let listing = pages(&client, &query("messages::of_topic"), rare_ones, "").await;
    [looking, claiming, settling, listing]
}

async fn cost_of_ages(messages: i64) -> i64 {
    let client = filled(messages).await;
    pages(&client, &query("diagnostics::outbox_ages"), "", "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn ages_cost_does_not_grow_beyond_the_counted_messages() {
    let (few, many) =
        (cost_of_ages(MORE_THAN_AGED).await, cost_of_ages(scale::rows().max(3 * MORE_THAN_AGED)).await);
    assert!(few > 0 && many * 2 <= few * 3, "{few} pages became {many}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_and_settle_cost_does_not_grow_with_the_outbox() {
    let (few, many) = (costs(FEW).await, costs(scale::rows()).await);
    // Each probe of an index of more rows reads another level of it; what grows with the rows would be ten times as much.
    let is_flat = few.iter().zip(many).all(|(few, many)| *few > 0 && many <= few * 2);
    assert!(is_flat, "{few:?} pages became {many:?}");
}
