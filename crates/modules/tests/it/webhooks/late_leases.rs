//! A lease whose answer comes so late that a request could outlive it is used by nobody.

use std::sync::Arc;
use std::time::Duration;

use backstitch::delivery::limiter::{Limiter, LimiterSettings};
use backstitch::kernel::delivery::Status;
use backstitch::{Desk as _, secs};
use backstitch_modules::webhooks::{Counter, Nobody, QUEUE};
use backstitch_testkit::service::{Reply, Service};
use tokio_postgres::Client;

use crate::webhooks::delivery_workers::{subscribe, until, work};
use crate::webhooks::stage::{Place, Stage, session};

/// Long enough that what is left of a lease is shorter than the request may take, and not so long that nobody waits any more.
const LATE: Duration = Duration::from_secs(12);
/// Looks after which no more connections are expected.
const SETTLED: u32 = 40;

/// Keeps leases from being answered. Only what is to be sent is read from this table.
async fn hold_up_leases(stage: &Stage) -> Client {
    let Place::Postgres { address, .. } = &stage.place else { panic!("only a server can be held up") };
    let holding = session(address).await;
    holding.batch_execute("begin; lock table webhook_events in access exclusive mode").await.unwrap();
    holding
}

/// Once somebody waits for a lease, time passes and it is answered.
async fn answer_late(stage: &Stage, holding: Client) {
    let waiting = "select count(*) from pg_locks where not granted and relation = 'webhook_events'::regclass";
    // A connection that is still being made when time passes would time out, and the lease with it.
    let sessions = "select count(*) from pg_stat_activity where datname = current_database()";
    let (mut known, mut unchanged) = (0, 0);
    while stage.number(waiting).await == 0 || unchanged < SETTLED {
        let open = stage.number(sessions).await;
        unchanged = if open == known { unchanged + 1 } else { 0 };
        known = open;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::pause();
    tokio::time::advance(LATE).await;
    tokio::time::resume();
    holding.batch_execute("rollback").await.unwrap();
}

async fn one_waits(stage: &Stage) -> i64 {
    let event = stage.tell("o-1").await.event;
    stage.decide().await;
    event
}

// On one thread, since only there time can be moved.
#[tokio::test]
async fn nothing_is_sent_on_a_lease_that_was_answered_too_late() {
    let stage = Stage::postgres().await;
    let service = Service::always(|| Reply::http(204, "")).await;
    subscribe(&stage, service.url(), |_| ()).await;
    let event = one_waits(&stage).await;
    let holding = hold_up_leases(&stage).await;
    let _working = work(&stage, stage.dispatch());
    answer_late(&stage, holding).await;
    let saga = until(&stage, event, Status::Completed).await;
    assert_eq!((saga.attempt_count, service.heard().len()), (1, 1));
    assert_eq!(stage.number("select token from jobs").await, 2, "it was sent on the second lease alone");
    assert_eq!(stage.number("select expiries::bigint from jobs").await, 0, "the first one was given back");
}

#[tokio::test]
async fn a_worker_is_promised_no_lease_that_was_answered_too_late() {
    let stage = Stage::postgres().await;
    stage.subscribe(&["*"], 8).await;
    one_waits(&stage).await;
    let limiter = Limiter::new(LimiterSettings::default());
    let (dispatch, subscriptions) =
        (stage.dispatch_within(limiter.clone()), stage.webhooks.subscriptions.clone());
    let counter = Counter::of(dispatch, subscriptions, Arc::new(Nobody));
    let (all, holding) = (limiter.free(), hold_up_leases(&stage).await);
    let (late, ()) = tokio::join!(counter.lease(&[QUEUE], 10, secs(1)), answer_late(&stage, holding));
    assert!(late.unwrap().is_empty());
    assert_eq!(limiter.free(), all, "it holds no place");
    let work = counter.lease(&[QUEUE], 10, secs(1)).await.unwrap();
    assert_eq!(work.iter().map(|work| work.token).collect::<Vec<_>>(), [2]);
    assert_eq!(stage.number("select expiries::bigint from jobs").await, 0, "the first one was given back");
}
