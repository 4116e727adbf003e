//! Corrupt rows are reported and delay no others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use backstitch::jobs::{Job, PRODUCT_QUEUES};
use backstitch::store::outbox::{NewMessage, Report, Sent};
use backstitch::store::{Commit, Verdict};
use backstitch_kernel::Payload;

use super::SqlFixture;
use super::make::{A_MOMENT, LEASE, apply, claim, claim_messages, job, load, message, saga, started};

async fn damaged(fixture: &dyn SqlFixture, table: &str, change: &str) {
    let statement = format!("update {table} set {change}");
    assert_eq!(fixture.execute_unguarded(table, &statement).await, Ok(1), "{statement}");
}

async fn lease(fixture: &dyn SqlFixture, queues: &[&str]) -> Vec<Job> {
    let queues: Vec<_> = queues.iter().map(|queue| (*queue).to_owned()).collect();
    let leased = fixture.store().lease_jobs(&queues, LEASE, 10).await.unwrap();
    leased.leased
}

/// Other messages are sent, also those behind it in its order and those of other topics.
pub async fn a_message_that_cannot_be_read_holds_up_no_other(fixture: &dyn SqlFixture) {
    let ordered = |key: &str| NewMessage { ordering_key: Some("o".to_owned()), ..message(key) };
    let elsewhere = NewMessage { topic: "bills".to_owned(), ..message("k3") };
    let messages = vec![ordered("k1"), ordered("k2"), elsewhere, message("k4")];
    let store = fixture.store();
    apply(&*store, Commit { messages, ..started(saga(1), fixture.now()) }).await;
    damaged(fixture, "outbox", "payload = '{' where idempotency_key = 'k1'").await;
    let mut sent = Vec::new();
    for _ in 0..2 {
        for outgoing in claim_messages(&*store, 10).await {
            sent.push(outgoing.message.idempotency_key.clone());
            let report = Report::Delivered(None);
            store.settle_outbox(&[Sent { id: outgoing.id, lock: outgoing.lock, report }]).await.unwrap();
        }
    }
    sent.sort_unstable();
    assert_eq!(sent, ["k2", "k3", "k4"]);
    let aborted = "update outbox set id = id where idempotency_key = 'k1' and status = 'aborted'";
    assert!(fixture.execute(aborted).await.is_err(), "it is settled, so it never changes");
    assert!(claim_messages(&*store, 10).await.is_empty());
}

/// Other jobs are worked on, and the corrupt one is reported.
pub async fn a_job_that_cannot_be_read_holds_up_no_other(fixture: &dyn SqlFixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let mut jobs = vec![job("hooks", "a", now), job("hooks", "b", now), job("mail", "c", now)];
    jobs[0].alert = Some(Payload::parse(r#"{"alert":"hook_failed"}"#).unwrap());
    apply(&*store, Commit { jobs, ..started(saga(1), now) }).await;
    damaged(fixture, "jobs", "payload = '{' where subject = 'a'").await;
    let mut subjects: Vec<_> =
        lease(fixture, &["hooks", "mail"]).await.into_iter().map(|job| job.subject).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["b", "c"]);
    let given_up = "update jobs set id = id where subject = 'a' and status = 'Failed'";
    assert!(fixture.execute(given_up).await.is_err(), "it is finished, so it never changes");
    let [alert] = &claim_messages(&*store, 10).await[..] else { panic!("there is one alert") };
    let told = alert.message.payload.as_str();
    assert!(told.contains("hook_failed") && told.contains("jobs.payload"), "{told}");
}

/// A product finds its corrupt job as one with too many expired leases.
pub async fn a_products_job_that_cannot_be_read_is_left_to_the_product(fixture: &dyn SqlFixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let queue = format!("{PRODUCT_QUEUES}x");
    let jobs = vec![job(&queue, "a", now), job(&queue, "b", now)];
    apply(&*store, Commit { jobs, ..started(saga(1), now) }).await;
    damaged(fixture, "jobs", "payload = '{' where subject = 'a'").await;
    let leased = lease(fixture, &[&queue]).await;
    assert_eq!(leased.iter().map(|job| &*job.subject).collect::<Vec<_>>(), ["b"]);
    for _ in 0..6 {
        fixture.advance(LEASE + A_MOMENT).await;
        assert!(lease(fixture, &[&queue]).await.iter().all(|job| job.subject == "b"));
    }
    let left = "update jobs set until = until where subject = 'a' and status = 'Leased' and expiries = 4";
    assert_eq!(fixture.execute(left).await, Ok(1));
}

/// The start that repeats the key gets an error, and the others of its batch are applied.
pub async fn a_key_that_cannot_be_read_holds_up_no_other_start(fixture: &dyn SqlFixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let keyed = |number, key| Commit { claim: Some(claim(key, 1)), ..started(saga(number), now) };
    apply(&*store, keyed(1, "whole")).await;
    // On SQLite a trigger refuses such a row.
    let constraint = "alter table idempotency_ledger drop constraint idempotency_key_of_start_names_its_saga";
    drop(fixture.execute(constraint).await);
    let insert = "insert into idempotency_ledger (scope, key, digest, at)
        select scope, 'torn', digest, at from idempotency_ledger";
    assert_eq!(fixture.execute_unguarded("idempotency_ledger", insert).await, Ok(1));
    let verdicts = store.commit(&[keyed(2, "torn"), keyed(3, "new"), started(saga(4), now)]).await.unwrap();
    let [Verdict::Refused(why), Verdict::Applied, Verdict::Applied] = &verdicts[..] else {
        panic!("{verdicts:?}");
    };
    assert!(why.contains("idempotency_ledger.saga_id of torn cannot be read"), "{why}");
    assert!(load(&*store, saga(2)).await.is_none());
}
