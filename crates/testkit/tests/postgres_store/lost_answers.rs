//! The connection breaks while a batch is on its way: nobody may guess what became of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstitch::kernel::SagaId;
use backstitch::kernel::idempotency::Digest;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::{Claim, Commit, Error, Store as _, Verdict};
use backstitch_testkit::postgres::ThrowawayPostgres;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{end, fresh_store, go_on, log, new_id, session, start, until_blocked};

const PASS: usize = 0;
/// The next request reaches the server; its answer does not come back.
const SWALLOW_ANSWER: usize = 1;
/// The next request does not reach the server.
const SWALLOW_REQUEST: usize = 2;

/// A stretch of network between a store and its database.
struct Network {
    address: String,
    fault: Arc<AtomicUsize>,
    faults: Arc<AtomicUsize>,
}

impl Network {
    async fn to(address: &str) -> Self {
        let place = address.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let fault = Arc::new(AtomicUsize::new(PASS));
        let faults = Arc::new(AtomicUsize::new(0));
        let network = Self {
            address: address.replace(&place, &own),
            fault: Arc::clone(&fault),
            faults: Arc::clone(&faults),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&place).await.unwrap();
                tokio::spawn(carry(client, server, Arc::clone(&fault), Arc::clone(&faults)));
            }
        });
        network
    }

    fn break_once(&self, fault: usize) {
        self.fault.store(fault, Ordering::SeqCst);
    }

    fn broken(&self) -> usize {
        self.faults.load(Ordering::SeqCst)
    }
}

/// Carries bytes both ways until the fault strikes; then both ends are gone.
async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    fault: Arc<AtomicUsize>,
    faults: Arc<AtomicUsize>,
) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                match fault.swap(PASS, Ordering::SeqCst) {
                    SWALLOW_REQUEST => {
                        faults.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    SWALLOW_ANSWER => {
                        server.write_all(&asked[..count]).await.unwrap();
                        // The server answers once it has committed. A lock may keep it from that: then it is the
                        // client who is cut off first, and the server goes on alone.
                        let _ = tokio::time::timeout(Duration::from_millis(300), server.read(&mut answered)).await;
                        drop(client);
                        faults.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_secs(5)).await;
                        return;
                    }
                    _ => server.write_all(&asked[..count]).await.unwrap(),
                }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

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
        // A neighbour whose fence is lost, and one whose key makes it a start that could be taken for a repetition.
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
    // The server stands before a lock when the client is cut off, so the log shows nothing yet when it is read.
    let held = holder.transaction().await.unwrap();
    held.query("select from backstitch.sagas where id = $1 for update", &[&saga.0]).await.unwrap();
    network.break_once(SWALLOW_ANSWER);
    let ending = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(&[end(saga, 3, Some(0))]).await }
    });
    until_blocked(&watcher).await;
    crate::support::until(async || (network.broken() == 1).then_some(())).await;
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
async fn a_crash_of_the_server_in_the_middle_of_commits_loses_nothing_acknowledged() {
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
                    // Each saga has one writer, so whatever happened in between, nobody else can have been first.
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
        crate::support::until(async || (acknowledged.load(Ordering::SeqCst) > crash * 600).then_some(()))
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
