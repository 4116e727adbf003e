//! Answers of outside workers that are on disk in time and looked at when it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use backstitch::inbox::{Answer, Message};
use backstitch::jobs::{JobOutcome, JobResult, Settlement};
use backstitch::kernel::saga::draft::DraftStep;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Answered, Engine, Payload, Retry, Subject, Work, secs};
use tokio::time::Instant;

use crate::runtime::support::*;
use crate::runtime::workers::{lease, take};

/// Takes a worker's answer past the engine, as another node does whose word has not arrived yet.
async fn answer_unheard(bench: &Bench, work: &Work) {
    let answer = Answer::Succeeded(Payload::encode("built").unwrap().as_str().to_owned());
    let Subject::Step { step, phase, .. } = work.subject.clone() else { panic!("a saga's work is a step's") };
    let attempt = work.attempt;
    let message = Message::Answered { step, phase, attempt, answer };
    let result = JobResult::Message { message, at: bench.options.clock.now() };
    let settlement = Settlement { id: work.job, token: work.token, outcome: JobOutcome::Completed, result };
    bench.store.settle_jobs(&[settlement]).await.unwrap().remove(0).unwrap();
}

/// Nobody looks for messages by themselves.
fn unaware() -> Bench {
    let mut bench = Calls::good().bench();
    bench.options.tick = secs(600);
    bench
}

async fn open(bench: &Bench, steps: impl IntoIterator<Item = DraftStep>) -> Engine {
    let engine = bench.open().await;
    put(&engine, written("job", steps)).await;
    engine
}

#[tokio::test(start_paused = true)]
async fn an_answer_on_disk_counts_though_its_time_is_over_before_anybody_heard_of_it() {
    for retries in [0, 1] {
        let bench = unaware();
        let retry = Retry::fixed(retries, secs(5));
        let engine = open(&bench, [DraftStep { timeout: secs(20), retry, ..working("build") }]).await;
        let begun = Instant::now();
        let run = start(&engine, "job").await;
        let work = take(&engine).await;
        tokio::time::sleep(secs(10)).await;
        answer_unheard(&bench, &work).await;
        let ended = run.outcome().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 20, "nobody heard of it before");
        assert_eq!((ended.succeeded(), ended.step("build").unwrap().attempts), (true, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_though_another_message_is_answered_before_it_and_its_time_is_over() {
    let bench = Calls::good().bench();
    let steps = || [DraftStep { timeout: secs(20), ..working("build") }, calling("ship")];
    let engine = open(&bench, steps()).await;
    let id = start(&engine, "job").await.id();
    let work = take(&engine).await;
    drop(engine);
    for message in [Message::Pause { note: "wait".to_owned() }, Message::Resume { note: "go on".to_owned() }]
    {
        bench.store.post(id, &message, bench.options.clock.now()).await.unwrap();
    }
    answer_unheard(&bench, &work).await;
    tokio::time::sleep(secs(40)).await;
    let engine = bench.open().await;
    eventually("it is known again", async || engine.load(id).await.unwrap().is_some()).await;
    let ended = engine.find(id).await.unwrap().outcome().await.unwrap();
    assert_eq!((ended.succeeded(), ended.step("build").unwrap().attempts), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn the_last_answers_count_though_the_saga_s_deadline_is_over_before_anybody_heard_of_them() {
    let bench = unaware();
    let beside = DraftStep { depends_on: Some(Vec::new()), ..working("test") };
    let engine = open(&bench, [working("build"), beside]).await;
    let begun = Instant::now();
    let run = engine.start("job", &()).deadline_in(secs(20)).await.unwrap();
    eventually("both are offered", async || begun.elapsed() >= secs(1)).await;
    let both = lease(&engine).await;
    assert_eq!(both.len(), 2);
    eventually("the saga has heard of both leases", async || {
        let log = bench.store.log(run.id(), 0, 100).await.unwrap();
        names(&log).iter().filter(|name| **name == "step.leased").count() == 2
    })
    .await;
    for work in &both {
        answer_unheard(&bench, work).await;
    }
    assert!(run.outcome().await.unwrap().succeeded());
    assert_eq!(begun.elapsed().as_secs(), 20);
}

/// Holds an answer up between the look whether anybody waits for it and its writing, for longer than anybody does.
#[derive(Default)]
struct Overtaken {
    is_armed: AtomicBool,
    was_looked_for: AtomicBool,
}

#[async_trait]
impl Watch for Overtaken {
    async fn at(&self, moment: Moment<'_>) -> Result<(), backstitch::store::Error> {
        match moment {
            Moment::BeforeLoad(_) if self.is_armed.swap(false, Ordering::SeqCst) => {
                self.was_looked_for.store(true, Ordering::SeqCst);
            }
            Moment::Before if self.was_looked_for.swap(false, Ordering::SeqCst) => {
                tokio::time::sleep(secs(30)).await;
            }
            _ => {}
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn answer_that_is_being_written_is_not_overtaken_by_a_timeout() {
    for retries in [0, 1] {
        let bench = Calls::good().bench();
        let store = Arc::new(Watched::new(bench.store.clone(), Overtaken::default()));
        let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
        let retry = Retry::fixed(retries, secs(600));
        let step = DraftStep { timeout: secs(20), queue_timeout: Some(secs(20)), retry, ..working("build") };
        put(&engine, written("job", [step])).await;
        let run = start(&engine, "job").await;
        let work = take(&engine).await;
        wait_for(&run, |event| event.name() == "step.leased").await;
        store.is_armed.store(true, Ordering::SeqCst);
        for expected in [Answered::Now, Answered::Before] {
            let result = Payload::encode("built").unwrap();
            let answered = engine.complete_work(work.job, work.token, result).await;
            assert_eq!(answered.unwrap(), expected);
        }
        let log = log(&run).await;
        assert!(names(&log).contains(&"step.succeeded"), "{log:?}");
    }
}
