//! Nothing reads a whole table: every question about lifecycles is answered along an index.

use crate::lifecycles::stage::{Place, Stage};

/// As they are asked, with values that find few rows.
const ASKED: [(&str, &str); 7] = [
    ("select * from lifecycles where machine = 'm' and key = 'k7'", "lifecycles_machine_key_key"),
    (
        "select * from lifecycles where machine = 'm' and state = 'b' order by id desc limit 10",
        "lifecycles_state",
    ),
    ("select * from lifecycles where machine = 'm' order by id desc limit 10", "lifecycles_machine"),
    (
        "select * from lifecycles where machine = 'm' and correlation_id = 'c7' order by id desc limit 10",
        "lifecycles_correlation_id",
    ),
    ("select min(due_at) from lifecycles where due_at is not null", "lifecycles_due"),
    ("select * from lifecycles where due_at <= MOMENT order by due_at limit 10", "lifecycles_due"),
    ("select * from lifecycles where stuck_at <= MOMENT order by stuck_at limit 10", "lifecycles_stuck"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_question_is_answered_along_an_index() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        fill(&stage).await;
        for (asked, index) in ASKED {
            let (explain, moment, index) = match &stage.place {
                Place::Sqlite(_) if index == "lifecycles_machine_key_key" => {
                    ("explain query plan", "1", "sqlite_autoindex_lifecycles")
                }
                Place::Sqlite(_) => ("explain query plan", "1", index),
                Place::Postgres { .. } => ("explain", "now()", index),
            };
            let sql = format!("{explain} {}", asked.replace("MOMENT", moment));
            let plan = plan(&stage, &sql).await;
            assert!(plan.contains(index), "{asked}\n{plan}");
            assert!(!plan.contains("Seq Scan") && !plan.contains("SCAN lifecycles\n"), "{asked}\n{plan}");
        }
    }
}

/// As the console asks, in each dialect.
const COUNTS: [&str; 2] = [
    include_str!("../../../queries/sqlite/lifecycles/counts_up_to.sql"),
    include_str!("../../../queries/postgres/lifecycles/counts_up_to.sql"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_people_look_for_is_found_and_counted_by_index() {
    for stage in Stage::each().await {
        fill(&stage).await;
        let (explain, counts, id) = match &stage.place {
            Place::Sqlite(_) => {
                ("explain query plan", COUNTS[0].replace("?1", "'m'").replace("?2", "101"), "x'00'")
            }
            Place::Postgres { .. } => {
                let nobody = "'00000000-0000-0000-0000-000000000000'";
                ("explain", COUNTS[1].replace("$1", "'m'").replace("$2", "101"), nobody)
            }
        };
        let of_one = format!("select * from lifecycles where id = {id}");
        let correlated = "select * from lifecycles where correlation_id = 'c7' order by id desc limit 20";
        for (asked, index) in
            [(counts.as_str(), "lifecycles_state"), (&of_one, ""), (correlated, "lifecycles_correlation_id")]
        {
            let plan = plan(&stage, &format!("{explain} {asked}")).await;
            assert!(plan.contains(index), "{asked}\n{plan}");
            let reads_all = plan.contains("Seq Scan on lifecycles ") || plan.contains("SCAN l\n");
            assert!(!reads_all && !plan.contains("SCAN lifecycles\n"), "{asked}\n{plan}");
        }
        let counted = stage.lifecycles.counts_up_to("m", 101).await.unwrap();
        let counted: Vec<(&str, u64)> = counted.iter().map(|it| (it.state.as_str(), it.count)).collect();
        assert_eq!(counted, [("a", 101), ("b", 20)], "no more are counted than asked for");
    }
}

async fn plan(stage: &Stage, sql: &str) -> String {
    match &stage.place {
        Place::Sqlite(folder) => {
            let connection = rusqlite::Connection::open(folder.path().join("lives.db")).unwrap();
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
            rows.map(|row| row.unwrap() + "\n").collect()
        }
        Place::Postgres { .. } => stage.texts(sql).await.join("\n"),
    }
}

async fn fill(stage: &Stage) {
    let machines = "insert into document_versions (kind, name, version, body, created_at) values ";
    match &stage.place {
        Place::Sqlite(_) => {
            stage.execute(&format!("{machines} ('lifecycle', 'm', 1, '', 0)")).await.unwrap();
            let states = "insert into lifecycle_states (machine, version, state, place, terminal) \
                          values ('m', 1, 'a', 0, 0), ('m', 1, 'b', 1, 0)";
            stage.execute(states).await.unwrap();
            let rows = "with recursive n (n) as (select 1 union all select n + 1 from n where n < 20000) \
                        insert into lifecycles (id, machine, key, version, state, ended, seq, entry, attempt, \
                        correlation_id, created_at, updated_at, entered_at, due_at, stuck_at) \
                        select randomblob(16), 'm', 'k' || n, 1, case when n % 1000 = 0 then 'b' else 'a' end, 0, 1, 1, 1, \
                        'c' || n, n, n, n, case when n % 100 = 0 then n end, case when n % 100 = 0 then n end from n";
            stage.execute(rows).await.unwrap();
            stage.execute("analyze").await.unwrap();
        }
        Place::Postgres { .. } => {
            stage.execute(&format!("{machines} ('lifecycle', 'm', 1, '', now())")).await.unwrap();
            let states = "insert into lifecycle_states (machine, version, state, place, terminal) \
                          values ('m', 1, 'a', 0, false), ('m', 1, 'b', 1, false)";
            stage.execute(states).await.unwrap();
            let rows = "insert into lifecycles (id, machine, key, version, state, ended, seq, entry, attempt, \
                        correlation_id, created_at, updated_at, entered_at, due_at, stuck_at) \
                        select gen_random_uuid(), 'm', 'k' || n, 1, case when n % 1000 = 0 then 'b' else 'a' end, false, \
                        1, 1, 1, 'c' || n, now(), now(), now(), \
                        case when n % 100 = 0 then now() + n * interval '1 s' end, \
                        case when n % 100 = 0 then now() + n * interval '1 s' end \
                        from generate_series(1, 20000) as n";
            stage.execute(rows).await.unwrap();
            stage.execute("analyze lifecycles").await.unwrap();
        }
    }
}
