//! Queries of the console alone use an index, for any amount of data.

use backstitch_testkit::sql::statement;

use crate::console::stage::on_both_stores;
use crate::support::Place;

/// A query of the outbox in both dialects.
fn query(name: &str) -> [String; 2] {
    ["sqlite", "postgres"].map(|dialect| statement("modules", dialect, name))
}

/// Many messages that are out, and a few that are not.
const FILL: [&str; 2] = [
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 50000)
     insert into outbox (topic, idempotency_key, payload, status, created_at, updated_at, due_at)
     select 't' || (i % 5), 'k' || i, '{}', case when i % 1000 = 0 then 'pending' else 'succeeded' end, i, i,
            case when i % 1000 = 0 then 9000000000000000 end
     from n",
    "insert into outbox (topic, idempotency_key, payload, status, created_at, updated_at, due_at)
     select 't' || (i % 5), 'k' || i, '{}', case when i % 1000 = 0 then 'pending' else 'succeeded' end, now(), now(),
            case when i % 1000 = 0 then timestamptz '2999-01-01' end
     from generate_series(1, 50000) as i",
];

fn side(place: &Place) -> usize {
    usize::from(place.is_shared())
}

/// A query with its values written into it.
fn filled(place: &Place, query: &[String; 2], values: &[&str]) -> String {
    let mark = ['?', '$'][side(place)];
    (0..values.len())
        .rev()
        .fold(query[side(place)].clone(), |sql, at| sql.replace(&format!("{mark}{}", at + 1), values[at]))
}

async fn plan(place: &Place, sql: &str) -> String {
    let explain = ["explain query plan ", "explain "][side(place)];
    let rows = place.rows(&format!("{explain}{sql}")).await;
    rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ") + "\n").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_counted_by_index() {
    on_both_stores(async |mut stage| {
        stage.program.terminate();
        stage.program.exit_code().await;
        let place = &stage.place;
        place.rows(FILL[side(place)]).await;
        place.rows(["analyze", "analyze outbox"][side(place)]).await;
        let rare = filled(place, &query("outbox::count_messages"), &["'pending'", "10001"]);
        let topics = filled(place, &query("outbox::count_topics"), &["50", "10001"]);
        for (sql, index) in [(&rare, "idx_outbox_status"), (&topics, "outbox_topic")] {
            let plan = plan(place, sql).await;
            assert!(plan.contains(index) && !plan.contains("Seq Scan on outbox"), "{sql}: {plan}");
            assert!(!plan.contains("SCAN outbox\n") && !plan.contains("SCAN o\n"), "{sql}: {plan}");
        }
        assert_eq!(place.rows(&rare).await, [[Some("50".to_owned())]]);
        let counted = place.rows(&topics).await;
        assert_eq!(counted.len(), 5, "{counted:?}");
        assert_eq!(counted[0], ["t0", "50", "10000"].map(|text| Some(text.to_owned())));
        assert_eq!(counted[1], ["t1", "0", "10000"].map(|text| Some(text.to_owned())));
    })
    .await;
}
