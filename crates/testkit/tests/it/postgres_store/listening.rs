//! Notifications between processes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::inbox::{self, Message, Posted};
use backstitch::jobs::{JobOutcome, JobResult, Settlement, Withdrawal};
use backstitch::kernel::saga::Phase;
use backstitch::kernel::{Payload, SagaId};
use backstitch::store::documents::{Becomes, DocumentStore, DocumentVersion, SAGA};
use backstitch::store::nodes::Notice;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::store::{Commit, Error, InboxStore as _, JobStore as _, SagaStore as _};
use backstitch::{Context, Engine, Options, Saga, Step};
use backstitch_testkit::conformance::make::job;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::postgres_store::support::{SOON, fresh_store, new_id, now, session, start, until};

async fn next(notices: &mut mpsc::Receiver<Notice>) -> Notice {
    timeout(SOON, notices.recv()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_and_starts_are_heard_by_other_nodes() {
    let (store, address) = fresh_store().await;
    let other = PostgresStore::connect(&address).await.unwrap();
    let mut notices = other.listen().await.unwrap().unwrap();
    assert_eq!(next(&mut notices).await, Notice::Missed, "what happened before is looked for");
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    let pause = Message::Pause { note: "lunch".to_owned() };
    assert_eq!(store.post(saga, &pause, now()).await.unwrap(), Posted::Accepted);
    assert_eq!(next(&mut notices).await, Notice::InboxChanged(saga));

    let trip =
        DocumentVersion { name: "trip".into(), version: 1, fingerprint: Some(0), body: Payload::null() };
    store.register(&trip).await.unwrap();
    let session = session(&address).await;
    let quiet = session.query_one("select backstitch.start('trip')", &[]).await.unwrap();
    let loud = session.query_one("select backstitch.start('trip', notify => true)", &[]).await.unwrap();
    assert_eq!(next(&mut notices).await, Notice::Started(SagaId(loud.get(0))), "not {quiet:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_nodes_are_notified_of_applies_and_results() {
    let (store, address) = fresh_store().await;
    let other = PostgresStore::connect(&address).await.unwrap();
    let mut notices = other.listen().await.unwrap().unwrap();
    assert_eq!(next(&mut notices).await, Notice::Missed);
    let trip = |version| DocumentVersion {
        name: "trip".into(),
        version,
        fingerprint: Some(0),
        body: Payload::null(),
    };
    assert_eq!(
        store.apply_staged(SAGA, "trip", None).await.unwrap(),
        None,
        "nothing is staged and no notification is sent"
    );
    store.add_version(SAGA, &trip(1).into(), Becomes::Staged).await.unwrap();
    store.apply_staged(SAGA, "trip", None).await.unwrap();
    assert_eq!(next(&mut notices).await, Notice::Applied);
    assert!(store.add_version(SAGA, &trip(2).into(), Becomes::Active).await.unwrap());
    assert_eq!(next(&mut notices).await, Notice::Applied);
    assert!(
        !store.add_version(SAGA, &trip(2).into(), Becomes::Active).await.unwrap(),
        "it exists and no notification is sent"
    );
    store.add_version(SAGA, &trip(3).into(), Becomes::Staged).await.unwrap();
    store.discard_staged(SAGA, "trip", None).await.unwrap();

    let (answered, withdrawn) = (new_id(), new_id());
    let said = Message::Answered {
        step: "go".into(),
        phase: Phase::Do,
        attempt: 1,
        answer: inbox::Answer::Succeeded("7".to_owned()),
    };
    for saga in [answered, withdrawn] {
        let jobs = vec![job("work/q", "go:do@1", now())];
        store.commit(&[Commit { jobs, ..start(saga) }]).await.unwrap();
    }
    let leased = store.lease_jobs(&["work/q".to_owned()], SOON, 1).await.unwrap().leased.remove(0);
    let told = Notice::InboxChanged(leased.saga);
    assert_eq!(
        next(&mut notices).await,
        told,
        "a lease is heard too, and what is staged or discarded is not"
    );
    let (left, taken) = if leased.saga == answered { (withdrawn, answered) } else { (answered, withdrawn) };
    let result = JobResult::Message { message: said.clone(), at: now() };
    let outcome = JobOutcome::Completed;
    let settlement = Settlement { id: leased.id, token: leased.lease.token, outcome, result };
    store.settle_jobs(&[settlement]).await.unwrap().remove(0).unwrap();
    assert_eq!(next(&mut notices).await, Notice::InboxChanged(taken));
    let (subject, never_leased) = ("go:do@1".to_owned(), said.clone());
    let withdrawal = Withdrawal { saga: left, subject, never_leased, leased_before: said };
    assert!(store.withdraw_job(&withdrawal, now()).await.unwrap());
    assert_eq!(next(&mut notices).await, Notice::InboxChanged(left));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_made_anew_and_says_so() {
    let (store, address) = fresh_store().await;
    let mut notices = store.listen().await.unwrap().unwrap();
    assert_eq!(next(&mut notices).await, Notice::Missed);
    let session = session(&address).await;
    let end = "select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and query like 'listen %'";
    assert_eq!(session.query(end, &[]).await.unwrap().len(), 1);
    assert_eq!(next(&mut notices).await, Notice::Missed);
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    store.post(saga, &Message::Resume { note: String::new() }, now()).await.unwrap();
    assert_eq!(next(&mut notices).await, Notice::InboxChanged(saga));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_receiver_stops_listening() {
    let (store, address) = fresh_store().await;
    let session = session(&address).await;
    let listening = async || {
        let count = "select count(*) from pg_stat_activity
            where datname = current_database() and query like 'listen %'";
        session.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
    };
    let notices = store.listen().await.unwrap().unwrap();
    assert_eq!(listening().await, 1);
    drop(notices);
    until(async || (listening().await == 0).then_some(())).await;
}

/// Listens with a delay, and reports when it has polled for work.
#[derive(Default)]
struct SlowToListen {
    looked: Notify,
}

#[async_trait]
impl Watch for SlowToListen {
    async fn at(&self, moment: Moment<'_>) -> Result<(), Error> {
        match moment {
            Moment::BeforeListening => tokio::time::sleep(Duration::from_millis(300)).await,
            Moment::AfterAdoption(_) => self.looked.notify_one(),
            _ => {}
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notification_right_after_the_first_poll_is_found() {
    let (store, address) = fresh_store().await;
    let store = Arc::new(Watched::new(store, SlowToListen::default()));
    // So long that only a notification can be in time.
    let options = Options { tick: Duration::from_secs(3600), ..Options::default() };
    let engine = Engine::on_store(store.clone(), options).await.unwrap();
    let trip = Saga::builder("trip").step(Step::new("go", |_: Context<Value>| async { Ok(()) }));
    engine.register(trip.build().unwrap()).unwrap();
    store.looked.notified().await;
    let session = session(&address).await;
    let started = session.query_one("select backstitch.start('trip', notify => true)", &[]).await.unwrap();
    let saga = SagaId(started.get(0));
    until(async || engine.load(saga).await.unwrap().filter(|trip| trip.status.is_terminal())).await;
}
