//! Actions that outside workers make.

use std::time::Duration;

use backstitch::kernel::lease::MAX_EXPIRIES;
use backstitch::kernel::saga::draft::{Draft as SagaDraft, DraftStep};
use backstitch::{Answered, Payload, Performer, StepError, Subject, Work, secs};
use backstitch_modules::lifecycles::{Builder, Draft, Event, Given};

use crate::lifecycles::stage::{Place, Stage};

fn parcel(timeout: Duration) -> Draft {
    Builder::new("parcel", "packed")
        .state("sent")
        .terminal("delivered")
        .edges([("packed", "sent"), ("sent", "delivered")])
        .can_fail(["packed", "sent"])
        .error_kind("lost")
        .worker("packed", "drivers", "sent")
        .timeout("packed", timeout)
        .retry("packed", backstitch::Retry::fixed(1, Duration::from_millis(1)))
        .build()
        .unwrap()
}

async fn lease(stage: &Stage) -> Vec<Work> {
    stage.engine.lease_work(&["drivers".to_owned()], 10, secs(30), secs(0)).await.unwrap()
}

/// Workers take it and are not heard of again, as often as there is a lease to lose; who took it, in turn.
async fn lose_every_lease(stage: &Stage) -> Vec<Work> {
    let mut taken: Vec<Work> = Vec::new();
    while taken.len() < MAX_EXPIRIES as usize {
        let soon = Duration::from_millis(1);
        taken.extend(stage.engine.lease_work(&["drivers".to_owned()], 1, soon, secs(10)).await.unwrap());
    }
    taken
}

async fn jobs(stage: &Stage) -> Vec<String> {
    stage.texts("select status || ' ' || expiries || ' ' || last_error from jobs order by id").await
}

async fn state(stage: &Stage, key: &str) -> String {
    stage.lifecycles.get("parcel", key).await.unwrap().instance.state.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_leases_an_action_and_its_answer_leads_on() {
    for stage in Stage::each().await {
        stage.declare(parcel(secs(60))).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        let work = lease(&stage).await.pop().unwrap();
        let Subject::State { machine, key, state: of, .. } = &work.subject else {
            panic!("{:?}", work.subject)
        };
        assert_eq!((&**machine, &**key, &**of, work.attempt), ("parcel", "p", "packed", 1));
        assert!(lease(&stage).await.is_empty(), "one worker has it");
        stage.engine.extend_lease(work.job, work.token, secs(60)).await.unwrap();
        let result = Payload::parse(r#"{"van":7}"#).unwrap();
        let answered = stage.engine.complete_work(work.job, work.token, result.clone()).await.unwrap();
        assert_eq!(answered, Answered::Now);
        assert_eq!(state(&stage, "p").await, "sent");
        let again = stage.engine.complete_work(work.job, work.token, result).await.unwrap();
        assert_eq!(again, Answered::Before, "a repeat gets the same answer");
        stage.audit("parcel", "p").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_a_kind_leads_where_the_machine_says_after_its_retries() {
    for stage in Stage::each().await {
        stage.declare(parcel(secs(60))).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        let first = lease(&stage).await.pop().unwrap();
        stage.engine.fail_work(first.job, first.token, StepError::not_done("flat tyre")).await.unwrap();
        let second = loop {
            if let Some(work) = lease(&stage).await.pop() {
                break work;
            }
        };
        assert_eq!((second.attempt, &second.idempotency_key), (2, &first.idempotency_key));
        let lost = StepError::refused("fell off").with_code("lost");
        stage.engine.fail_work(second.job, second.token, lost).await.unwrap();
        let failed = stage.lifecycles.get("parcel", "p").await.unwrap();
        assert_eq!((&*failed.instance.state, &*failed.instance.failure.unwrap().kind), ("failed", "lost"));
        stage.audit("parcel", "p").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_nobody_waits_for_any_more_is_refused() {
    for stage in Stage::each().await {
        stage.declare(parcel(secs(60))).await;
        for key in ["p", "q"] {
            stage.lifecycles.start("parcel", key, Given::default()).await.unwrap();
        }
        let mut work = lease(&stage).await;
        assert_eq!(work.len(), 2);
        let held = work.pop().unwrap();
        let Subject::State { key, .. } = &held.subject else { panic!("{:?}", held.subject) };
        stage.lifecycles.transition("parcel", key, "sent", None).await.unwrap();
        assert!(stage.engine.complete_work(held.job, held.token, Payload::null()).await.is_err());
        assert!(stage.engine.extend_lease(held.job, held.token, secs(9)).await.is_err());
        let stale = work.pop().unwrap();
        assert!(stage.engine.complete_work(stale.job, stale.token + 1, Payload::null()).await.is_err());
        assert!(stage.engine.complete_work(987_654, 1, Payload::null()).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_no_worker_answers_in_time_is_offered_again_and_then_given_up() {
    for stage in Stage::each().await {
        stage.declare(parcel(secs(1))).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        let first = lease(&stage).await.pop().unwrap();
        // After the lease: it is the driver that ends attempts.
        let driving = stage.drive();
        let mut second = Vec::new();
        while state(&stage, "p").await != "failed" {
            second.extend(lease(&stage).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(second.iter().map(|work| work.attempt).collect::<Vec<_>>(), [2]);
        assert!(
            stage.engine.complete_work(first.job, first.token, Payload::null()).await.is_err(),
            "too late"
        );
        let failure = stage.lifecycles.get("parcel", "p").await.unwrap().instance.failure.unwrap();
        assert!(failure.message.contains("no worker answered"), "{failure:?}");
        stage.audit("parcel", "p").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_workers_all_fell_silent_is_over_long_before_its_time() {
    for stage in Stage::each().await {
        stage.declare(parcel(secs(3600))).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        for attempt in 1..=2 {
            let taken = lose_every_lease(&stage).await;
            assert!(taken.iter().all(|work| work.attempt == attempt), "{taken:?}");
        }
        // Whoever asks once the last lease has run out is told that there is nothing more.
        while state(&stage, "p").await != "failed" {
            assert!(lease(&stage).await.is_empty(), "there is no third attempt");
        }
        let failed = stage.lifecycles.get("parcel", "p").await.unwrap();
        let failure = failed.instance.failure.unwrap();
        assert_eq!((&*failed.instance.state, &*failure.kind), ("failed", "internal"));
        assert!(failure.message.contains("lease_expired: the workers that had it"), "{failure:?}");
        let log = stage.lifecycles.log(failed.id, 0, 10).await.unwrap();
        let leases = log.iter().filter(|recorded| recorded.event.name() == "action.leased").count();
        assert_eq!(leases, 2, "the time of an attempt begins once: {log:?}");
        let Event::ActionRetry { error, .. } = &log[2].event else { panic!("{log:?}") };
        assert!(error.kind.leaves_doubt() && error.code.as_deref() == Some("lease_expired"), "{error:?}");
        assert_eq!(jobs(&stage).await, vec!["Failed 5 lease_expired"; 2]);
        stage.audit("parcel", "p").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_attempt_is_given_up_together_with_its_job_or_not_at_all() {
    for stage in Stage::each().await {
        stage.declare(parcel(secs(3600))).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        let last = lose_every_lease(&stage).await.pop().unwrap();
        stage.execute("alter table saga_events rename to saga_events_away").await.unwrap();
        let drivers = ["drivers".to_owned()];
        // Until the last lease has run out there is nothing to write.
        while stage.engine.lease_work(&drivers, 1, secs(30), secs(0)).await.is_ok() {}
        assert_eq!(
            jobs(&stage).await,
            ["Leased 4 lease_expired"],
            "nothing was told, so nothing is given up"
        );
        stage.execute("alter table saga_events_away rename to saga_events").await.unwrap();

        stage.engine.extend_lease(last.job, last.token, secs(60)).await.unwrap();
        assert!(lease(&stage).await.is_empty(), "its worker was heard of after all");
        stage.engine.complete_work(last.job, last.token, Payload::null()).await.unwrap();
        assert_eq!(state(&stage, "p").await, "sent");
        stage.audit("parcel", "p").await;
    }
}

/// One whose worker comes after all has failed nothing; its neighbour, whose worker never answers, shows how much time has passed.
#[tokio::test(flavor = "multi_thread")]
async fn missing_worker_costs_an_action_no_attempt() {
    for stage in Stage::each().await {
        let timeout = Duration::from_millis(50);
        stage.declare(parcel(timeout)).await;
        let mut letter = parcel(timeout);
        letter.name = "letter".to_owned();
        letter.actions.get_mut("packed").unwrap().performer =
            Some(Performer::Worker { queue: "postmen".to_owned() });
        stage.declare(letter).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        stage.lifecycles.start("letter", "l", Given::default()).await.unwrap();
        let driving = stage.drive();
        while &*stage.lifecycles.get("letter", "l").await.unwrap().instance.state != "failed" {
            stage.engine.lease_work(&["postmen".to_owned()], 1, secs(30), secs(0)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let waiting = stage.lifecycles.get("parcel", "p").await.unwrap();
        let machine = stage.lifecycles.machines.machine("parcel", waiting.version).await.unwrap();
        let waits_for = async |standing| stage.lifecycles.waits_for_worker(standing, &machine).await.unwrap();
        assert_eq!(waits_for(&waiting).await, Some("drivers"));
        assert_eq!((waiting.instance.seq, waiting.instance.due_at), (1, None), "nothing has happened to it");
        // The driver may end an attempt that this test is slow to answer.
        driving.stop().await;
        let work = lease(&stage).await.pop().unwrap();
        assert_eq!(work.attempt, 1);
        let standing = stage.lifecycles.get("parcel", "p").await.unwrap();
        assert_eq!((standing.instance.leased, waits_for(&standing).await), (true, None));
        let leased = standing.instance;
        assert!(leased.due_at.is_some_and(|due| due > leased.entered_at.plus(timeout)), "{leased:?}");
        stage.engine.complete_work(work.job, work.token, Payload::null()).await.unwrap();
        assert_eq!(state(&stage, "p").await, "sent");
        stage.audit("parcel", "p").await;
        stage.audit("letter", "l").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_timeout_ends_an_action_that_no_worker_leases() {
    for stage in Stage::each().await {
        let mut draft = parcel(secs(3600));
        draft.actions.get_mut("packed").unwrap().queue_timeout = Some(Duration::from_millis(20));
        stage.declare(draft).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        let driving = stage.drive();
        while state(&stage, "p").await != "failed" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let failure = stage.lifecycles.get("parcel", "p").await.unwrap().instance.failure.unwrap();
        assert!(failure.message.contains("QUEUE_TIMEOUT"), "{failure:?}");
        assert!(lease(&stage).await.is_empty(), "nobody waits for it any more");
        stage.audit("parcel", "p").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_before_a_retry_is_no_wait_for_a_worker() {
    for stage in Stage::each().await {
        let mut draft = parcel(secs(3600));
        let retry = backstitch::Retry::fixed(2, secs(3600));
        draft.actions.get_mut("packed").unwrap().retry = retry;
        stage.declare(draft).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        let waits_for = async || {
            let standing = stage.lifecycles.get("parcel", "p").await.unwrap();
            let machine = stage.lifecycles.machines.machine("parcel", standing.version).await.unwrap();
            stage.lifecycles.waits_for_worker(&standing, &machine).await.unwrap().map(str::to_owned)
        };
        assert_eq!(waits_for().await.as_deref(), Some("drivers"));
        let work = lease(&stage).await.pop().unwrap();
        stage.engine.fail_work(work.job, work.token, StepError::not_done("no van")).await.unwrap();
        assert_eq!(waits_for().await, None, "there is nothing to lease for an hour");
        // The hour is over.
        stage.execute("update jobs set until = created_at where status = 'Pending'").await.unwrap();
        assert_eq!(waits_for().await.as_deref(), Some("drivers"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_of_sagas_and_lifecycles_is_reported_once() {
    for stage in Stage::each().await {
        stage.declare(parcel(secs(60))).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        let step = DraftStep {
            id: "drive".to_owned(),
            title: None,
            depends_on: None,
            action: Performer::Worker { queue: "drivers".to_owned() },
            timeout: secs(60),
            queue_timeout: None,
            retry: backstitch::Retry::none(),
            compensate: None,
            concurrency: None,
        };
        let draft = SagaDraft { steps: vec![step], ..SagaDraft::new("trip") };
        stage.engine.declare(draft).await.unwrap();
        stage.engine.apply("trip", None).await.unwrap();
        stage.engine.start("trip", &()).await.unwrap();
        while stage.texts("select queue from jobs").await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // That of the saga has waited longer.
        let earlier = match &stage.place {
            Place::Sqlite(_) => "until - 1000000",
            Place::Postgres { .. } => "until - interval '1 s'",
        };
        let age = format!("update jobs set until = {earlier} where queue = 'work/drivers'");
        stage.execute(&age).await.unwrap();
        let waiting = stage.engine.waiting_for_workers(10).await.unwrap();
        let [drivers] = &waiting[..] else { panic!("{waiting:?}") };
        assert_eq!(drivers.queue, "drivers");
        let job = stage.engine.store().job(drivers.job).await.unwrap().unwrap();
        assert_eq!(job.queue, "work/drivers", "the one that has waited longest");
    }
}

/// Rows of earlier versions, which had no `queue_timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn migration_ends_claims_on_the_wait_for_a_worker() {
    for stage in Stage::each().await {
        stage.declare(parcel(secs(3600))).await;
        for key in ["held", "moved"] {
            stage.lifecycles.start("parcel", key, Given::default()).await.unwrap();
        }
        // As the migration before left them, and one that has moved since.
        let (migrations, later, migration) = match &stage.place {
            Place::Sqlite(_) => (
                "backstitch_product_migrations",
                "updated_at + 1000000",
                include_str!("../../../migrations/sqlite/lifecycles_0006.sql"),
            ),
            Place::Postgres { .. } => (
                "product_migrations",
                "updated_at + interval '1 s'",
                include_str!("../../../migrations/postgres/lifecycles_0006.sql"),
            ),
        };
        for statement in [
            &format!(
                "update {migrations} set applied_at = (select max(updated_at) from lifecycles)
                 where product = 'lifecycles' and version = 5"
            ),
            "update lifecycles set holder = 'gone', due_at = entered_at, token = token + 1",
            &format!("update lifecycles set updated_at = {later} where key = 'moved'"),
            migration,
        ] {
            stage.execute(statement).await.unwrap();
        }
        let held = stage.lifecycles.get("parcel", "held").await.unwrap();
        assert_eq!((held.holder(), held.instance.due_at, held.instance.token), (None, None, 2));
        let moved = stage.lifecycles.get("parcel", "moved").await.unwrap();
        assert_eq!((moved.holder(), moved.instance.due_at.is_some()), (Some("gone"), true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_does_not_time_out_before_every_node_has_written() {
    let stage = Stage::postgres().await;
    stage.declare(parcel(Duration::from_millis(100))).await;
    stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
    let work = lease(&stage).await.pop().unwrap();
    // Another node may have an answer that arrived in time.
    let other =
        "insert into nodes (name, lease_ms, answers_written_until) values ('other', 3600000, clock())";
    stage.execute(other).await.unwrap();
    let driving = stage.drive();
    let held = "select key from lifecycles where holder is not null";
    while stage.texts(held).await.is_empty() {}
    let answered = stage.engine.complete_work(work.job, work.token, Payload::null()).await.unwrap();
    assert_eq!((answered, &*state(&stage, "p").await), (Answered::Now, "sent"));
    let written = "update nodes set answers_written_until = clock() + interval '1 hour' where name = 'other'";
    stage.execute(written).await.unwrap();
    driving.stop().await;
    assert_eq!(state(&stage, "p").await, "sent");
}
