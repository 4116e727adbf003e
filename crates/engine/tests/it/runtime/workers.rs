//! Work for outside workers: leased, kept, answered, given up.

use backstitch::kernel::saga::draft::{DraftCompensation, DraftStep};
use backstitch::kernel::saga::{Phase, Resolution};
use backstitch::{
    Answered, Engine, Error, ErrorKind, Event, Payload, Retry, Status, StepError, StepResult, StepStatus,
    Subject, Work, secs,
};
use serde_json::json;
use tokio::time::Instant;

use crate::runtime::support::*;

const LEASE: std::time::Duration = secs(30);

pub(crate) async fn lease(engine: &Engine) -> Vec<Work> {
    engine.lease_work(&["builders".to_owned()], 10, LEASE, secs(0)).await.unwrap()
}

/// The one piece of work there is, or will be.
pub(crate) async fn take(engine: &Engine) -> Work {
    let mut leased = engine.lease_work(&["builders".to_owned()], 10, LEASE, secs(3600)).await.unwrap();
    assert_eq!(leased.len(), 1, "{leased:?}");
    leased.remove(0)
}

fn result(of: &str) -> Payload {
    Payload::encode(&of).unwrap()
}

/// Which step's action or compensation the work is.
pub(crate) fn step_of(work: &Work) -> (&str, Phase) {
    match &work.subject {
        Subject::Step { step, phase, .. } => (step.as_str(), *phase),
        Subject::Delivery { .. } | Subject::State { .. } => panic!("a saga's work is a step's"),
    }
}

async fn complete(engine: &Engine, work: &Work) -> Result<Answered, Error> {
    engine.complete_work(work.job, work.token, result("built")).await
}

async fn fail(engine: &Engine, work: &Work, error: StepError) -> Result<Answered, Error> {
    engine.fail_work(work.job, work.token, error).await
}

/// An engine with a saga `job` of these steps.
async fn engine(steps: impl IntoIterator<Item = DraftStep>) -> (Calls, Engine) {
    let calls = Calls::good();
    let engine = calls.bench().open().await;
    put(&engine, written("job", steps)).await;
    (calls, engine)
}

fn retrying(id: &str, count: u32) -> DraftStep {
    DraftStep { retry: Retry::fixed(count, secs(5)), ..working(id) }
}

/// A step that is called, and undone by the workers.
fn undone_outside(id: &str, retries: u32) -> DraftStep {
    let retry = Retry::fixed(retries, secs(5));
    let undo = DraftCompensation { action: builders(), timeout: secs(60), queue_timeout: None, retry };
    DraftStep { compensate: Some(undo), ..calling(id) }
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_all_there_is_to_know_and_its_result_lets_the_saga_go_on() {
    let (calls, engine) = engine([calling("plan"), working("build"), calling("ship")]).await;
    let run = engine.start("job", &json!({"pr": 7})).await.unwrap();
    let work = take(&engine).await;
    let subject = Subject::Step { saga: run.id(), step: "build".into(), phase: Phase::Do };
    assert_eq!((&*work.queue, &work.subject), ("builders", &subject));
    assert_eq!((work.attempt, work.token), (1, 1));
    assert_eq!(work.idempotency_key, format!("{}:build:do", run.id()));
    let body: serde_json::Value = work.body.decode().unwrap();
    let expected = json!({"saga_id": run.id(), "step": "build", "phase": "do", "attempt": 1,
        "input": {"pr": 7}, "results": {"plan": "do plan done"}});
    assert_eq!(body, expected);
    assert!(lease(&engine).await.is_empty(), "nobody else gets it");
    assert_eq!(complete(&engine, &work).await.unwrap(), Answered::Now);
    let ended = run.outcome().await.unwrap();
    assert!(ended.succeeded());
    assert_eq!(ended.result::<String>("build").unwrap(), "built");
    assert_eq!(calls.trace.said(), ["do plan", "do ship"]);
    assert_eq!(calls.bodies.lock().unwrap()[1]["results"]["build"], "built");
}

#[tokio::test(start_paused = true)]
async fn worker_compensation_leaves_no_adoption_in_the_log() {
    let retry = Retry::fixed(1, secs(5));
    let undo = DraftCompensation { action: builders(), timeout: secs(3600), queue_timeout: None, retry };
    let plan = DraftStep { compensate: Some(undo), ..calling("plan") };
    let build = DraftStep { timeout: secs(3600), ..working("build") };
    let (_, engine) = engine([plan, build]).await;
    let run = start(&engine, "job").await;
    let build = take(&engine).await;
    eventually("the saga is released", async || engine.active() == 0).await;
    fail(&engine, &build, StepError::refused("no")).await.unwrap();
    let undo = take(&engine).await;
    assert_eq!(step_of(&undo), ("plan", Phase::Undo));
    eventually("the saga is released again", async || engine.active() == 0).await;
    complete(&engine, &undo).await.unwrap();
    assert_eq!(run.clone().outcome().await.unwrap().status, Status::Compensated);
    assert!(!names(&log(&run).await).contains(&"saga.adopted"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_work_of_its_queues_only() {
    let (_, engine) = engine([working("build")]).await;
    let run = start(&engine, "job").await;
    let others = ["hooks".to_owned(), "work/builders".to_owned()];
    assert!(engine.lease_work(&others, 10, LEASE, secs(0)).await.unwrap().is_empty());
    assert!(engine.lease_work(&[], 10, LEASE, secs(0)).await.unwrap().is_empty());
    let both = engine.lease_work(&["x".to_owned(), "builders".to_owned()], 10, LEASE, secs(0)).await.unwrap();
    complete(&engine, &both[0]).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_refuses_is_not_done_and_not_tried_again() {
    let (calls, engine) = engine([calling("plan"), retrying("build", 3)]).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    let refusal = StepError::refused("no such branch").with_code("NO_BRANCH");
    assert_eq!(fail(&engine, &work, refusal.clone()).await.unwrap(), Answered::Now);
    let ended = run.outcome().await.unwrap();
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("build").unwrap().error, Some(refusal));
    assert_eq!(calls.trace.said(), ["do plan", "undo plan"], "a refusal leaves nothing to undo");
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_failed_at_is_offered_again_in_time() {
    let (_, engine) = engine([retrying("build", 1)]).await;
    let run = start(&engine, "job").await;
    let first = take(&engine).await;
    fail(&engine, &first, StepError::not_done("no disk")).await.unwrap();
    assert!(lease(&engine).await.is_empty(), "not before its time");
    let second = take(&engine).await;
    assert_eq!((second.attempt, second.job != first.job), (2, true), "another attempt is another job");
    assert_eq!(second.idempotency_key, first.idempotency_key);
    complete(&engine, &second).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_does_not_know_is_undone_in_the_end() {
    let (calls, engine) = engine([retrying("build", 1)]).await;
    let run = start(&engine, "job").await;
    fail(&engine, &take(&engine).await, StepError::in_doubt("the line went dead")).await.unwrap();
    fail(&engine, &take(&engine).await, StepError::refused("no")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
    assert_eq!(calls.trace.said(), ["undo build"]);
}

/// Nothing is looked for by itself, so that only a word in time can help.
async fn patient_engine(steps: impl IntoIterator<Item = DraftStep>) -> Engine {
    let mut bench = Calls::good().bench();
    bench.options.tick = secs(24 * 3600);
    let engine = bench.open().await;
    put(&engine, written("job", steps)).await;
    engine
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_work_gets_it_as_soon_as_it_is_offered() {
    let engine = patient_engine([working("build"), calling("check"), working("ship")]).await;
    let begun = Instant::now();
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { (take(&engine).await, engine) }
    });
    tokio::task::yield_now().await;
    let run = start(&engine, "job").await;
    let (first, _) = waiting.await.unwrap();
    assert_eq!(step_of(&first).0, "build", "with the saga's start");
    let (second, answered) = tokio::join!(take(&engine), complete(&engine, &first));
    assert_eq!((step_of(&second).0, answered.unwrap()), ("ship", Answered::Now), "with a later decision");
    complete(&engine, &second).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
    assert!(begun.elapsed() < secs(60));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_in_vain_is_told_so_in_time() {
    let (_, engine) = engine([working("build")]).await;
    let begun = Instant::now();
    let leased = engine.lease_work(&["builders".to_owned()], 1, LEASE, secs(20)).await.unwrap();
    assert!(leased.is_empty());
    assert_eq!(begun.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_stops_keeps_nobody_waiting() {
    let engine = patient_engine([working("build")]).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.lease_work(&["builders".to_owned()], 1, LEASE, secs(3600)).await.map(|_| ()) }
    });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    engine.shutdown().await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(Error::ShuttingDown)));
    assert!(begun.elapsed() < secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_loses_its_work_to_another() {
    let (_, engine) = engine([working("build")]).await;
    let run = start(&engine, "job").await;
    let lost = take(&engine).await;
    let begun = Instant::now();
    let taken = take(&engine).await;
    assert!((30..32).contains(&begun.elapsed().as_secs()), "once its lease has run out");
    assert_eq!((taken.job, taken.attempt), (lost.job, 1), "it is the same attempt");
    assert!(taken.token > lost.token);
    assert!(matches!(complete(&engine, &lost).await, Err(Error::StaleLease(_))));
    assert!(matches!(fail(&engine, &lost, StepError::refused("no")).await, Err(Error::StaleLease(_))));
    assert!(matches!(engine.extend_lease(lost.job, lost.token, LEASE).await, Err(Error::StaleLease(_))));
    assert_eq!(complete(&engine, &taken).await.unwrap(), Answered::Now);
    assert!(
        matches!(complete(&engine, &lost).await, Err(Error::StaleLease(_))),
        "nor does it count as repeated"
    );
    let ended = run.outcome().await.unwrap();
    assert_eq!((ended.succeeded(), ended.step("build").unwrap().attempts), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_says_it_is_still_at_it_keeps_its_work() {
    let steps = [DraftStep { timeout: secs(3600), ..working("build") }];
    let (_, engine) = engine(steps).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    let mut until = work.lease_until;
    for _ in 0..5 {
        tokio::time::sleep(secs(20)).await;
        let longer = engine.extend_lease(work.job, work.token, LEASE).await.unwrap();
        assert!(longer.until > until && !longer.cancelled);
        until = longer.until;
        assert!(lease(&engine).await.is_empty());
    }
    complete(&engine, &work).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn a_repeated_answer_changes_nothing() {
    let (_, engine) = engine([working("build"), working("ship")]).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    assert_eq!(complete(&engine, &work).await.unwrap(), Answered::Now);
    assert_eq!(complete(&engine, &work).await.unwrap(), Answered::Before);
    assert_eq!(fail(&engine, &work, StepError::refused("no")).await.unwrap(), Answered::Before);
    assert!(matches!(engine.extend_lease(work.job, work.token, LEASE).await, Err(Error::JobOver(_))));
    let other = take(&engine).await;
    fail(&engine, &other, StepError::refused("no")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
    assert_eq!(
        fail(&engine, &other, StepError::refused("no")).await.unwrap(),
        Answered::Before,
        "ended or not"
    );
}

fn is_given_up<T>(answer: Result<T, Error>) -> bool {
    matches!(answer, Err(Error::GivenUp { step, .. }) if step.as_str() == "build")
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_timed_out_is_given_up_and_its_worker_is_told() {
    let (calls, engine) = engine([DraftStep { timeout: secs(20), ..working("build") }]).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    wait_for(&run, |event| event.name() == "step.timed_out").await;
    assert!(is_given_up(engine.extend_lease(work.job, work.token, LEASE).await));
    assert!(is_given_up(complete(&engine, &work).await));
    assert!(is_given_up(fail(&engine, &work, StepError::refused("no")).await));
    let ended = run.outcome().await.unwrap();
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("build").unwrap().error.as_ref().unwrap().kind, ErrorKind::TimedOut);
    assert_eq!(calls.trace.said(), ["undo build"], "it may have been done");
    assert!(is_given_up(complete(&engine, &work).await), "also once the saga has ended");
}

#[tokio::test(start_paused = true)]
async fn job_waits_for_a_worker_without_end() {
    for (timeout, work_takes) in [(secs(5), secs(4)), (secs(7200), secs(7199))] {
        let (calls, engine) = engine([DraftStep { timeout, ..retrying("build", 2) }]).await;
        let run = start(&engine, "job").await;
        // Longer than until the next look at such a saga.
        tokio::time::sleep(secs(26 * 3600)).await;
        assert_eq!(engine.active(), 0, "it takes no room");
        let build = engine.load(run.id()).await.unwrap().unwrap().step("build").unwrap().clone();
        assert_eq!((build.status, build.attempts), (StepStatus::Waiting, 1));
        let work = take(&engine).await;
        wait_for(&run, |event| event.name() == "step.leased").await;
        tokio::time::sleep(work_takes).await;
        complete(&engine, &work).await.unwrap();
        assert!(run.clone().outcome().await.unwrap().succeeded(), "its time began when it was leased");
        let expected = ["saga.started", "step.started", "step.leased", "step.succeeded", "saga.succeeded"];
        assert_eq!(names(&log(&run).await), expected);
        assert_eq!(calls.trace.said(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn worker_that_leases_late_times_out_after_its_lease() {
    let (_, engine) = engine([DraftStep { timeout: secs(20), ..working("build") }]).await;
    let run = start(&engine, "job").await;
    tokio::time::sleep(secs(3600)).await;
    let begun = Instant::now();
    take(&engine).await;
    wait_for(&run, |event| event.name() == "step.timed_out").await;
    assert_eq!(begun.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_took_in_time_is_never_handed_out() {
    let (_, engine) = engine([DraftStep { queue_timeout: Some(secs(20)), ..retrying("build", 1) }]).await;
    let run = start(&engine, "job").await;
    wait_for(&run, |event| event.name() == "step.retry").await;
    assert_eq!(engine.waiting_for_workers(10).await.unwrap(), [], "its job is withdrawn with it");
    assert!(lease(&engine).await.is_empty(), "the first attempt is over, the second not there yet");
    let second = take(&engine).await;
    assert_eq!(second.attempt, 2);
    complete(&engine, &second).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());

    let run = start(&engine, "job").await;
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
    assert_eq!(engine.waiting_for_workers(10).await.unwrap(), []);
    assert!(lease(&engine).await.is_empty(), "nor is anything of a saga that has ended");
}

#[tokio::test(start_paused = true)]
async fn queue_timeout_stands_still_while_its_saga_is_paused() {
    let (_, engine) = engine([DraftStep { queue_timeout: Some(secs(600)), ..working("build") }]).await;
    let run = start(&engine, "job").await;
    tokio::time::sleep(secs(300)).await;
    engine.pause(run.id(), "for a day").await.unwrap();
    wait_for(&run, |event| event.name() == "saga.paused").await;
    tokio::time::sleep(secs(24 * 3600)).await;
    engine.resume(run.id(), "go on").await.unwrap();
    wait_for(&run, |event| event.name() == "saga.resumed").await;
    let resumed = Instant::now();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated, "nobody took it");
    assert_eq!(resumed.elapsed().as_secs(), 300, "it had so much time left");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_comes_back_from_the_last_lease_is_not_told_that_its_answer_counted() {
    let (_, engine) = engine([DraftStep { timeout: secs(3600), ..working("build") }]).await;
    let run = start(&engine, "job").await;
    let mut last = take(&engine).await;
    for _ in 1..5 {
        last = take(&engine).await;
    }
    tokio::time::sleep(LEASE).await;
    assert!(lease(&engine).await.is_empty(), "nobody brings it back");
    assert!(is_given_up(complete(&engine, &last).await));
    assert!(is_given_up(engine.extend_lease(last.job, last.token, LEASE).await));
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_whose_workers_all_fell_silent_is_in_doubt_long_before_its_time() {
    for release_after in [secs(60), secs(7200)] {
        let calls = Calls::good();
        let mut bench = calls.bench();
        bench.options.release_after = release_after;
        let engine = bench.open().await;
        put(&engine, written("job", [DraftStep { timeout: secs(3600), ..retrying("build", 1) }])).await;
        let run = start(&engine, "job").await;
        for _ in 0..5 {
            take(&engine).await;
        }
        let begun = Instant::now();
        let second = take(&engine).await;
        assert!(begun.elapsed() < LEASE + secs(10), "{:?}", begun.elapsed());
        assert_eq!(second.attempt, 2, "it is tried again as any other that failed");
        fail(&engine, &second, StepError::refused("no")).await.unwrap();
        let retry = log(&run).await.into_iter().find_map(|recorded| match recorded.event {
            backstitch::Event::StepRetry { error, .. } => Some(error),
            _ => None,
        });
        assert_eq!(calls.trace.said(), ["undo build"], "a worker may have done it");
        let error = retry.unwrap();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::InDoubt, Some("lease_expired")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_engine_does_not_disturb_a_worker() {
    for is_released in [false, true] {
        let calls = Calls::good();
        let bench = calls.bench();
        let engine = bench.open().await;
        let timeout = if is_released { secs(3600) } else { secs(50) };
        put(&engine, written("job", [DraftStep { timeout, ..working("build") }, calling("ship")])).await;
        let id = start(&engine, "job").await.id();
        let work = take(&engine).await;
        assert_eq!(engine.active(), usize::from(!is_released));
        drop(engine);
        let engine = bench.open().await;
        eventually("it is known again", async || engine.load(id).await.unwrap().is_some()).await;
        engine.extend_lease(work.job, work.token, LEASE).await.unwrap();
        assert_eq!(complete(&engine, &work).await.unwrap(), Answered::Now);
        let ended = engine.find(id).await.unwrap().outcome().await.unwrap();
        assert!(ended.succeeded());
        assert_eq!(ended.step("build").unwrap().attempts, 1, "it was not interrupted");
        assert_eq!(calls.trace.said(), ["do ship"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_worker() {
    let bench = Calls::good().bench();
    let engine = bench.open().await;
    put(&engine, written("job", [working("build")])).await;
    let id = start(&engine, "job").await.id();
    let work = take(&engine).await;
    let begun = Instant::now();
    engine.shutdown().await.unwrap();
    assert!(begun.elapsed() < secs(1));
    let engine = bench.open().await;
    complete(&engine, &work).await.unwrap();
    let ended = engine.find(id).await.unwrap().outcome().await.unwrap();
    assert_eq!((ended.succeeded(), ended.step("build").unwrap().attempts), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_long_for_a_worker_takes_no_room() {
    let mut bench = Calls::good().bench();
    bench.options.max_active = 1;
    let engine = bench.open().await;
    put(&engine, written("job", [DraftStep { timeout: secs(7200), ..working("build") }, calling("ship")]))
        .await;
    let runs = [start(&engine, "job").await, start(&engine, "job").await, start(&engine, "job").await];
    eventually("they are let go", async || engine.active() == 0).await;
    tokio::time::sleep(secs(3600)).await;
    assert!(
        engine.health(backstitch::STUCK_AFTER).await.unwrap().stuck.is_empty(),
        "it is no trouble to wait"
    );
    let begun = Instant::now();
    let work = lease(&engine).await;
    assert_eq!(work.len(), 3);
    for work in &work {
        complete(&engine, work).await.unwrap();
    }
    for run in runs {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    assert!(begun.elapsed() < secs(10), "an answer wakes them");
}

#[tokio::test(start_paused = true)]
async fn released_saga_gives_its_worker_up_in_time() {
    let (calls, engine) = engine([DraftStep { timeout: secs(7200), ..working("build") }]).await;
    let run = start(&engine, "job").await;
    let begun = Instant::now();
    take(&engine).await;
    wait_for(&run, |event| event.name() == "step.leased").await;
    eventually("it is let go", async || engine.active() == 0).await;
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
    let took = begun.elapsed().as_secs();
    assert!((7200..7202).contains(&took), "{took}");
    assert_eq!(calls.trace.said(), ["undo build"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_undoes_what_was_done() {
    let (calls, engine) = engine([undone_outside("plan", 1), working("build")]).await;
    let run = engine.start("job", &json!(7)).await.unwrap();
    let refusal = StepError::refused("no");
    fail(&engine, &take(&engine).await, refusal.clone()).await.unwrap();
    let undo = take(&engine).await;
    assert_eq!((step_of(&undo), undo.attempt), (("plan", Phase::Undo), 1));
    assert_eq!(undo.idempotency_key, format!("{}:plan:undo", run.id()));
    let body: serde_json::Value = undo.body.decode().unwrap();
    let expected = json!({"saga_id": run.id(), "step": "plan", "phase": "undo", "attempt": 1, "input": 7,
        "results": {"plan": "do plan done"}, "result": "do plan done",
        "error": {"kind": "refused", "message": "no"}});
    assert_eq!(body, expected);
    fail(&engine, &undo, refusal).await.unwrap();
    let again = take(&engine).await;
    assert_eq!(
        (step_of(&again).1, again.attempt),
        (Phase::Undo, 2),
        "what is owed is tried again, even after a no"
    );
    complete(&engine, &again).await.unwrap();
    let ended = run.outcome().await.unwrap();
    assert_eq!(
        (ended.status, ended.step("plan").unwrap().status),
        (Status::Compensated, StepStatus::Compensated)
    );
    assert_eq!(calls.trace.said(), ["do plan"]);
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_no_worker_brings_about_waits_for_a_person() {
    let mut plan = undone_outside("plan", 1);
    plan.compensate.as_mut().unwrap().queue_timeout = Some(secs(60));
    let (_, engine) = engine([plan, working("build")]).await;
    let run = start(&engine, "job").await;
    fail(&engine, &take(&engine).await, StepError::refused("no")).await.unwrap();
    let ended = run.clone().outcome().await.unwrap();
    assert_eq!((ended.status, ended.step("plan").unwrap().attempts), (Status::Failed, 1));
    assert!(lease(&engine).await.is_empty(), "its jobs are over");
    engine.resolve(run.id(), "plan", Resolution::Retry, "the workers are back").await.unwrap();
    let undo = take(&engine).await;
    assert_eq!((step_of(&undo).1, undo.attempt), (Phase::Undo, 3));
    complete(&engine, &undo).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
}

#[tokio::test(start_paused = true)]
async fn a_pause_lets_a_worker_finish_and_offers_nothing_new() {
    let (_, engine) = engine([working("build"), working("ship")]).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    engine.pause(run.id(), "lunch").await.unwrap();
    wait_for(&run, |event| event.name() == "saga.paused").await;
    complete(&engine, &work).await.unwrap();
    wait_for(&run, |event| event.name() == "step.succeeded").await;
    assert!(lease(&engine).await.is_empty());
    engine.resume(run.id(), "coffee").await.unwrap();
    complete(&engine, &take(&engine).await).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_is_refused_and_the_work_is_still_the_workers() {
    let mut bench = Calls::good().bench();
    bench.options.max_payload = 1000;
    let engine = bench.open().await;
    put(&engine, written("job", [working("build")])).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    let large = engine.complete_work(work.job, work.token, result(&"x".repeat(999))).await;
    let refused = large.unwrap_err().to_string();
    assert_eq!(refused, "the result has 1001 bytes, the limit is 1000: shorten it");
    let largest = engine.complete_work(work.job, work.token, result(&"x".repeat(998))).await;
    assert_eq!(largest.unwrap(), Answered::Now);
    assert!(run.outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn of_a_long_error_the_beginning_is_kept() {
    let (_, engine) = engine([working("build")]).await;
    let run = start(&engine, "job").await;
    fail(&engine, &take(&engine).await, StepError::refused("é".repeat(100_000))).await.unwrap();
    let ended = run.outcome().await.unwrap();
    assert!(ended.step("build").unwrap().error.as_ref().unwrap().message.len() < 5000);
}

#[tokio::test(start_paused = true)]
async fn only_work_for_workers_can_be_answered() {
    let trace = Trace::default();
    let (_, engine) = engine([working("build")]).await;
    let hooked = backstitch::Saga::builder("hooked").step(noting("a", &trace));
    let hooked = hooked.on_success(|_| std::future::pending::<StepResult<()>>()).build().unwrap();
    engine.register(hooked).unwrap();
    assert!(execute(&engine, "hooked").await.succeeded());
    for job in [1, 99] {
        let refused = engine.complete_work(job, 1, result("x")).await.unwrap_err();
        assert!(refused.to_string().starts_with(&format!("there is no job {job}: ")), "{refused}");
        assert!(matches!(engine.extend_lease(job, 1, LEASE).await, Err(Error::NoSuchJob(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn however_often_the_engine_goes_down_every_attempt_of_a_worker_is_made_once() {
    let calls = Calls::good();
    let bench = calls.bench();
    let mut engine = bench.open().await;
    let patient = |id: &str| DraftStep { timeout: secs(3600), ..working(id) };
    put(&engine, written("job", [patient("build"), calling("check"), patient("ship")])).await;
    let mut sagas = Vec::new();
    for _ in 0..10 {
        sagas.push(start(&engine, "job").await.id());
    }
    let mut done = 0;
    while done < 2 * sagas.len() {
        let work = engine.lease_work(&["builders".to_owned()], 1, secs(3600), secs(3600)).await.unwrap();
        drop(engine);
        engine = bench.open().await;
        for work in work {
            assert_eq!(complete(&engine, &work).await.unwrap(), Answered::Now);
            done += 1;
        }
        drop(engine);
        engine = bench.open().await;
    }
    for saga in sagas {
        let run = engine.find(saga).await.unwrap();
        let ended = run.clone().outcome().await.unwrap();
        assert!(ended.succeeded());
        for step in ["build", "ship"] {
            assert_eq!(ended.step(step).unwrap().attempts, 1);
        }
        let definition = written("job", [patient("build"), calling("check"), patient("ship")]);
        let definition = definition.check().unwrap();
        assert_eq!(backstitch::kernel::saga::audit(&definition, &log(&run).await), []);
    }
    assert!(lease(&engine).await.is_empty());
}

/// Two steps side by side that wait long for workers, and one after both.
fn side_by_side() -> [DraftStep; 3] {
    let patient = |id: &str| DraftStep { timeout: secs(7200), depends_on: Some(Vec::new()), ..working(id) };
    let both = Some(vec!["left".to_owned(), "right".to_owned()]);
    [patient("left"), patient("right"), DraftStep { depends_on: both, ..calling("ship") }]
}

#[tokio::test(start_paused = true)]
async fn answers_that_come_together_count_each() {
    let (_, engine) = engine(side_by_side()).await;
    let run = start(&engine, "job").await;
    let leased = lease(&engine).await;
    assert_eq!(leased.len(), 2);
    let [left, right] = [&leased[0], &leased[1]].map(|work| complete(&engine, work));
    let (left, right) = tokio::join!(left, right);
    assert_eq!((left.unwrap(), right.unwrap()), (Answered::Now, Answered::Now));
    let begun = Instant::now();
    assert!(run.outcome().await.unwrap().succeeded());
    assert!(begun.elapsed() < secs(60), "nobody waited for an attempt to time out");
}

#[tokio::test(start_paused = true)]
async fn answers_that_waited_for_the_next_process_count_each() {
    let calls = Calls::good();
    let bench = calls.bench();
    let engine = bench.open().await;
    put(&engine, written("job", side_by_side())).await;
    let run = start(&engine, "job").await;
    let leased = engine.lease_work(&["builders".to_owned()], 2, secs(3600), secs(0)).await.unwrap();
    assert_eq!(leased.len(), 2);
    let id = run.id();
    drop((run, engine));
    // Whoever takes the answers has nothing to run sagas with.
    let mut deaf = bench.options.clone();
    deaf.caller = None;
    let engine = Engine::on_store(bench.store.clone(), deaf).await.unwrap();
    for work in &leased {
        assert_eq!(complete(&engine, work).await.unwrap(), Answered::Now);
    }
    drop(engine);
    let engine = bench.open().await;
    let ended = engine.find(id).await.unwrap().outcome().await.unwrap();
    assert!(ended.succeeded());
    for step in ["left", "right"] {
        assert_eq!(ended.step(step).unwrap().attempts, 1, "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_saga_gives_no_worker_anything_until_it_is_resumed() {
    let (_, engine) = engine([working("build"), working("ship")]).await;
    let run = engine.start("job", &json!({})).await.unwrap();
    engine.pause(run.id(), "wait").await.unwrap();
    wait_for(&run, |event| matches!(event, Event::SagaPaused { .. })).await;
    assert!(lease(&engine).await.is_empty(), "nothing new starts");

    // Whoever waits for work meanwhile gets it when the saga goes on.
    let (work, resumed) = tokio::join!(take(&engine), engine.resume(run.id(), "go on"));
    resumed.unwrap();
    assert_eq!((step_of(&work).0, work.attempt, work.token), ("build", 1, 1), "it has cost nothing");

    // What a worker has is finished, and what follows waits.
    engine.pause(run.id(), "wait").await.unwrap();
    complete(&engine, &work).await.unwrap();
    wait_for(&run, |event| matches!(event, Event::StepSucceeded { .. })).await;
    assert!(lease(&engine).await.is_empty());
    engine.resume(run.id(), "go on").await.unwrap();
    let work = take(&engine).await;
    complete(&engine, &work).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
}
