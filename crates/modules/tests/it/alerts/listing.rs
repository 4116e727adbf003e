//! The list of alerts, on both databases.

use backstitch::store::product::Database;
use backstitch_modules::alerts::{self, Acknowledged, AlertSink, Config, Cursor};
use backstitch_testkit::smtp::{Setup, SmtpServer};

use crate::alerts::stage::{Place, Stage, email};

#[tokio::test(flavor = "multi_thread")]
async fn alerts_are_listed_newest_first_a_page_at_a_time() {
    for place in Place::each().await {
        let mut stage = Stage::open(place, &Config::default()).await;
        let mut raised = Vec::new();
        for number in 0..5 {
            raised.insert(0, stage.fail_a_rollback(&format!("reason {number}")).await);
            assert!(stage.out().await.is_empty());
        }
        let mut listed = Vec::new();
        let mut cursor: Option<Cursor> = None;
        let mut sizes = Vec::new();
        loop {
            let page = alerts::list(&stage.engine, 2, cursor).await.unwrap();
            sizes.push(page.items.len());
            listed.extend(page.items);
            // Handed out and taken back as text.
            cursor = page.next.map(|next| next.to_string().parse().unwrap());
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [2, 2, 1]);
        assert_eq!(listed.iter().filter_map(|item| item.alert.tx_id).collect::<Vec<_>>(), raised);
        let newest = &listed[0];
        assert_eq!(
            (newest.alert.kind.as_str(), newest.alert.definition.as_deref()),
            ("rollback_failed", Some("order"))
        );
        assert_eq!(newest.alert.error.message, "reason 4");
        assert!(listed.iter().all(|item| item.notices.len() == 1 && item.notices[0].notified_at.is_some()));
        assert!(listed.is_sorted_by(|newer, older| newer.alert.occurred_at >= older.alert.occurred_at));
        let all = alerts::list(&stage.engine, 5, None).await.unwrap();
        assert_eq!((all.items, all.next), (listed, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_that_is_not_out_yet_says_why() {
    for place in Place::each().await {
        let down = SmtpServer::start(&Setup::default()).await;
        let port = down.port();
        down.stop().await;
        let mut stage = Stage::open(place, &Config { email: Some(email(port)), ..Config::default() }).await;
        stage.fail_a_rollback("the bank is closed").await;
        stage.sent().await.unwrap_err();
        let listed = stage.newest().await;
        let mail = listed.notices.iter().find(|notice| notice.channel == "email").unwrap();
        assert_eq!((mail.recipient.as_deref(), mail.notified_at), (Some("ops@example.com"), None));
        assert!(mail.attempts >= 1 && mail.last_error.as_deref().unwrap().contains("refused"), "{mail:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_written_together_with_its_notices() {
    for place in Place::each().await {
        let config = Config { email: Some(email(25)), ..Config::default() };
        let stage = Stage::open_without_relay(place, &config).await;
        stage.fail_a_rollback("the bank is closed").await;
        let notices = stage.newest().await.notices;
        let told: Vec<_> =
            notices.iter().map(|it| (it.channel.as_str(), it.attempts, it.notified_at)).collect();
        assert_eq!(told, [("email", 0, None), ("log", 0, None)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_that_are_not_set_any_more_get_no_notices() {
    for place in Place::each().await {
        let config = Config { email: Some(email(25)), ..Config::default() };
        let stage = Stage::open_without_relay(place, &config).await;
        AlertSink::new(&Config::default()).unwrap().attach(&stage.engine).await.unwrap();
        stage.fail_a_rollback("the bank is closed").await;
        let notices = stage.newest().await.notices;
        assert_eq!(notices.iter().map(|it| it.channel.as_str()).collect::<Vec<_>>(), ["log"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_somebody_was_told_is_never_changed() {
    for place in Place::each().await {
        let mut stage = Stage::open(place, &Config::default()).await;
        stage.fail_a_rollback("the bank is closed").await;
        assert!(stage.out().await.is_empty());
        let refused =
            stage.change("update alert_notices set notified_at = null").await.unwrap_err().to_string();
        assert!(refused.contains("never changes"), "{refused}");
    }
}

/// An outbox with 5,000 messages in this status, one in a thousand of them an alert.
async fn filled(place: Place, status: &str) -> Stage {
    let columns =
        "insert into outbox (topic, idempotency_key, payload, status, due_at, created_at, updated_at)";
    let waits = status == "pending";
    let stage = Stage::open(place, &Config::default()).await;
    let (topic, filling) = if let Database::Sqlite(_) = stage.engine.database() {
        // A message that is far from due is sent by nobody.
        let due = if waits { "9000000000000000" } else { "null" };
        let numbers = "with recursive n(n) as (select 1 union all select n + 1 from n where n < 5000)";
        (
            "iif(n % 1000 = 0, 'backstitch.alerts', 'orders')",
            format!("{numbers} select TOPIC, n, '{{}}', '{status}', {due}, 0, 0 from n"),
        )
    } else {
        let due = if waits { "now() + interval '1 year'" } else { "null" };
        (
            "case when n % 1000 = 0 then 'backstitch.alerts' else 'orders' end",
            format!(
                "select TOPIC, n, '{{}}', '{status}', {due}, now(), now() from generate_series(1, 5000) n"
            ),
        )
    };
    stage.change(&format!("{columns} {}", filling.replace("TOPIC", topic))).await.unwrap();
    if let Database::Postgres(_) = stage.engine.database() {
        stage.change("analyze outbox").await.unwrap();
    }
    stage
}

/// How a question with two numbers is answered, in the dialect of the stage.
async fn plan(stage: &Stage, sqlite: &'static str, postgres: &'static str) -> String {
    match stage.engine.database() {
        Database::Sqlite(store) => {
            let plan = store.read_product(move |connection| {
                let mut statement = connection.prepare(&format!("explain query plan {sqlite}"))?;
                statement
                    .query_map([i64::MAX, 10], |row| row.get::<_, String>(3))?
                    .collect::<rusqlite::Result<Vec<_>>>()
            });
            plan.await.unwrap().join("\n")
        }
        Database::Postgres(store) => {
            let sql = format!("explain {postgres}");
            let plan = store.read_product(&sql, &[&1_000_000_000_000_000_i64, &10_i64]).await.unwrap();
            plan.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_read_by_the_index_of_alerts_whatever_else_the_outbox_holds() {
    const SQLITE: &str = backstitch::sql!(sqlite / alerts::list);
    const POSTGRES: &str = backstitch::sql!(postgres / alerts::list);
    let [file, server] = Place::each().await;

    let stage = filled(file, "succeeded").await;
    let plan_of_file = plan(&stage, SQLITE, POSTGRES).await;
    assert!(
        plan_of_file.contains("SEARCH outbox USING INDEX outbox_topic (topic=? AND id<?)"),
        "{plan_of_file}"
    );
    assert!(plan_of_file.contains("SEARCH notice USING PRIMARY KEY"), "{plan_of_file}");
    assert_eq!(alerts::list(&stage.engine, 10, None).await.unwrap().items.len(), 5);

    let stage = filled(server, "succeeded").await;
    let plan_of_server = plan(&stage, SQLITE, POSTGRES).await;
    assert!(plan_of_server.contains("outbox_alerts"), "{plan_of_server}");
    assert_eq!(alerts::list(&stage.engine, 10, None).await.unwrap().items.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn undelivered_alerts_are_found_by_index() {
    const SQLITE: &str = backstitch::sql!(sqlite / alerts::undelivered);
    const POSTGRES: &str = backstitch::sql!(postgres / alerts::undelivered);
    for place in Place::each().await {
        let stage = filled(place, "pending").await;
        let plan = plan(&stage, SQLITE, POSTGRES).await;
        // Where there are few alerts, those of all times are as good an index as those that wait.
        assert!(["outbox_due", "outbox_alerts"].iter().any(|index| plan.contains(index)), "{plan}");
        assert!(plan.contains("idx_outbox_status"), "{plan}");
        assert!(!plan.contains("Seq Scan on outbox") && !plan.contains("SCAN outbox"), "{plan}");
        let now = stage.engine.clock().now();
        let all = alerts::undelivered(&stage.engine, now, 10).await.unwrap();
        assert_eq!(all.len(), 5, "of a thousand there is one each");
        assert!(all.iter().all(|alert| alert.reached == 0 && alert.missed.len() == 1));
        assert_eq!(alerts::undelivered(&stage.engine, now, 2).await.unwrap(), all[..2]);
        let long_ago = backstitch::Timestamp::from_micros(-1);
        assert_eq!(alerts::undelivered(&stage.engine, long_ago, 10).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_acknowledged_by_the_first_who_says_so() {
    for place in Place::each().await {
        let mut stage = Stage::open(place, &Config::default()).await;
        stage.fail_a_rollback("the bank is closed").await;
        assert!(stage.out().await.is_empty());
        let open = stage.newest().await;
        assert_eq!(open.acknowledged, None);
        let acknowledge =
            async |id, by, note| alerts::acknowledge(&stage.engine, id, by, note).await.unwrap();
        assert_eq!(acknowledge(open.id, "ada", "I call\0 them").await, Acknowledged::Now);
        assert_eq!(acknowledge(open.id, "bob", "me too").await, Acknowledged::Before);
        assert_eq!(acknowledge(open.id + 1000, "bob", "").await, Acknowledged::Unknown);
        let taken = stage.newest().await.acknowledged.unwrap();
        assert_eq!((taken.by.as_str(), taken.note.as_str()), ("ada", "I call\u{fffd} them"));
        assert!(taken.at >= open.alert.occurred_at);
        let refused = stage.change("update alert_acknowledgements set note = ''").await.unwrap_err();
        assert!(refused.to_string().contains("never changes"), "{refused}");
    }
}
