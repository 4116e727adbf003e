//! Work for outside workers: answered once, with its saga told in the same go, or taken back before anybody has it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::inbox::{Answer as Said, Message};
use backstitch::jobs::{Job, JobOutcome, JobResult, NewJob, Settlement, WITHDRAWN, Withdrawal};
use backstitch::store::nodes::AdoptedSaga;
use backstitch::store::{Commit, Verdict};
use backstitch_kernel::lease::{MAX_EXPIRIES, Refused, Status};
use backstitch_kernel::saga::Phase;
use backstitch_kernel::{Payload, SagaId, StepError, Timestamp};

use super::Fixture;
use super::make::{
    A_MOMENT, LEASE, appended, apply, deploy, ended, job, loaded, node, saga, started, started_with, updated,
};

const SUBJECT: &str = "build:do@1";

fn answered(answer: Said) -> Message {
    Message::Answered { step: "build".into(), phase: Phase::Do, attempt: 1, answer }
}

fn succeeded() -> Message {
    answered(Said::Succeeded(r#"{"url": "https://ex.am/ple?a='b'"}"#.to_owned()))
}

fn failed(why: &str) -> Message {
    answered(Said::Failed(StepError::in_doubt(why)))
}

/// A saga that waits for a worker.
async fn offered(fixture: &dyn Fixture) {
    let now = fixture.now();
    apply(&*fixture.store(), Commit { jobs: vec![job("work/q", SUBJECT, now)], ..started(saga(1), now) })
        .await;
}

async fn lease_all(fixture: &dyn Fixture) -> Vec<Job> {
    let leased = fixture.store().lease_jobs(&["work/q".to_owned()], LEASE, 10).await.unwrap();
    leased.leased
}

async fn lease_one(fixture: &dyn Fixture) -> Job {
    let mut leased = lease_all(fixture).await;
    assert_eq!(leased.len(), 1);
    leased.remove(0)
}

async fn answer(fixture: &dyn Fixture, job: &Job, message: Message) -> Result<(), Refused> {
    let error = match &message {
        Message::Answered { answer: Said::Failed(error), .. } => Some(error.to_string()),
        _ => None,
    };
    let outcome = match error {
        None => JobOutcome::Completed,
        Some(error) => JobOutcome::Failed { error, retry_after: None },
    };
    let result = JobResult::Message { message, at: fixture.now() };
    let settlement = Settlement { id: job.id, token: job.lease.token, outcome, result };
    fixture.store().settle_jobs(&[settlement]).await.unwrap().remove(0).map(|_| ())
}

async fn read(fixture: &dyn Fixture, id: i64) -> Job {
    fixture.store().job(id).await.unwrap().unwrap()
}

/// What the saga was told, but for leases.
async fn inbox(fixture: &dyn Fixture) -> Vec<Message> {
    let mut inbox = whole_inbox(fixture).await;
    inbox.retain(|message| !matches!(message, Message::Leased { .. }));
    inbox
}

async fn whole_inbox(fixture: &dyn Fixture) -> Vec<Message> {
    let inbox = loaded(&*fixture.store(), saga(1)).await.inbox;
    inbox.into_iter().map(|received| received.message).collect()
}

async fn withdraw(fixture: &dyn Fixture, subject: &str) -> bool {
    let withdrawal = Withdrawal {
        saga: saga(1),
        subject: subject.to_owned(),
        never_leased: failed("never leased"),
        leased_before: failed("leased before"),
    };
    fixture.store().withdraw_job(&withdrawal, fixture.now()).await.unwrap()
}

/// A lease is in its saga's inbox, with its time by the store's clock, and makes a saga without an owner due.
pub async fn lease_tells_its_saga_when_it_began(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    offered(fixture).await;
    let other = vec![job("work/q", "build:undo@7", now), job("work/q", "not an attempt", now)];
    apply(&*store, Commit { jobs: other, ..appended(saga(1), 2, now) }).await;
    assert_eq!(store.next_wake(&[deploy()]).await.unwrap(), None);
    fixture.advance(A_MOMENT).await;
    assert_eq!(lease_all(fixture).await.len(), 3);
    let mut told = Vec::new();
    for message in whole_inbox(fixture).await {
        let Message::Leased { step, phase, attempt, at } = message else { panic!("{message:?}") };
        assert!(at >= now, "{at:?} is before {now:?}");
        told.push((step.to_string(), phase, attempt));
    }
    told.sort();
    assert_eq!(told, [("build".to_owned(), Phase::Do, 1), ("build".to_owned(), Phase::Undo, 7)]);
    assert_eq!(loaded(&*store, saga(1)).await.inbox_seq, 2);
    assert!(store.next_wake(&[deploy()]).await.unwrap().is_some());
    fixture.advance(LEASE + A_MOMENT).await;
    assert_eq!(lease_all(fixture).await.len(), 3);
    assert_eq!(whole_inbox(fixture).await.len(), 4, "every lease is told");
}

/// A decision that ends attempts withdraws their jobs, but for those that a worker has.
pub async fn decision_withdraws_jobs_that_no_worker_has(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    let subjects = ["build:do@2", "build:do@3"];
    let more = subjects.iter().map(|subject| job("work/q", subject, now)).collect();
    apply(&*store, Commit { jobs: more, ..appended(saga(1), 2, now) }).await;
    apply(&*store, Commit { jobs: vec![job("work/q", SUBJECT, now)], ..started(saga(2), now) }).await;
    let withdrawn_jobs = vec![SUBJECT.to_owned(), subjects[0].to_owned(), "build:do@9".to_owned()];
    let fenced = Commit { withdrawn_jobs: vec![subjects[1].to_owned()], ..appended(saga(1), 9, now) };
    assert_eq!(store.commit(&[fenced]).await.unwrap(), [Verdict::Fenced]);
    apply(&*store, Commit { withdrawn_jobs, ..appended(saga(1), 3, now) }).await;
    let withdrawn = read(fixture, leased.id + 1).await;
    assert_eq!(withdrawn.subject, subjects[0]);
    assert_eq!((withdrawn.lease.status, withdrawn.last_error.as_deref()), (Status::Failed, Some(WITHDRAWN)));
    assert_eq!(inbox(fixture).await, [], "the decision says it all");
    let mut left: Vec<_> = lease_all(fixture).await.into_iter().map(|job| (job.saga, job.subject)).collect();
    left.sort();
    assert_eq!(left, [(saga(1), subjects[1].to_owned()), (saga(2), SUBJECT.to_owned())]);
    assert_eq!(answer(fixture, &leased, succeeded()).await, Ok(()), "a worker keeps what it has");
}

/// A result ends the job and is in the saga's inbox.
pub async fn an_answer_ends_the_job_and_tells_its_saga(fixture: &dyn Fixture) {
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    assert_eq!(answer(fixture, &leased, succeeded()).await, Ok(()));
    let job = read(fixture, leased.id).await;
    assert_eq!((job.lease.status, job.lease.attempts, job.last_error), (Status::Completed, 1, None));
    assert_eq!(inbox(fixture).await, [succeeded()]);
    assert_eq!(loaded(&*fixture.store(), saga(1)).await.inbox_seq, 2, "after its lease");
}

/// So does a failure: what becomes of it is the saga's to say, not the queue's.
pub async fn a_failure_ends_the_job_and_tells_its_saga(fixture: &dyn Fixture) {
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    assert_eq!(answer(fixture, &leased, failed("broken")).await, Ok(()));
    let job = read(fixture, leased.id).await;
    assert_eq!((job.lease.status, job.lease.attempts), (Status::Failed, 1));
    assert_eq!(job.last_error.as_deref(), Some("broken"));
    assert_eq!(inbox(fixture).await, [failed("broken")]);
    fixture.advance(10 * LEASE).await;
    assert!(lease_all(fixture).await.is_empty());
}

/// Only the newest lease's answer counts, and an answer of any other leaves no message.
pub async fn an_answer_under_an_old_token_is_refused(fixture: &dyn Fixture) {
    offered(fixture).await;
    let late = lease_one(fixture).await;
    fixture.advance(LEASE + A_MOMENT).await;
    let newest = lease_one(fixture).await;
    assert!(newest.lease.token > late.lease.token);
    assert_eq!(answer(fixture, &late, succeeded()).await, Err(Refused::Stale));
    assert_eq!(read(fixture, late.id).await.lease, newest.lease);
    assert_eq!(inbox(fixture).await, []);
    assert_eq!(answer(fixture, &newest, succeeded()).await, Ok(()));
    assert_eq!(answer(fixture, &late, succeeded()).await, Err(Refused::Stale));
    assert_eq!(inbox(fixture).await.len(), 1);
}

/// A repeated answer changes nothing, whatever it says now.
pub async fn an_answer_counts_once(fixture: &dyn Fixture) {
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    assert_eq!(answer(fixture, &leased, succeeded()).await, Ok(()));
    assert_eq!(answer(fixture, &leased, succeeded()).await, Err(Refused::Finished));
    assert_eq!(answer(fixture, &leased, failed("no")).await, Err(Refused::Finished));
    assert_eq!(inbox(fixture).await, [succeeded()]);
    assert_eq!(read(fixture, leased.id).await.last_error, None);
}

/// What nobody has leased, or asked for, cannot be answered.
pub async fn an_answer_needs_a_lease(fixture: &dyn Fixture) {
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    let unknown = Job { id: i64::MAX, ..leased.clone() };
    assert_eq!(answer(fixture, &unknown, succeeded()).await, Err(Refused::Unavailable));
    fixture.advance(LEASE + A_MOMENT).await;
    fixture.store().lease_jobs(&["work/q".to_owned()], LEASE, 0).await.unwrap();
    assert_eq!(read(fixture, leased.id).await.lease.status, Status::Pending, "its lease has run out");
    assert_eq!(answer(fixture, &leased, succeeded()).await, Err(Refused::Stale));
    assert_eq!(inbox(fixture).await, []);
}

/// An answer wakes a saga that was let go.
pub async fn an_answer_makes_an_unowned_saga_due(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let late = now.plus(Duration::from_secs(3_600));
    let commit = started_with(saga(1), now, |row| row.wake_at = Some(late));
    apply(&*store, Commit { jobs: vec![job("work/q", SUBJECT, now)], ..commit }).await;
    let leased = lease_one(fixture).await;
    let at = fixture.now();
    answer(fixture, &leased, succeeded()).await.unwrap();
    assert!(
        store.next_wake(&[deploy()]).await.unwrap().is_some_and(|wake: Timestamp| wake <= at.plus(LEASE))
    );
    fixture.advance(LEASE).await;
    let epoch = store.join(&node()).await.unwrap();
    let adopted = store.adopt(&node(), epoch, &[deploy()], fixture.now(), 10).await.unwrap().sagas;
    assert_eq!(adopted, [AdoptedSaga { id: saga(1), seq: None }]);
}

/// The job of a saga that has ended is over all the same, and nobody is told.
pub async fn an_ended_saga_takes_no_answer_but_the_job_is_over(fixture: &dyn Fixture) {
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    apply(&*fixture.store(), ended(saga(1), 2, fixture.now())).await;
    assert_eq!(answer(fixture, &leased, succeeded()).await, Ok(()));
    assert_eq!(read(fixture, leased.id).await.lease.status, Status::Completed);
    assert_eq!(inbox(fixture).await, []);
    assert_eq!(loaded(&*fixture.store(), saga(1)).await.inbox_seq, 1, "its lease");
}

/// An answer that was taken is there for the next process.
pub async fn an_answer_waits_for_the_next_process(fixture: &dyn Fixture) {
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    answer(fixture, &leased, succeeded()).await.unwrap();
    fixture.reopen().await;
    assert_eq!(inbox(fixture).await, [succeeded()]);
    assert_eq!(answer(fixture, &leased, succeeded()).await, Err(Refused::Finished));
}

/// An answer holds up the end of its saga like any message, until it was seen.
pub async fn an_unseen_answer_holds_up_the_end(fixture: &dyn Fixture) {
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    answer(fixture, &leased, succeeded()).await.unwrap();
    let end = |seen| {
        let mut commit = ended(saga(1), 2, fixture.now());
        if let Some(backstitch::store::RowWrite::Update(update)) = &mut commit.row {
            update.inbox_seen = Some(seen);
        }
        commit
    };
    let verdict = super::make::verdict(&*fixture.store(), end(0)).await;
    assert_eq!(verdict, backstitch::store::Verdict::InboxChanged);
    apply(&*fixture.store(), Commit { consume_inbox_through: Some(2), ..end(2) }).await;
}

/// A job that nobody ever leased is taken back, and its saga is told so.
pub async fn a_job_that_nobody_leased_is_withdrawn(fixture: &dyn Fixture) {
    offered(fixture).await;
    assert!(withdraw(fixture, SUBJECT).await);
    assert!(lease_all(fixture).await.is_empty());
    assert_eq!(inbox(fixture).await, [failed("never leased")]);
    assert!(!withdraw(fixture, SUBJECT).await, "once");
    assert_eq!(inbox(fixture).await.len(), 1);
}

/// A job that somebody has is left alone.
pub async fn a_leased_job_is_not_withdrawn(fixture: &dyn Fixture) {
    offered(fixture).await;
    let leased = lease_one(fixture).await;
    assert!(!withdraw(fixture, SUBJECT).await);
    assert_eq!(read(fixture, leased.id).await, leased);
    assert_eq!(answer(fixture, &leased, succeeded()).await, Ok(()));
    assert!(!withdraw(fixture, SUBJECT).await, "nor one that is answered");
    assert_eq!(inbox(fixture).await, [succeeded()]);
}

/// A job whose lease ran out is taken back, whether or not anybody has noticed yet, and its saga is told that somebody
/// had it.
pub async fn a_job_whose_lease_ran_out_is_withdrawn(fixture: &dyn Fixture) {
    for noticed in [false, true] {
        let (number, now) = (2 + u64::from(noticed), fixture.now());
        let commit = Commit { jobs: vec![job("work/q", SUBJECT, now)], ..started(saga(number), now) };
        apply(&*fixture.store(), commit).await;
        let leased = lease_one(fixture).await;
        fixture.advance(LEASE + A_MOMENT).await;
        if noticed {
            fixture.store().lease_jobs(&["work/q".to_owned()], LEASE, 0).await.unwrap();
        }
        let withdrawal = Withdrawal {
            saga: saga(number),
            subject: SUBJECT.to_owned(),
            never_leased: failed("never leased"),
            leased_before: failed("leased before"),
        };
        assert!(fixture.store().withdraw_job(&withdrawal, fixture.now()).await.unwrap());
        let told = loaded(&*fixture.store(), saga(number)).await.inbox;
        assert_eq!(told.last().unwrap().message, failed("leased before"));
        let job = read(fixture, leased.id).await;
        assert_eq!((job.lease.status, job.lease.attempts), (Status::Failed, 0), "nobody reported a result");
        assert_eq!(job.last_error.as_deref(), Some("withdrawn"));
        assert_eq!(answer(fixture, &leased, succeeded()).await, Err(Refused::Finished));
        assert!(lease_all(fixture).await.is_empty());
    }
}

/// Only the very job that is meant is taken back.
pub async fn only_the_job_that_is_meant_is_withdrawn(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    offered(fixture).await;
    let more = vec![job("work/q", "build:undo@1", now), job("work/q", "build:do@2", now)];
    apply(&*store, Commit { jobs: more, ..appended(saga(1), 2, now) }).await;
    apply(&*store, Commit { jobs: vec![job("work/q", SUBJECT, now)], ..started(saga(2), now) }).await;
    assert!(!withdraw(fixture, "test:do@1").await);
    assert!(withdraw(fixture, SUBJECT).await);
    let mut left: Vec<_> = lease_all(fixture).await.into_iter().map(|job| (job.saga, job.subject)).collect();
    left.sort();
    let expected = [(saga(1), "build:do@2"), (saga(1), "build:undo@1"), (saga(2), SUBJECT)];
    assert_eq!(left, expected.map(|(saga, subject)| (saga, subject.to_owned())));
}

/// The job of a saga that has ended is taken back without a word.
pub async fn the_job_of_an_ended_saga_is_withdrawn_without_a_word(fixture: &dyn Fixture) {
    offered(fixture).await;
    apply(&*fixture.store(), ended(saga(1), 2, fixture.now())).await;
    assert!(withdraw(fixture, SUBJECT).await);
    assert_eq!(inbox(fixture).await, []);
    assert!(lease_all(fixture).await.is_empty());
}

/// Of a worker and a withdrawal at the same moment, one gets the job.
pub async fn a_job_is_either_leased_or_withdrawn(fixture: &dyn Fixture) {
    for number in 1..=20 {
        let (store, now) = (fixture.store(), fixture.now());
        let commit = Commit { jobs: vec![job("work/q", SUBJECT, now)], ..started(saga(number), now) };
        apply(&*store, commit).await;
        let withdrawal = Withdrawal {
            saga: saga(number),
            subject: SUBJECT.to_owned(),
            never_leased: failed("never leased"),
            leased_before: failed("leased before"),
        };
        let queues = ["work/q".to_owned()];
        let (leased, withdrawn) =
            tokio::join!(store.lease_jobs(&queues, LEASE, 1), store.withdraw_job(&withdrawal, now));
        let (leased, withdrawn) = (leased.unwrap().leased, withdrawn.unwrap());
        assert_eq!(leased.is_empty(), withdrawn, "saga {number}");
        for leased in leased {
            let report = JobOutcome::Completed;
            let settlement = Settlement::new(leased.id, leased.lease.token, report);
            assert!(store.settle_jobs(&[settlement]).await.unwrap()[0].is_ok());
        }
    }
}

/// An attempt of this step, as the engine offers it.
fn attempt(queue: &str, step: &str, due_at: Timestamp) -> NewJob {
    let payload = format!(r#"{{"step":"{step}","phase":"do","attempt":1}}"#);
    NewJob { payload: Payload::parse(payload).unwrap(), ..job(queue, &format!("{step}:do@1"), due_at) }
}

/// Loses every lease of all that waits in these queues but the last, and leaves the last one to run out.
async fn lose_all_but_one(fixture: &dyn Fixture, queues: &[String], jobs: usize) {
    for nth in 1..=MAX_EXPIRIES {
        let leasing = fixture.store().lease_jobs(queues, LEASE, 10).await.unwrap();
        assert_eq!((leasing.leased.len(), leasing.notified), (jobs, vec![]), "lease {nth}");
        fixture.advance(LEASE + A_MOMENT).await;
    }
}

async fn told_at_the_next_look(fixture: &dyn Fixture, queues: &[String]) -> Vec<SagaId> {
    let mut leasing = fixture.store().lease_jobs(queues, LEASE, 10).await.unwrap();
    assert!(leasing.leased.is_empty(), "they are given up");
    leasing.notified.sort();
    leasing.notified.dedup();
    leasing.notified
}

fn given_up(message: &Message) -> Option<(&str, Phase, u32)> {
    match message {
        Message::Answered { step, phase, attempt, answer: Said::Failed(error) }
            if error.kind.leaves_doubt() && error.code.as_deref() == Some("lease_expired") =>
        {
            Some((step.as_str(), *phase, *attempt))
        }
        _ => None,
    }
}

/// What a product's job has lost is counted like any other's, but the last loss is the product's to make something of.
pub async fn a_product_gives_its_jobs_up_itself(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let queues = ["product/q".to_owned(), "work/q".to_owned()];
    let jobs = vec![attempt("product/q", "build", now), attempt("work/q", "test", now)];
    apply(&*store, Commit { jobs, ..started(saga(1), now) }).await;
    let mut leased = Vec::new();
    for _ in 0..MAX_EXPIRIES {
        leased = store.lease_jobs(&queues, LEASE, 10).await.unwrap().leased;
        fixture.advance(LEASE + A_MOMENT).await;
    }
    assert_eq!(told_at_the_next_look(fixture, &queues).await, [saga(1)]);
    assert_eq!(inbox(fixture).await.len(), 1, "of the other one");
    assert_eq!(leased.len(), 2);
    for job in leased {
        let is_left = job.is_of_a_product();
        let expected =
            if is_left { (Status::Leased, MAX_EXPIRIES - 1) } else { (Status::Failed, MAX_EXPIRIES) };
        let lease = read(fixture, job.id).await.lease;
        assert_eq!((lease.status, lease.expiries), expected, "{}", job.queue);
    }
}

/// A saga hears at once of an attempt that nobody brings back, of each by itself, and is due for it.
pub async fn a_saga_is_told_of_an_attempt_that_nobody_brings_back(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let queues = ["work/p".to_owned(), "work/q".to_owned()];
    let jobs =
        vec![attempt("work/p", "build", now), attempt("work/q", "test", now), attempt("work/q", "ship", now)];
    apply(&*store, Commit { jobs, ..started(saga(1), now) }).await;
    apply(&*store, Commit { jobs: vec![attempt("work/q", "build", now)], ..started(saga(2), now) }).await;
    lose_all_but_one(fixture, &queues, 4).await;
    assert_eq!(inbox(fixture).await, []);
    assert_eq!(told_at_the_next_look(fixture, &queues).await, [saga(1), saga(2)]);
    let stored = loaded(&*store, saga(1)).await;
    let numbers: Vec<u64> = stored.inbox.iter().map(|received| received.seq).collect();
    let leases = 3 * u64::from(MAX_EXPIRIES);
    assert_eq!((numbers, stored.inbox_seq), ((1..=leases + 3).collect(), leases + 3));
    let mut lost: Vec<_> = stored.inbox.iter().filter_map(|received| given_up(&received.message)).collect();
    lost.sort_by_key(|(step, ..)| *step);
    assert_eq!(lost, [("build", Phase::Do, 1), ("ship", Phase::Do, 1), ("test", Phase::Do, 1)]);
    assert!(store.next_wake(&[deploy()]).await.unwrap().is_some());
    assert_eq!(told_at_the_next_look(fixture, &queues).await, [], "once");
    assert_eq!(loaded(&*store, saga(2)).await.inbox_seq, u64::from(MAX_EXPIRIES) + 1);
}

/// A saga that has ended is told nothing, nor is any saga of a job that none waits for.
pub async fn nobody_is_told_of_a_lost_job_that_no_saga_waits_for(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let queues = ["work/q".to_owned(), "hooks".to_owned()];
    apply(&*store, Commit { jobs: vec![attempt("work/q", "build", now)], ..started(saga(1), now) }).await;
    apply(&*store, Commit { jobs: vec![attempt("hooks", "build", now)], ..started(saga(2), now) }).await;
    apply(&*store, ended(saga(1), 2, now)).await;
    lose_all_but_one(fixture, &queues, 2).await;
    assert_eq!(told_at_the_next_look(fixture, &queues).await, []);
    for number in [1, 2] {
        let stored = loaded(&*store, saga(number)).await;
        assert_eq!((stored.inbox.len(), stored.inbox_seq), (0, 0));
    }
}

/// No worker gets the job of a saga that is paused, and it costs the job nothing.
pub async fn the_job_of_a_paused_saga_waits_until_it_goes_on(fixture: &dyn Fixture) {
    offered(fixture).await;
    let (store, now) = (fixture.store(), fixture.now());
    apply(&*store, updated(saga(1), 2, now, |row| row.paused = true)).await;
    assert!(lease_all(fixture).await.is_empty());
    apply(&*store, updated(saga(1), 3, now, |row| row.paused = false)).await;
    let job = lease_one(fixture).await;
    assert_eq!((job.lease.token, job.lease.attempts, job.lease.expiries), (1, 0, 0));
    // A lease that runs out during a pause is not given again before its end.
    apply(&*store, updated(saga(1), 4, now, |row| row.paused = true)).await;
    fixture.advance(LEASE + A_MOMENT).await;
    assert!(lease_all(fixture).await.is_empty());
    apply(&*store, updated(saga(1), 5, fixture.now(), |row| row.paused = false)).await;
    assert_eq!(lease_one(fixture).await.lease.token, 2);
}
