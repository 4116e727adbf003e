//! Long waits: a saga with nothing to do for long takes no room in the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::store::{Error, Release, Store};
use backstitch::{Engine, Event, Retry, Saga, SagaId, Status, StepError, secs};
use tokio::time::Instant;

use crate::runtime::support::*;

fn waiting_for_an_hour(trace: &Trace) -> Saga {
    let answer = |attempt| if attempt == 1 { Err(StepError::not_done("closed")) } else { Ok(()) };
    let step = acting("b", trace, answer).retry(Retry::fixed(1, secs(3600)));
    Saga::builder("s").step(noting("a", trace)).step(step).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn saga_that_waits_long_is_released_and_woken_in_time() {
    let trace = Trace::default();
    let engine = engine_with(waiting_for_an_hour(&trace)).await;
    let begun = Instant::now();
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(engine.active(), 0);
    let state = engine.load(run.id()).await.unwrap().unwrap();
    assert_eq!(state.status, Status::Running);
    assert!(run.outcome().await.unwrap().succeeded());
    let took = begun.elapsed().as_secs();
    assert!((3600..3602).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn waiting_sagas_take_no_room_from_others() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let engine = bench.open_with(waiting_for_an_hour(&trace)).await;
    let begun = Instant::now();
    let runs: Vec<_> = futures::future::join_all((0..10).map(|_| start(&engine, "s"))).await;
    for run in runs {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    assert!(begun.elapsed().as_secs() < 3610);
}

#[tokio::test(start_paused = true)]
async fn request_wakes_a_released_saga() {
    let trace = Trace::default();
    let engine = engine_with(waiting_for_an_hour(&trace)).await;
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(60)).await;
    let begun = Instant::now();
    engine.cancel(run.id(), "no").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
    assert!(begun.elapsed().as_secs() < 2);
}

#[tokio::test(start_paused = true)]
async fn saga_woken_for_nothing_is_released_again() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let engine = bench.open_with(waiting_for_an_hour(&trace)).await;
    engine.register(Saga::builder("other").step(noting("c", &trace)).build().unwrap()).unwrap();
    let begun = Instant::now();
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(60)).await;
    for _ in 0..3 {
        engine.resume(run.id(), "it is not paused").await.unwrap();
        tokio::time::sleep(secs(5)).await;
        assert_eq!(engine.active(), 0, "it is let go again");
    }
    assert!(execute(&engine, "other").await.succeeded());
    assert!(begun.elapsed().as_secs() < 100);
    assert!(run.clone().outcome().await.unwrap().succeeded());
    let took = begun.elapsed().as_secs();
    assert!((3600..3602).contains(&took), "{took}");
    assert!(!names(&log(&run).await).contains(&"saga.adopted"), "the node released it itself");
}

/// What becomes of the first try to let go of a saga. In any case nobody hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstTry {
    NotDone,
    Done,
    /// It is on its way for so long that the second one finds it done.
    DoneLater,
}

struct Unanswered {
    first: FirstTry,
    tries: AtomicU32,
    store: Arc<dyn Store>,
}

impl Unanswered {
    async fn release(&self, saga: SagaId) {
        let stored = self.store.load(&[saga]).await.unwrap().remove(0);
        let retry_at = stored.log.iter().find_map(|recorded| match &recorded.event {
            Event::StepRetry { retry_at, .. } => Some(*retry_at),
            _ => None,
        });
        let release = Release {
            saga,
            epoch: stored.summary.owner.unwrap(),
            seq: stored.log.len() as u64,
            inbox_seen: stored.inbox_seq,
            wake_at: retry_at,
        };
        assert!(self.store.release(release).await.unwrap());
    }
}

#[async_trait]
impl Watch for Unanswered {
    async fn at(&self, moment: Moment<'_>) -> Result<(), Error> {
        let unanswered = Err(Error::Unavailable("the answer was lost".to_owned()));
        match moment {
            Moment::BeforeRelease(saga) => match (self.tries.fetch_add(1, Ordering::SeqCst), self.first) {
                (0, FirstTry::NotDone | FirstTry::DoneLater) => unanswered,
                (1, FirstTry::DoneLater) => {
                    self.release(saga).await;
                    Ok(())
                }
                _ => Ok(()),
            },
            Moment::AfterRelease(_) if self.tries.load(Ordering::SeqCst) == 1 => unanswered,
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn saga_is_released_once_if_the_answer_is_lost() {
    for first in [FirstTry::NotDone, FirstTry::Done, FirstTry::DoneLater] {
        let (trace, bench) = (Trace::default(), Bench::new());
        let watch = Unanswered { first, tries: 0.into(), store: bench.store.clone() };
        let store = Arc::new(Watched::new(bench.store.clone(), watch));
        let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
        engine.register(waiting_for_an_hour(&trace)).unwrap();
        let run = start(&engine, "s").await;
        tokio::time::sleep(secs(60)).await;
        engine.resume(run.id(), "it is not paused").await.unwrap();
        tokio::time::sleep(secs(60)).await;
        assert_eq!(engine.active(), 0, "{first:?}: an executor of a released saga is left");
        let row = bench.store.load(&[run.id()]).await.unwrap().remove(0).summary;
        assert!(row.owner.is_none() && row.wake_at.is_some(), "{first:?}: {row:?}");
        assert!(run.clone().outcome().await.unwrap().succeeded());
        assert_eq!(trace.count("do b"), 2, "{first:?}");
        assert!(!names(&log(&run).await).contains(&"saga.adopted"), "{first:?}: the node released it itself");
    }
}

#[tokio::test(start_paused = true)]
async fn paused_saga_is_released_and_resumed() {
    let trace = Trace::default();
    let engine = engine_with(waiting_for_an_hour(&trace)).await;
    let run = start(&engine, "s").await;
    wait_for(&run, |event| event.name() == "step.retry").await;
    engine.pause(run.id(), "wait").await.unwrap();
    tokio::time::sleep(secs(7200)).await;
    assert_eq!(engine.active(), 0);
    assert_eq!(trace.count("do b"), 1);
    let begun = Instant::now();
    engine.resume(run.id(), "go").await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
    assert!(begun.elapsed().as_secs() < 2);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_is_not_called_stuck() {
    let trace = Trace::default();
    let engine = engine_with(waiting_for_an_hour(&trace)).await;
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(1800)).await;
    assert!(engine.health(backstitch::STUCK_AFTER).await.unwrap().stuck.is_empty());
    assert!(run.outcome().await.unwrap().succeeded());
}
