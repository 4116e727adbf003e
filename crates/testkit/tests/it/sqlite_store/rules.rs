//! Refusals of this store.

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::{Clock as _, ManualClock};
use backstitch::kernel::saga::Status;
use backstitch::store::sqlite::SqliteStore;
use backstitch::store::{Commit, JobStore as _, NodeStore as _, RowWrite, SagaStore as _, Verdict};
use backstitch_testkit::conformance::make::{
    appended, apply, claim, claim_messages, ended, job, load, message, node, saga, seqs, started, updated,
    verdict,
};

use super::support::{Place, now};

/// An invalid decision: the same number twice.
fn impossible(commit: Commit) -> Commit {
    let mut commit = Commit {
        jobs: vec![job("hooks", "a", now())],
        messages: vec![message("impossible")],
        claim: Some(claim("impossible", 1)),
        ..commit
    };
    commit.events.extend(commit.events.clone());
    commit
}

#[tokio::test]
async fn a_decision_the_database_cannot_hold_is_refused_alone() {
    let place = Place::new();
    let store = place.open();
    apply(&store, started(saga(1), now())).await;
    let batch = [
        started(saga(2), now()),
        impossible(started(saga(3), now())),
        appended(saga(1), 2, now()),
        impossible(appended(saga(1), 3, now())),
        appended(saga(1), 3, now()),
        appended(saga(2), 9, now()),
    ];
    let verdicts = store.commit(&batch).await.unwrap();
    assert!(
        matches!(&verdicts[1], Verdict::Rejected(why) if why.contains("UNIQUE constraint failed: saga_events")),
        "{verdicts:?}"
    );
    assert!(matches!(&verdicts[3], Verdict::Rejected(_)), "{verdicts:?}");
    for applied in [0, 2, 4] {
        assert_eq!(verdicts[applied], Verdict::Applied);
    }
    assert_eq!(verdicts[5], Verdict::Fenced);
    assert!(load(&store, saga(3)).await.is_none());
    assert_eq!(seqs(&store, saga(1)).await, [1, 2, 3]);
    assert!(store.lease_jobs(&["hooks".to_owned()], Duration::ZERO, 10).await.unwrap().leased.is_empty());
    assert!(claim_messages(&store, 10).await.is_empty());
    apply(&store, Commit { claim: Some(claim("impossible", 2)), ..started(saga(4), now()) }).await;
}

#[tokio::test]
async fn owner_of_the_file_is_alive_without_a_heartbeat() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::at(now()));
    let store = SqliteStore::open(&place.path(), clock.clone()).unwrap();
    store.join(&node()).await.unwrap();
    clock.advance(Duration::from_secs(3600));
    let [listed] = store.nodes(10).await.unwrap().try_into().unwrap();
    assert!(listed.lives, "{listed:?}");
    assert_eq!((listed.started_at, listed.heartbeat_at), (now(), clock.now()));
}

#[tokio::test]
async fn an_ended_saga_takes_no_decision() {
    let place = Place::new();
    let store = place.open();
    apply(&store, started(saga(1), now())).await;
    apply(&store, ended(saga(1), 2, now())).await;
    for late in [
        appended(saga(1), 3, now()),
        updated(saga(1), 3, now(), |row| row.status = Status::Compensating),
        ended(saga(1), 3, now()),
    ] {
        assert_eq!(verdict(&store, late).await, Verdict::Fenced);
    }
    assert_eq!(seqs(&store, saga(1)).await, [1, 2]);
}

#[tokio::test]
async fn a_failed_saga_takes_only_the_decision_that_reopens_it() {
    let place = Place::new();
    let store = place.open();
    apply(&store, started(saga(1), now())).await;
    apply(&store, updated(saga(1), 2, now(), |row| row.status = Status::Failed)).await;
    assert_eq!(verdict(&store, appended(saga(1), 3, now())).await, Verdict::Fenced);
    assert_eq!(verdict(&store, ended(saga(1), 3, now())).await, Verdict::Fenced);
    apply(&store, updated(saga(1), 3, now(), |row| row.status = Status::Compensating)).await;
    apply(&store, updated(saga(1), 4, now(), |row| row.status = Status::Compensated)).await;
}

#[tokio::test]
async fn a_good_end_is_nobodys() {
    let place = Place::new();
    let store = place.open();
    apply(&store, started(saga(1), now())).await;
    let mut kept = ended(saga(1), 2, now());
    if let Some(RowWrite::Update(row)) = &mut kept.row {
        row.owner = Some(1);
    }
    assert!(matches!(verdict(&store, kept).await, Verdict::Rejected(_)));
    apply(&store, ended(saga(1), 2, now())).await;
}

#[tokio::test]
async fn origins_and_terminal_rows_never_change() {
    let place = Place::new();
    let store = place.open();
    let commit = Commit {
        jobs: vec![job("hooks", "a", now())],
        messages: vec![message("k1")],
        ..started(saga(1), now())
    };
    apply(&store, commit).await;
    let beside = place.beside();
    let refused = |sql: &str| assert!(beside.execute(sql, []).is_err(), "`{sql}` went through");
    refused("update sagas set definition = 'other'");
    refused("update sagas set version = 2");
    refused("update sagas set created_at = 0");
    refused("update sagas set correlation_id = 'x'");
    beside.execute("update jobs set status = 'Completed'", []).unwrap();
    refused("update jobs set status = 'Pending'");
    beside.execute("update outbox set status = 'succeeded'", []).unwrap();
    refused("update outbox set status = 'pending'");
    beside
        .execute("insert into document_versions (kind, name, version, fingerprint, body, created_at) values ('saga', 'd', 1, 1, '{}', 0)", [])
        .unwrap();
    refused("update document_versions set body = '[]'");
}

#[tokio::test]
async fn the_file_is_set_up_for_durability() {
    let place = Place::new();
    let _store = place.open();
    let beside = place.beside();
    let setting = |name: &str| -> String {
        beside
            .query_row(&format!("pragma {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0))
            .map(|value| format!("{value:?}"))
            .unwrap()
    };
    assert_eq!(setting("journal_mode"), r#"Text("wal")"#);
    assert_eq!(setting("auto_vacuum"), "Integer(2)");
    assert_eq!(setting("page_size"), "Integer(4096)");
    assert!(backstitch::store::sqlite::WRITER_SETTINGS.contains("pragma synchronous = full;"));
}
