//! Tables, indexes, statuses, and rows that never change again: §2, §5.4, §5.5, §10.2.

use crate::webhooks::stage::{Place, Stage};

/// Everything a statement gives, a word a row.
async fn words(stage: &Stage, sqlite: &str, postgres: &str) -> Vec<String> {
    match &stage.place {
        Place::Sqlite(folder) => {
            let connection = rusqlite::Connection::open(folder.path().join("hooks.db")).unwrap();
            let mut statement = connection.prepare(sqlite).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        }
        Place::Postgres { session, .. } => {
            session.query(postgres, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_1_s2_2_the_table_has_the_columns_and_indexes_by_name() {
    for stage in Stage::each().await {
        let columns = words(
            &stage,
            "select name from pragma_table_info('webhook_delivery_sagas')",
            "select column_name::text from information_schema.columns where table_name = 'webhook_delivery_sagas'",
        )
        .await;
        for column in [
            "id",
            "event_id",
            "subscription_id",
            "status",
            "attempt_count",
            "next_attempt_at",
            "final_error_code",
            "created_at",
            "updated_at",
        ] {
            assert!(columns.iter().any(|name| name == column), "{column}: {columns:?}");
        }
        let indexes = words(
            &stage,
            "select i.name || ' ' || i.\"unique\" || ' ' || (
                select group_concat(c.name) from pragma_index_info(i.name) as c
             ) from pragma_index_list('webhook_delivery_sagas') as i",
            "select c.relname || ' ' || i.indisunique::integer || ' ' || (
                select string_agg(a.attname, ',' order by k.place)
                from unnest(i.indkey) with ordinality as k (number, place)
                    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
             ) from pg_index i join pg_class c on c.oid = i.indexrelid
             where i.indrelid = 'backstitch.webhook_delivery_sagas'::regclass",
        )
        .await;
        for index in [
            "idx_saga_event 0 event_id,subscription_id",
            "idx_saga_status_retry 0 status,next_attempt_at",
            "idx_saga_status 0 status",
            "uniq_saga_event_subscription 1 event_id,subscription_id",
        ] {
            assert!(indexes.iter().any(|name| name == index), "{index}: {indexes:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_1_no_other_status_can_be_written() {
    for stage in Stage::each().await {
        stage.subscribe(&["*"], 8).await;
        stage.tell("o-1").await;
        for status in ["pending", "Failed", ""] {
            let set = format!("update webhook_delivery_sagas set status = '{status}'");
            stage.execute(&set).await.unwrap_err();
        }
        assert_eq!(
            stage.number("select count(*) from webhook_delivery_sagas where status = 'Pending'").await,
            1
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_the_database_refuses_a_second_saga_of_the_same_pair() {
    for stage in Stage::each().await {
        stage.subscribe(&["*"], 8).await;
        stage.tell("o-1").await;
        let again = "insert into webhook_delivery_sagas
            (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id)
            select event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id
            from webhook_delivery_sagas";
        let refused = stage.execute(again).await.unwrap_err();
        assert!(
            refused.contains("uniq_saga_event_subscription")
                || refused.contains("webhook_delivery_sagas.event_id"),
            "{refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_no_step_that_the_machine_does_not_have_can_be_written() {
    for stage in Stage::each().await {
        stage.subscribe(&["*"], 8).await;
        stage.tell("o-1").await;
        let refused = |set: &'static str| {
            let stage = &stage;
            async move { stage.execute(&format!("update webhook_delivery_sagas set {set}")).await.unwrap_err() }
        };
        // From Pending there is no way past a job, and nothing is counted.
        refused("status = 'Completed', attempt_count = 1").await;
        refused("status = 'PendingRetry', attempt_count = 1, final_error_code = 'x'").await;
        refused("status = 'InProgress', job_id = 1, attempt_count = 1").await;
        refused("event_id = 99").await;
        stage.decide().await;
        refused("status = 'Pending'").await;
        refused("status = 'Completed'").await;
        refused("status = 'Completed', attempt_count = 2").await;
        let begun = stage
            .execute(
                "insert into webhook_delivery_sagas
                 (event_id, subscription_id, status, attempt_count, next_attempt_at, created_at, updated_at, webhook_id)
                 select 7, 7, 'Completed', 1, next_attempt_at, created_at, updated_at, 'x' from webhook_delivery_sagas",
            )
            .await
            .unwrap_err();
        assert!(begun.contains("begins Pending"), "{begun}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_4_s5_5_s10_2_a_delivery_at_its_end_never_changes_again_whoever_asks() {
    for stage in Stage::each().await {
        let dead = stage.dead_letter("o-1").await;
        stage.tell("o-2").await;
        stage.decide().await;
        stage.arrived(&stage.lease_one().await).await;
        stage.decide().await;
        for end in ["Completed", "DeadLettered"] {
            for set in [
                "status = 'Pending'",
                "attempt_count = 0",
                "final_error_code = 'x'",
                "updated_at = created_at",
                "next_attempt_at = created_at",
                "job_id = 7",
            ] {
                let update = format!("update webhook_delivery_sagas set {set} where status = '{end}'");
                let refused = stage.execute(&update).await.unwrap_err();
                assert!(refused.contains("at its end"), "{set}: {refused}");
            }
        }
        let refused = stage.execute("update dead_letters set attempt_count = 0").await.unwrap_err();
        assert!(refused.contains("never changes"), "{refused}");
        assert_eq!(stage.saga(dead.id).await, dead);
        // Whatever time brings, the end stays the end.
        stage.advance(std::time::Duration::from_secs(1_000_000)).await;
        assert_eq!(stage.decide().await, backstitch_modules::webhooks::Progress::default());
        assert_eq!(stage.saga(dead.id).await, dead);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_is_not_rewritten_and_what_is_live_is_not_deleted() {
    for stage in Stage::each().await {
        stage.dead_letter("o-1").await;
        stage.tell("o-2").await;
        for (statement, why) in [
            ("update webhook_events set payload = 'null'", "never changes"),
            ("update webhook_attempts set error = 'x'", "never changes"),
            ("delete from webhook_delivery_sagas where status = 'Pending'", "is live"),
        ] {
            let refused = stage.execute(statement).await.unwrap_err();
            assert!(refused.contains(why), "{statement}: {refused}");
        }
    }
}
