//! Checks of the database and its disk.

use std::time::Duration;

use crate::doctor::stage::{id, in_seconds, made_up, open};
use crate::support::{Place, on_both, within};

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_a_newer_or_an_older_program_left_are_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        assert_eq!(open.found("schema_version").await, []);
        let table = match &place {
            Place::Sqlite(_) => "backstitch_product_migrations",
            Place::Postgres(_) => "product_migrations",
        };
        let now = in_seconds(&place, 0);
        let newer = format!(
            "insert into {table} (product, version, name, applied_at) values ('engine', 99, 'tomorrow', {now})"
        );
        place.rows(&newer).await;
        open.finds("schema_version", "warning", "tables of the engine").await;
        place.rows(&format!("delete from {table} where product = 'alerts'")).await;
        let finding = open.finds("schema_version", "error", "tables of alerts").await;
        assert!(finding["action"].as_str().unwrap().contains("backstitch migrate"), "{finding}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_do_not_agree_are_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        assert_eq!(open.found("clock").await, []);
        if place.is_shared() {
            // Less than a lease: the node lives on.
            let ahead =
                "create or replace function backstitch.clock() returns timestamptz language sql stable
                as $$ select pg_catalog.now() + interval '5 seconds' $$";
            place.rows(ahead).await;
            let finding = open.finds("clock", "warning", "database").await;
            assert!(finding["message"].as_str().unwrap().contains("ahead of this node's"), "{finding}");
        } else {
            let later = in_seconds(&place, 3600);
            let saga = id(&place, &made_up(1)).replace("019b", "7fff");
            let row = format!(
                "insert into sagas (id, definition, version, status, created_at, updated_at)
                 values ({saga}, 'parcel', 1, 'succeeded', {later}, {later})"
            );
            place.rows(&row).await;
            let finding = open.finds("clock", "warning", "machine").await;
            assert!(finding["message"].as_str().unwrap().contains("in the future"), "{finding}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_beyond_the_skew_limit_is_not_ready() {
    on_both(async |place: Place| {
        let open = open(&place, &[("BACKSTITCH_DOCTOR_MAX_CLOCK_SKEW", "2s")]).await;
        assert_eq!(open.client.get("/health/ready").await.status, 200);
        if !place.is_shared() {
            // The machine's clock is the file's.
            return;
        }
        place
            .rows(
                "create or replace function backstitch.clock() returns timestamptz language sql stable
                as $$ select pg_catalog.now() + interval '5 seconds' $$",
            )
            .await;
        within(async {
            loop {
                let answer = open.client.get("/health/ready").await;
                if answer.status == 503 {
                    let said = answer.json();
                    assert!(
                        said["detail"].as_str().unwrap().contains("doctor.max_clock_skew (2s)"),
                        "{said}"
                    );
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_and_long_wal_are_found_on_sqlite() {
    on_both(async |place: Place| {
        // More room than any disk has.
        let wish = ("BACKSTITCH_DOCTOR_DISK_ERROR_BYTES", "9223372036854775807");
        let open = open(&place, &[wish, ("BACKSTITCH_DOCTOR_WAL_BYTES", "0")]).await;
        let (disk, log) = (open.found("disk_space").await, open.found("write_ahead_log").await);
        if place.is_shared() {
            assert_eq!((disk.len(), log.len()), (0, 0), "that is not ours to see");
            return;
        }
        let path = place.db().strip_prefix("sqlite:").unwrap().to_owned();
        open.finds("disk_space", "error", &path).await;
        open.finds("write_ahead_log", "warning", &format!("{path}-wal")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_check_is_a_finding_and_others_run() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        place.rows("alter table alert_notices rename to elsewhere").await;
        let finding = open.finds("alerts", "error", "").await;
        assert!(finding["message"].as_str().unwrap().starts_with("this could not be looked at"), "{finding}");
        crate::doctor::stage::plant(&place, 1, "parcel", "null", "null").await;
        open.finds("unattended_sagas", "error", &made_up(1)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_database_is_a_finding_in_a_timely_response() {
    let address = crate::support::fresh_database().await;
    let place = Place::Postgres(address.clone());
    let open = open(&place, &[]).await;
    let (holder, connection) = tokio_postgres::connect(&address, tokio_postgres::NoTls).await.unwrap();
    let _connection = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
    holder.batch_execute("begin; lock table backstitch.sagas in access exclusive mode").await.unwrap();
    let finding = open.finds("unattended_sagas", "error", "").await;
    assert!(finding["message"].as_str().unwrap().contains("did not answer within 5s"), "{finding}");
    let said = open.diagnosis().await;
    assert_eq!(crate::doctor::stage::told(&said, "lifecycles"), [], "what can be looked at is looked at");
    holder.batch_execute("rollback").await.unwrap();
    open.is_well("unattended_sagas").await;
}
