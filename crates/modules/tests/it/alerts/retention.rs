//! Who was told of an alert, and who has taken it upon them, goes with its last message.

use std::time::Duration;

use backstitch::store::outbox::Status;
use backstitch::store::product::Database;
use backstitch_modules::alerts::{self, Config, Listed};

use crate::alerts::stage::{Place, Stage};

/// An alert that is out and that somebody has taken upon them.
async fn settled(stage: &mut Stage, why: &str) -> Listed {
    stage.fail_a_rollback(why).await;
    assert!(stage.out().await.is_empty());
    let alert = stage.newest().await;
    alerts::acknowledge(&stage.engine, alert.id, "ada", "mine").await.unwrap();
    // That it is out is written after it was sent.
    let store = stage.engine.store();
    let is_out = async || {
        let old = store.old_messages(Status::Succeeded, Duration::ZERO, None, None, 100).await.unwrap();
        old.old.iter().any(|message| message.id == alert.id)
    };
    while !is_out().await {
        tokio::task::yield_now().await;
    }
    alert
}

/// The keys of alerts that somebody was told of, and of those that somebody has taken upon them.
async fn kept(stage: &Stage) -> [Vec<String>; 2] {
    let notices = "select distinct alert_key from alert_notices order by alert_key";
    let taken = "select alert_key from alert_acknowledgements order by alert_key";
    [texts(stage, notices).await, texts(stage, taken).await]
}

async fn texts(stage: &Stage, sql: &'static str) -> Vec<String> {
    match stage.engine.database() {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
            };
            file.read_product(read).await.unwrap()
        }
        Database::Postgres(server) => {
            server.read_product(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
        }
    }
}

/// Of these alerts both are kept.
fn of(alerts: &[&Listed]) -> [Vec<String>; 2] {
    let mut keys: Vec<String> = alerts.iter().map(|listed| listed.alert.key.clone()).collect();
    keys.sort();
    [keys.clone(), keys]
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_told_of_an_alert_goes_with_it_and_no_other_alert_loses_anything() {
    for place in Place::each().await {
        let mut stage = Stage::open(place, &Config::default()).await;
        let first = settled(&mut stage, "the bank is closed").await;
        let second = settled(&mut stage, "the bank is gone").await;
        assert_eq!(kept(&stage).await, of(&[&first, &second]));
        assert_eq!(stage.engine.store().remove_messages(&[first.id]).await.unwrap(), 1);
        assert_eq!(kept(&stage).await, of(&[&second]));
        let listed = stage.newest().await;
        assert_eq!((listed.notices, listed.acknowledged.is_some()), (second.notices, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_told_of_an_alert_stays_as_long_as_any_message_of_it() {
    for place in Place::each().await {
        let mut stage = Stage::open(place, &Config::default()).await;
        let alert = settled(&mut stage, "the bank is closed").await;
        // Sent again by hand, and a message of the same key in another topic.
        let columns = "topic, idempotency_key, payload, status, created_at, updated_at, retry_of";
        for (topic, retry_of) in [("topic", "id"), ("'elsewhere'", "null")] {
            let copy = format!(
                "insert into outbox ({columns})
                 select {topic}, idempotency_key, payload, status, created_at, updated_at, {retry_of}
                 from outbox where id = {}",
                alert.id
            );
            stage.change(&copy).await.unwrap();
        }
        for (gone, left) in [
            ("topic = 'elsewhere'", of(&[&alert])),
            ("retry_of is null", of(&[&alert])),
            ("retry_of is not null", of(&[])),
        ] {
            stage.change(&format!("delete from outbox where {gone}")).await.unwrap();
            assert_eq!(kept(&stage).await, left, "after those where {gone}");
        }
    }
}
