//! How long alerts are kept, on both databases.

use std::sync::Arc;
use std::time::Duration;

use backstitch::outbox;
use backstitch::retention::Retention;
use backstitch::store::outbox::ALERTS;
use backstitch::store::product::Database;
use backstitch_modules::alerts::{self, Config};
use backstitch_testkit::shelf::Shelf;

use crate::alerts::stage::{Place, Stage};

const A_MOMENT: Option<Duration> = Some(Duration::from_millis(1));

/// How many rows there are about who was told, and who took it upon them.
async fn rows(stage: &Stage) -> (i64, i64) {
    let count = async |table: &str| -> i64 {
        let sql = format!("select count(*) from {table}");
        match stage.engine.database() {
            Database::Sqlite(file) => {
                file.read_product(move |file| file.query_row(&sql, [], |row| row.get(0))).await.unwrap()
            }
            Database::Postgres(server) => server.read_product(&sql, &[]).await.unwrap()[0].get(0),
        }
    };
    (count("alert_notices").await, count("alert_acknowledgements").await)
}

/// Waits until this is so.
async fn eventually(stage: &Stage, is_so: impl AsyncFn() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(backstitch_testkit::PATIENCE, waited).await;
    waited.unwrap_or_else(|_| panic!("{:?}", stage.engine.removed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_stays_until_somebody_took_it_upon_them_and_goes_with_who_was_told() {
    for place in Place::each().await {
        let shelf = Arc::new(Shelf::default());
        let messages =
            outbox::Retention { sent: A_MOMENT, aborted: A_MOMENT, keys: None, besides: Some(ALERTS) };
        let retention = Retention { messages, archive: Some(shelf.clone()), ..Retention::default() };
        let mut stage = Stage::open_keeping(place, &Config::default(), retention).await;
        stage.sink.attach(&stage.engine).await.unwrap();
        stage.engine.prune_with(alerts::retention(&stage.engine, A_MOMENT));
        let saga = stage.fail_a_rollback("the bank is closed").await;
        assert!(stage.out().await.is_empty());
        let open = stage.fail_a_rollback("the bank is still closed").await;
        assert!(stage.out().await.is_empty());
        // Everything that is old enough has been gone through, and more than once.
        for _ in 0..3 {
            let seen = stage.engine.removed().last_run;
            eventually(&stage, async || stage.engine.removed().last_run != seen).await;
        }
        let page = alerts::list(&stage.engine, 10, None).await.unwrap();
        assert_eq!(page.items.len(), 2, "nobody has acknowledged them");
        assert_eq!(rows(&stage).await, (2, 0));

        let first = page.items.iter().find(|it| it.alert.tx_id == Some(saga)).unwrap();
        alerts::acknowledge(&stage.engine, first.id, "ada", "I call the bank").await.unwrap();
        let listed = async || alerts::list(&stage.engine, 10, None).await.unwrap().items.len();
        eventually(&stage, async || listed().await == 1).await;
        assert_eq!(stage.newest().await.alert.tx_id, Some(open));
        assert_eq!(rows(&stage).await, (1, 0), "what is known of it goes with it");
        let kept = shelf.of_kind("alert");
        assert_eq!(kept.len(), 1);
        assert_eq!(
            (&kept[0]["acknowledged"]["by"], &kept[0]["acknowledged"]["note"]),
            (&"ada".into(), &"I call the bank".into())
        );
        assert_eq!(kept[0]["payload"]["saga_id"], saga.to_string());
        assert_eq!(kept[0]["notices"][0]["channel"], "log");
        assert!(kept[0]["notices"][0]["notified_at"].is_string(), "{kept:?}");
        // It is counted a moment after it is removed.
        eventually(&stage, async || stage.engine.removed().removed.get("alerts") == Some(&1)).await;
        assert_eq!(shelf.of_kind("message").len(), 0, "the outbox's age is not that of alerts");
    }
}
