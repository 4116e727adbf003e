//! The connection breaks during a batch, so its outcome is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstitch::kernel::SagaId;
use backstitch::kernel::idempotency::Digest;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::{
    Claim, Commit, Error, InboxStore as _, NodeStore as _, OutboxStore as _, SagaStore as _, Verdict,
};
use backstitch_testkit::postgres::ThrowawayPostgres;

use crate::postgres_store::network::{Network, SWALLOW_ANSWER, SWALLOW_REQUEST};
use crate::postgres_store::support::{
    SOON, end, fresh_store, go_on, log, new_id, session, start, until_blocked,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_is_found_in_the_log() {
    let (_, address) = fresh_store().await;
    let network = Network::to(&address).await;
    let store = PostgresStore::connect(&network.address).await.unwrap();
    let sagas: Vec<SagaId> = (0..20).map(|_| new_id()).collect();
    let starts: Vec<Commit> = sagas.iter().map(|saga| start(*saga)).collect();
    store.commit(&starts).await.unwrap();

    for (round, fault) in [SWALLOW_ANSWER, SWALLOW_REQUEST].into_iter().enumerate() {
        let mut batch: Vec<Commit> =
            sagas.iter().zip(3..).map(|(saga, attempt)| go_on(*saga, 3 + round as u64, attempt)).collect();
        // A fenced decision, and one with a key that could look like a repeated start.
        batch.push(go_on(sagas[0], 1_000, 1));
        let claim = Claim { scope: "s".to_owned(), key: round.to_string(), digest: Digest([3; 32]) };
        batch.push(Commit { claim: Some(claim), ..start(new_id()) });
        network.break_once(fault);
        let verdicts = store.commit(&batch).await.unwrap();
        assert_eq!(network.broken(), round + 1, "the fault did not strike");
        for (commit, verdict) in batch.iter().zip(&verdicts) {
            let lost = commit.events[0].seq == 1_000;
            assert_eq!(*verdict, if lost { Verdict::Fenced } else { Verdict::Applied });
        }
        for saga in &sagas {
            assert_eq!(log(&store, *saga).await.len(), 3 + round);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_answer_is_lost_is_not_taken_for_waiting_mail() {
    let (_, address) = fresh_store().await;
    let network = Network::to(&address).await;
    let store = Arc::new(PostgresStore::connect(&network.address).await.unwrap());
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    let mut holder = session(&address).await;
    let watcher = session(&address).await;
    // The server waits for a lock when the client is disconnected, so the log is still empty when it is read.
    let held = holder.transaction().await.unwrap();
    held.query("select from backstitch.sagas where id = $1 for update", &[&saga.0]).await.unwrap();
    network.break_once(SWALLOW_ANSWER);
    let ending = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(&[end(saga, 3, Some(0))]).await }
    });
    until_blocked(&watcher).await;
    crate::postgres_store::support::until(async || (network.broken() == 1).then_some(())).await;
    held.rollback().await.unwrap();
    assert_eq!(ending.await.unwrap().unwrap(), [Verdict::Applied]);
    assert_eq!(log(&store, saga).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_ended_while_it_waits_is_replaced() {
    let (store, address) = fresh_store().await;
    let (saga, neighbour) = (new_id(), new_id());
    store.commit(&[start(saga), start(neighbour)]).await.unwrap();
    let mut holder = session(&address).await;
    let watcher = session(&address).await;
    let held = holder.transaction().await.unwrap();
    held.query("select from backstitch.sagas where id = $1 for update", &[&saga.0]).await.unwrap();
    let ending = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(&[end(saga, 3, Some(0)), go_on(neighbour, 3, 2)]).await }
    });
    let pid = until_blocked(&watcher).await;
    let ended = watcher.query_one("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
    assert!(ended.get::<_, bool>(0), "the fault did not strike");
    held.rollback().await.unwrap();
    assert_eq!(ending.await.unwrap().unwrap(), [Verdict::Applied, Verdict::Applied]);
    assert_eq!((log(&store, saga).await.len(), log(&store, neighbour).await.len()), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn database_crash_during_commits_loses_nothing() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let store = Arc::new(PostgresStore::connect(&address).await.unwrap());
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let (store, acknowledged) = (Arc::clone(&store), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                let sagas: Vec<SagaId> = (0..16).map(|_| new_id()).collect();
                let starts: Vec<Commit> = sagas.iter().map(|saga| start(*saga)).collect();
                store.commit(&starts).await.unwrap();
                for seq in 3..120_u64 {
                    let batch: Vec<Commit> = sagas.iter().map(|saga| go_on(*saga, seq, 1)).collect();
                    let verdicts = store.commit(&batch).await.unwrap();
                    // Each saga has one writer, so no other append can have come first.
                    assert!(
                        verdicts.iter().all(|verdict| *verdict == Verdict::Applied),
                        "{seq}: {verdicts:?}"
                    );
                    acknowledged.fetch_add(batch.len(), Ordering::SeqCst);
                }
                sagas
            })
        })
        .collect();
    for crash in 1..=3 {
        crate::postgres_store::support::until(async || {
            (acknowledged.load(Ordering::SeqCst) > crash * 600).then_some(())
        })
        .await;
        postgres.stop_immediate().unwrap();
        postgres.start_again().unwrap();
    }
    for writer in writers {
        for saga in writer.await.unwrap() {
            assert_eq!(log(&store, saga).await.len(), 119);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_said_to_be_gone() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let store = PostgresStore::connect(&address).await.unwrap();
    postgres.stop_immediate().unwrap();
    let listed = store.heartbeat(1).await;
    assert!(matches!(listed, Err(Error::Unavailable(_))), "{listed:?}");
    let connected = PostgresStore::connect(&address).await.err();
    assert!(matches!(connected, Some(Error::Unavailable(_))), "{connected:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_query_closes_its_connection() {
    let (store, address) = fresh_store().await;
    let mut holder = session(&address).await;
    let watcher = session(&address).await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute("lock table backstitch.saga_inbox in access exclusive mode").await.unwrap();
    // More than there are connections, so that each connection is used by a caller that goes away.
    let ask = async |store: Arc<PostgresStore>| store.mail(1).await;
    let askers: Vec<_> = (0..16).map(|_| tokio::spawn(ask(Arc::clone(&store)))).collect();
    let blocked = "select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'backstitch' and wait_event_type = 'Lock'";
    let all_are = async || watcher.query_one(blocked, &[]).await.unwrap().get::<_, i64>(0) >= 8;
    crate::postgres_store::support::until(async || all_are().await.then_some(())).await;
    for asker in askers {
        asker.abort();
        assert!(asker.await.unwrap_err().is_cancelled());
    }
    let answered = tokio::time::timeout(SOON, store.waiting_topics()).await;
    assert_eq!(answered.expect("it waits behind what nobody wants any more").unwrap(), []);
    held.rollback().await.unwrap();
}
