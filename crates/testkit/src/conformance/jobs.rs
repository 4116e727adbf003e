//! Jobs: leased by one worker at a time, finished once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::jobs::{Job, JobOutcome, NewJob, Settlement};
use backstitch::store::Commit;
use backstitch::store::outbox::ALERTS;
use backstitch_kernel::Payload;
use backstitch_kernel::lease::{Lease, MAX_EXPIRIES, Refused, Status};
use serde_json::json;

use super::Fixture;
use super::make::{A_MOMENT, LEASE, appended, apply, claim_messages, job, saga, started};

/// A saga that asks for these jobs.
async fn asked(fixture: &dyn Fixture, jobs: Vec<NewJob>) {
    apply(&*fixture.store(), Commit { jobs, ..started(saga(1), fixture.now()) }).await;
}

async fn lease(fixture: &dyn Fixture, queues: &[&str], limit: usize) -> Vec<Job> {
    let queues: Vec<_> = queues.iter().map(|queue| (*queue).to_owned()).collect();
    let leased = fixture.store().lease_jobs(&queues, LEASE, limit).await.unwrap();
    leased.leased
}

/// The one job there is to lease.
async fn lease_one(fixture: &dyn Fixture) -> Job {
    let mut leased = lease(fixture, &["hooks"], 10).await;
    assert_eq!(leased.len(), 1);
    leased.remove(0)
}

async fn report(fixture: &dyn Fixture, job: &Job, report: JobOutcome) -> Result<(), Refused> {
    let settlement = Settlement::new(job.id, job.lease.token, report);
    let mut settled = fixture.store().settle_jobs(&[settlement]).await.unwrap();
    assert_eq!(settled.len(), 1);
    settled.remove(0).map(|_| ())
}

async fn read(fixture: &dyn Fixture, id: i64) -> Job {
    fixture.store().job(id).await.unwrap().unwrap()
}

fn subjects(jobs: &[Job]) -> Vec<&str> {
    jobs.iter().map(|job| job.subject.as_str()).collect()
}

/// A worker gets the job as it was asked for, under a token of its own.
pub async fn a_worker_gets_the_job_as_it_was_asked_for(fixture: &dyn Fixture) {
    let asked_for = job("hooks", "on_success", fixture.now());
    asked(fixture, vec![asked_for.clone()]).await;
    let leased = lease_one(fixture).await;
    assert_eq!(leased.saga, saga(1));
    assert_eq!((&*leased.queue, &*leased.subject), ("hooks", "on_success"));
    assert_eq!(leased.payload, asked_for.payload);
    assert_eq!((leased.lease.status, leased.lease.token), (Status::Leased, 1));
    assert_eq!((leased.lease.attempts, leased.lease.expiries, &leased.last_error), (0, 0, &None));
    assert!(leased.lease.until > fixture.now(), "a lease ends later");
    assert_eq!(read(fixture, leased.id).await, leased);
}

/// A leased job is nobody else's.
pub async fn a_job_is_leased_by_one_worker_only(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    lease_one(fixture).await;
    assert!(lease(fixture, &["hooks"], 10).await.is_empty());
}

/// Nothing is leased before its time.
pub async fn a_job_is_leased_once_it_is_due(fixture: &dyn Fixture) {
    let due = fixture.now().plus(Duration::from_secs(60));
    asked(fixture, vec![job("hooks", "on_success", due)]).await;
    assert!(lease(fixture, &["hooks"], 10).await.is_empty());
    fixture.advance(Duration::from_secs(60)).await;
    lease_one(fixture).await;
}

/// A worker gets jobs of the queues it asked for, and no others.
pub async fn a_worker_gets_jobs_of_its_queues_only(fixture: &dyn Fixture) {
    let now = fixture.now();
    asked(fixture, vec![job("hooks", "a", now), job("mail", "b", now), job("calls", "c", now)]).await;
    assert!(lease(fixture, &[], 10).await.is_empty());
    assert!(lease(fixture, &["parcels"], 10).await.is_empty());
    let leased = lease(fixture, &["mail", "hooks"], 10).await;
    let mut subjects = subjects(&leased);
    subjects.sort_unstable();
    assert_eq!(subjects, ["a", "b"]);
}

/// The oldest go first, across queues, so many at a time.
pub async fn the_oldest_jobs_go_first(fixture: &dyn Fixture) {
    let now = fixture.now();
    let jobs = [("hooks", "1"), ("mail", "2"), ("hooks", "3"), ("mail", "4")];
    let jobs = jobs
        .iter()
        .zip(1..)
        .map(|((queue, subject), millis)| job(queue, subject, now.plus(Duration::from_millis(millis))));
    asked(fixture, jobs.collect()).await;
    fixture.advance(Duration::from_secs(1)).await;
    assert_eq!(subjects(&lease(fixture, &["mail", "hooks"], 3).await), ["1", "2", "3"]);
    assert_eq!(subjects(&lease(fixture, &["mail", "hooks"], 3).await), ["4"]);
}

/// A result counts once.
pub async fn a_job_is_completed_once(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    let leased = lease_one(fixture).await;
    assert_eq!(report(fixture, &leased, JobOutcome::Completed).await, Ok(()));
    assert_eq!(report(fixture, &leased, JobOutcome::Completed).await, Err(Refused::Finished));
    let failed = JobOutcome::Failed { error: "late".to_owned(), retry_after: None };
    assert_eq!(report(fixture, &leased, failed).await, Err(Refused::Finished));
    let done = read(fixture, leased.id).await;
    assert_eq!((done.lease.status, done.lease.attempts, done.last_error), (Status::Completed, 1, None));
    fixture.advance(10 * LEASE).await;
    assert!(lease(fixture, &["hooks"], 10).await.is_empty());
}

/// A failure with a wait is tried again after it, by the store's clock; one without is the last.
pub async fn a_failed_job_waits_for_its_retry_or_is_given_up(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    let first = lease_one(fixture).await;
    let retry_after = Some(Duration::from_secs(30));
    let failed = JobOutcome::Failed { error: "503".to_owned(), retry_after };
    assert_eq!(report(fixture, &first, failed).await, Ok(()));
    assert_eq!(report(fixture, &first, JobOutcome::Completed).await, Err(Refused::Stale));
    let waiting = read(fixture, first.id).await;
    assert_eq!((waiting.lease.status, waiting.lease.attempts), (Status::Pending, 1));
    assert_eq!(waiting.last_error.as_deref(), Some("503"));
    fixture.advance(Duration::from_secs(20)).await;
    assert!(lease(fixture, &["hooks"], 10).await.is_empty());
    fixture.advance(Duration::from_secs(10)).await;
    let second = lease_one(fixture).await;
    assert_eq!((second.lease.token, second.lease.attempts), (2, 1));
    let failed = JobOutcome::Failed { error: "410".to_owned(), retry_after: None };
    assert_eq!(report(fixture, &second, failed).await, Ok(()));
    let given_up = read(fixture, first.id).await;
    assert_eq!((given_up.lease.status, given_up.lease.attempts), (Status::Failed, 2));
    assert_eq!(given_up.last_error.as_deref(), Some("410"));
    fixture.advance(10 * LEASE).await;
    assert!(lease(fixture, &["hooks"], 10).await.is_empty());
}

/// Only the newest token counts: a worker that comes back late changes nothing.
pub async fn a_result_under_an_old_token_is_refused(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    let late = lease_one(fixture).await;
    fixture.advance(LEASE + A_MOMENT).await;
    let newest = lease_one(fixture).await;
    assert!(newest.lease.token > late.lease.token);
    assert_eq!(report(fixture, &late, JobOutcome::Completed).await, Err(Refused::Stale));
    let still = JobOutcome::Renewed { lease: LEASE };
    assert_eq!(report(fixture, &late, still).await, Err(Refused::Stale));
    assert_eq!(read(fixture, late.id).await.lease, newest.lease);
    assert_eq!(report(fixture, &newest, JobOutcome::Completed).await, Ok(()));
}

/// An expired lease costs no attempt, but a job that nobody brings back is given up after some.
pub async fn an_expired_lease_costs_no_attempt_and_the_fifth_ends_the_job(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    let mut id = 0;
    for expiries in 0..MAX_EXPIRIES {
        let leased = lease_one(fixture).await;
        assert_eq!((leased.lease.attempts, leased.lease.expiries), (0, expiries));
        assert_eq!(leased.lease.token, i64::from(expiries) + 1);
        id = leased.id;
        fixture.advance(LEASE + A_MOMENT).await;
    }
    assert!(lease(fixture, &["hooks"], 10).await.is_empty());
    let given_up = read(fixture, id).await;
    assert_eq!((given_up.lease.status, given_up.lease.expiries), (Status::Failed, MAX_EXPIRIES));
    assert_eq!(given_up.lease.attempts, 0);
    assert_eq!(given_up.last_error.as_deref(), Some("lease_expired"));
}

/// Whoever looks after the installation is told once of a job that is given up, and of no other.
pub async fn a_job_that_is_given_up_is_told(fixture: &dyn Fixture) {
    let alert = |what: &str| Some(Payload::encode(&json!({ "alert": what })).unwrap());
    let now = fixture.now();
    let jobs = vec![
        NewJob { alert: alert("refused"), ..job("hooks", "refused", now) },
        NewJob { alert: alert("vanished"), ..job("hooks", "vanished", now) },
        NewJob { alert: alert("done"), ..job("hooks", "done", now) },
        job("hooks", "untold", now),
    ];
    asked(fixture, jobs).await;
    for job in lease(fixture, &["hooks"], 10).await {
        let again = JobOutcome::Failed { error: "503".to_owned(), retry_after: Some(Duration::ZERO) };
        if job.subject != "vanished" {
            assert_eq!(report(fixture, &job, again).await, Ok(()));
        }
    }
    let store = fixture.store();
    assert!(claim_messages(&*store, 10).await.is_empty(), "nothing is given up yet");
    for job in lease(fixture, &["hooks"], 10).await {
        let verdict = match job.subject.as_str() {
            "done" => JobOutcome::Completed,
            _ => JobOutcome::Failed { error: "410".to_owned(), retry_after: None },
        };
        assert_eq!(report(fixture, &job, verdict).await, Ok(()));
    }
    for _ in 0..MAX_EXPIRIES {
        fixture.advance(LEASE + A_MOMENT).await;
        lease(fixture, &["hooks"], 10).await;
    }
    let told = claim_messages(&*store, 10).await;
    let expected =
        [json!({"alert": "refused", "error": "410"}), json!({"alert": "vanished", "error": "lease_expired"})];
    let told: Vec<(&str, serde_json::Value)> =
        told.iter().map(|told| (&*told.message.topic, told.message.payload.decode().unwrap())).collect();
    assert_eq!(told, expected.map(|payload| (ALERTS, payload)));
}

/// A worker that says it is still at it keeps the job.
pub async fn a_heartbeat_extends_the_lease(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    let leased = lease_one(fixture).await;
    for _ in 0..3 {
        fixture.advance(LEASE / 2).await;
        assert_eq!(report(fixture, &leased, JobOutcome::Renewed { lease: LEASE }).await, Ok(()));
        assert!(lease(fixture, &["hooks"], 10).await.is_empty());
    }
    let kept = read(fixture, leased.id).await.lease;
    assert_eq!((kept.token, kept.attempts, kept.expiries), (leased.lease.token, 0, 0));
    assert_eq!(report(fixture, &leased, JobOutcome::Completed).await, Ok(()));
}

/// A worker that has to stop gives its job back, as often as it likes: the next one gets it at once.
pub async fn a_job_that_is_given_back_is_due_at_once_and_costs_nothing(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    lease_one(fixture).await;
    fixture.advance(LEASE + A_MOMENT).await;
    for turn in 2..=i64::from(2 * MAX_EXPIRIES) {
        let leased = lease_one(fixture).await;
        assert_eq!((leased.lease.token, leased.lease.attempts, leased.lease.expiries), (turn, 0, 1));
        assert_eq!(report(fixture, &leased, JobOutcome::Returned).await, Ok(()));
        let back = read(fixture, leased.id).await;
        assert_eq!((back.lease.status, back.lease.attempts, back.lease.expiries), (Status::Pending, 0, 1));
        assert_eq!(back.last_error, leased.last_error);
    }
    let last = lease_one(fixture).await;
    assert_eq!(report(fixture, &last, JobOutcome::Completed).await, Ok(()));
}

/// Only the newest token gives a job back, and only once.
pub async fn a_job_is_given_back_by_its_holder_only(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    let late = lease_one(fixture).await;
    fixture.advance(LEASE + A_MOMENT).await;
    let newest = lease_one(fixture).await;
    assert_eq!(report(fixture, &late, JobOutcome::Returned).await, Err(Refused::Stale));
    assert_eq!(read(fixture, late.id).await.lease, newest.lease);
    assert_eq!(report(fixture, &newest, JobOutcome::Returned).await, Ok(()));
    assert_eq!(report(fixture, &newest, JobOutcome::Returned).await, Err(Refused::Stale));
    assert_eq!(report(fixture, &newest, JobOutcome::Completed).await, Err(Refused::Stale));
    let last = lease_one(fixture).await;
    assert_eq!(report(fixture, &last, JobOutcome::Completed).await, Ok(()));
    assert_eq!(report(fixture, &last, JobOutcome::Returned).await, Err(Refused::Finished));
}

/// A saga asks for the same thing once at a time.
pub async fn a_saga_has_one_active_job_for_a_subject(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    asked(fixture, vec![job("hooks", "on_success", now)]).await;
    apply(&*store, Commit { jobs: vec![job("hooks", "on_success", now)], ..appended(saga(1), 2, now) }).await;
    let leased = lease_one(fixture).await;
    apply(&*store, Commit { jobs: vec![job("hooks", "on_success", now)], ..appended(saga(1), 3, now) }).await;
    assert!(lease(fixture, &["hooks"], 10).await.is_empty());
    report(fixture, &leased, JobOutcome::Completed).await.unwrap();
    apply(&*store, Commit { jobs: vec![job("hooks", "on_success", now)], ..appended(saga(1), 4, now) }).await;
    let next = lease_one(fixture).await;
    assert!(next.id > leased.id, "a finished job is never used again");
}

/// Another saga's job is another job, whatever it is about.
pub async fn two_sagas_may_ask_for_the_same_thing(fixture: &dyn Fixture) {
    let now = fixture.now();
    for number in [1, 2] {
        let commit = Commit { jobs: vec![job("hooks", "on_success", now)], ..started(saga(number), now) };
        apply(&*fixture.store(), commit).await;
    }
    assert_eq!(lease(fixture, &["hooks"], 10).await.len(), 2);
}

/// Reports are answered one by one, in the order given.
pub async fn reports_are_answered_each_for_itself(fixture: &dyn Fixture) {
    let now = fixture.now();
    asked(fixture, vec![job("hooks", "a", now), job("hooks", "b", now)]).await;
    let leased = lease(fixture, &["hooks"], 10).await;
    let completed = |id, token| Settlement::new(id, token, JobOutcome::Completed);
    let reports = [
        completed(leased[0].id, 99),
        completed(leased[1].id, leased[1].lease.token),
        completed(i64::MAX, 1),
        completed(leased[0].id, leased[0].lease.token),
    ];
    let settled = fixture.store().settle_jobs(&reports).await.unwrap();
    let settled: Vec<_> = settled.into_iter().map(|settled| settled.map(|_| ())).collect();
    assert_eq!(settled, [Err(Refused::Stale), Ok(()), Err(Refused::Unavailable), Ok(())]);
}

/// A store makes of a lease what the kernel makes of it: for every report, in every status, under every token.
pub async fn reports_follow_the_kernels_lease_rule(fixture: &dyn Fixture) {
    let failed = |retry_after| JobOutcome::Failed { error: "no".to_owned(), retry_after };
    let outcomes = [
        JobOutcome::Completed,
        failed(None),
        failed(Some(LEASE)),
        JobOutcome::Renewed { lease: LEASE },
        JobOutcome::Returned,
    ];
    let mut jobs = Vec::new();
    for earlier in std::iter::once(None).chain(outcomes.iter().map(Some)) {
        for (outcome, token) in outcomes.iter().flat_map(|outcome| [-1, 0, 1].map(|token| (outcome, token))) {
            jobs.push((earlier.cloned(), outcome.clone(), token));
        }
    }
    let now = fixture.now();
    let subject = |number: usize| format!("{number:03}");
    asked(fixture, (0..jobs.len()).map(|number| job("hooks", &subject(number), now)).collect()).await;
    let mut leased = lease(fixture, &["hooks"], jobs.len()).await;
    leased.sort_by(|one, other| one.subject.cmp(&other.subject));
    for (leased, (earlier, outcome, token)) in leased.into_iter().zip(jobs) {
        if let Some(earlier) = earlier {
            report(fixture, &leased, earlier).await.unwrap();
        }
        let before = read(fixture, leased.id).await;
        let token = leased.lease.token + token;
        let expected = match &outcome {
            JobOutcome::Completed => before.lease.complete(token),
            JobOutcome::Failed { retry_after, .. } => {
                before.lease.fail(token, retry_after.map(|wait| fixture.now().plus(wait)))
            }
            JobOutcome::Renewed { lease } => before.lease.heartbeat(token, *lease, fixture.now()),
            JobOutcome::Returned => before.lease.give_back(token, fixture.now()),
        };
        let settlement = Settlement::new(leased.id, token, outcome);
        let settled = fixture.store().settle_jobs(&[settlement]).await.unwrap().remove(0);
        let after = read(fixture, leased.id).await;
        match expected {
            Ok(lease) => {
                assert_eq!(settled, Ok(after.lease.until));
                let of = |lease: &Lease| (lease.status, lease.token, lease.attempts, lease.expiries);
                assert_eq!(of(&after.lease), of(&lease), "{before:?}");
            }
            Err(refused) => {
                assert_eq!(settled, Err(refused), "{before:?}");
                assert_eq!(after, before);
            }
        }
    }
}

/// A job that nobody asked for is not there.
pub async fn an_unknown_job_is_not_there(fixture: &dyn Fixture) {
    assert_eq!(fixture.store().job(1).await.unwrap(), None);
}

/// Leases outlive the process that gave them.
pub async fn a_lease_holds_across_processes(fixture: &dyn Fixture) {
    asked(fixture, vec![job("hooks", "on_success", fixture.now())]).await;
    let leased = lease_one(fixture).await;
    fixture.reopen().await;
    assert!(lease(fixture, &["hooks"], 10).await.is_empty());
    assert_eq!(report(fixture, &leased, JobOutcome::Completed).await, Ok(()));
}
