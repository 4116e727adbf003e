//! Sagas that are written down: declared, staged, applied, and run by whoever makes their calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use backstitch::kernel::saga::draft::{Draft, DraftStep, Performer};
use backstitch::store::InFlight;
use backstitch::store::Store;
use backstitch::store::documents::{Becomes, DocumentVersion, SAGA};
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Declaring, Engine, Error, Payload, Saga, Status, StepError, secs};
use serde_json::json;
use tokio::sync::Notify;

use crate::runtime::support::*;

fn trip() -> Draft {
    written("trip", [calling("flight"), calling("hotel")])
}

/// The same with another step.
fn longer_trip() -> Draft {
    written("trip", [calling("flight"), calling("hotel"), calling("car")])
}

/// Why no trip can be started.
async fn refusal(engine: &Engine) -> Error {
    engine.start("trip", &()).await.map(|_| ()).unwrap_err()
}

/// What is active and what is staged.
async fn standing(engine: &Engine) -> (Option<u32>, Option<u32>) {
    let declared = engine.declared("trip").await.unwrap().unwrap();
    (declared.active, declared.staged)
}

#[tokio::test(start_paused = true)]
async fn a_declared_saga_is_run_by_calls_that_know_all_there_is_to_know() {
    let calls = Calls::good();
    let engine = calls.bench().open().await;
    assert_eq!(put(&engine, trip()).await, 1);
    let run = engine.start("trip", &json!({"to": "Rome"})).await.unwrap();
    let id = run.id().to_string();
    let ended = run.outcome().await.unwrap();
    assert!(ended.succeeded());
    assert_eq!((&*ended.definition, ended.version), ("trip", 1));
    assert_eq!(calls.trace.said(), ["do flight", "do hotel"]);
    let input = json!({"to": "Rome"});
    let expected = [
        json!({"saga_id": id, "step": "flight", "phase": "do", "attempt": 1, "input": input, "results": {}}),
        json!({"saga_id": id, "step": "hotel", "phase": "do", "attempt": 1, "input": input,
            "results": {"flight": "do flight done"}}),
    ];
    assert_eq!(*calls.bodies.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_undo_gets_the_steps_own_result_and_the_error_that_caused_the_rollback() {
    let calls = Calls::answering(|call, _| match call {
        "do hotel" => Err(StepError::in_doubt("line \"dead\"").with_code("GONE")),
        call => Ok(json!(format!("{call} done"))),
    });
    let engine = calls.bench().open().await;
    put(&engine, trip()).await;
    let run = engine.start("trip", &7).await.unwrap();
    let id = run.id().to_string();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
    assert_eq!(calls.trace.said(), ["do flight", "do hotel", "undo hotel", "undo flight"]);
    let error = json!({"kind": "in_doubt", "code": "GONE", "message": "line \"dead\""});
    let results = json!({"flight": "do flight done"});
    let undo = |step: &str, result: serde_json::Value| {
        json!({"saga_id": id, "step": step, "phase": "undo", "attempt": 1, "input": 7, "results": results,
            "result": result, "error": error})
    };
    let expected = [undo("hotel", json!(null)), undo("flight", json!("do flight done"))];
    assert_eq!(calls.bodies.lock().unwrap()[2..], expected, "what is in doubt has no result");
}

#[tokio::test(start_paused = true)]
async fn retries_are_for_the_definition_to_say() {
    let calls = Calls::answering(|_, attempt| match attempt {
        1 => Err(StepError::not_done("busy")),
        _ => Ok(json!(null)),
    });
    let engine = calls.bench().open().await;
    let retrying = DraftStep { retry: backstitch::Retry::fixed(1, secs(5)), ..calling("flight") };
    put(&engine, written("trip", [retrying])).await;
    assert!(execute(&engine, "trip").await.succeeded());
    let attempts: Vec<_> = calls.bodies.lock().unwrap().iter().map(|body| body["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn declarations_and_their_sagas_outlive_the_process() {
    let calls = Calls::good();
    let bench = calls.bench();
    let engine = bench.open().await;
    put(&engine, written("trip", [calling("flight"), calling("hangs")])).await;
    engine.declare(trip()).await.unwrap();
    let run = start(&engine, "trip").await;
    eventually("the step is called", async || calls.trace.count("do hangs") == 1).await;
    drop(engine);
    let engine = bench.open().await;
    eventually("the step is called again", async || calls.trace.count("do hangs") == 2).await;
    assert_eq!(standing(&engine).await, (Some(1), Some(2)));
    assert_eq!(engine.draft("trip", Some(2)).await.unwrap(), Some(Draft { version: 2, ..trip() }));
    engine.apply("trip", None).await.unwrap();
    assert!(execute(&engine, "trip").await.succeeded());
    assert_eq!(engine.load(run.id()).await.unwrap().unwrap().version, 1);
}

#[tokio::test(start_paused = true)]
async fn sagas_under_way_keep_their_version() {
    let calls = Calls::good();
    let bench = calls.bench();
    let engine = bench.open().await;
    put(&engine, written("trip", [working("flight"), calling("hotel")])).await;
    let first = start(&engine, "trip").await;
    engine.declare(longer_trip()).await.unwrap();
    let still = start(&engine, "trip").await;
    let applied = engine.apply("trip", None).await.unwrap();
    assert_eq!((applied.version, applied.in_flight), (2, vec![InFlight { version: 1, sagas: 2 }]));
    assert_eq!(execute(&engine, "trip").await.version, 2);
    assert_eq!(engine.in_flight("trip").await.unwrap(), [InFlight { version: 1, sagas: 2 }]);
    drop(engine);
    let engine = bench.open().await;
    for run in [first, still] {
        let work = engine.lease_work(&["builders".to_owned()], 1, secs(60), secs(0)).await.unwrap();
        engine.complete_work(work[0].job, work[0].token, Payload::null()).await.unwrap();
        let ended = engine.find(run.id()).await.unwrap().outcome().await.unwrap();
        assert_eq!((ended.version, ended.succeeded(), ended.steps.len()), (1, true, 2));
    }
    assert_eq!(engine.in_flight("trip").await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_name_without_an_active_version_cannot_be_started() {
    let engine = Calls::good().bench().open().await;
    let unknown = refusal(&engine).await;
    assert!(matches!(&unknown, Error::UnknownDefinition(name) if name == "trip"), "{unknown}");
    engine.declare(trip()).await.unwrap();
    let refused = refusal(&engine).await;
    assert_eq!(
        refused.to_string(),
        "`trip` is declared, but no version of it is active: apply the staged one first"
    );
    engine.discard("trip", None).await.unwrap();
    assert!(matches!(engine.start("trip", &()).await, Err(Error::NothingActive(_))));
    assert_eq!(put(&engine, trip()).await, 2);
    assert!(execute(&engine, "trip").await.succeeded());
}

#[tokio::test(start_paused = true)]
async fn declaring_the_same_again_changes_nothing() {
    let engine = Calls::good().bench().open().await;
    assert_eq!(engine.declare(trip()).await.unwrap(), declaring(1, true, false));
    assert_eq!(engine.declare(trip()).await.unwrap(), declaring(1, false, false));
    engine.apply("trip", None).await.unwrap();
    let whatever = Draft { version: 77, ..trip() };
    assert_eq!(engine.declare(whatever).await.unwrap(), declaring(1, false, true), "numbers are given here");
    assert_eq!(standing(&engine).await, (Some(1), None));
    assert_eq!(engine.declare(longer_trip()).await.unwrap(), declaring(2, true, false));
    let back = engine.declare(trip()).await.unwrap();
    assert_eq!(back, declaring(3, true, false), "it is to replace what is staged");
    assert_eq!(standing(&engine).await, (Some(1), Some(3)));
}

#[tokio::test(start_paused = true)]
async fn what_is_declared_to_be_applied_is_taken_at_once() {
    let engine = Calls::good().bench().open().await;
    assert_eq!(engine.declare_and_apply(trip()).await.unwrap(), declaring(1, true, true));
    assert_eq!(execute(&engine, "trip").await.version, 1);
    assert_eq!(engine.declare_and_apply(trip()).await.unwrap(), declaring(1, false, true), "the same again");
    engine.declare(longer_trip()).await.unwrap();
    assert_eq!(
        engine.declare_and_apply(longer_trip()).await.unwrap(),
        declaring(2, false, true),
        "it waited"
    );
    assert_eq!(execute(&engine, "trip").await.steps.len(), 3);
    engine.declare(trip()).await.unwrap();
    let other = written("trip", [calling("train")]);
    assert_eq!(engine.declare_and_apply(other).await.unwrap(), declaring(4, true, true));
    assert_eq!(standing(&engine).await, (Some(4), None), "what was staged is replaced");
}

#[tokio::test(start_paused = true)]
async fn what_is_staged_is_replaced_applied_or_discarded() {
    let engine = Calls::good().bench().open().await;
    for nothing in
        [engine.apply("trip", None).await.map(|_| ()), engine.discard("trip", None).await.map(|_| ())]
    {
        let refused = nothing.unwrap_err().to_string();
        assert_eq!(refused, "nothing is staged under `trip`: declare a version first");
    }
    engine.declare(trip()).await.unwrap();
    engine.declare(longer_trip()).await.unwrap();
    assert_eq!(standing(&engine).await, (None, Some(2)));
    assert_eq!(engine.apply("trip", None).await.unwrap().version, 2);
    assert_eq!(execute(&engine, "trip").await.steps.len(), 3);
    engine.declare(trip()).await.unwrap();
    assert_eq!(engine.discard("trip", None).await.unwrap(), 3);
    assert!(matches!(engine.apply("trip", None).await, Err(Error::NothingStaged(_))));
    assert_eq!(execute(&engine, "trip").await.version, 2);
    let all = engine.declarations().await.unwrap();
    let versions: Vec<u32> = all[0].versions.iter().map(|version| version.number).collect();
    assert_eq!((all.len(), versions), (1, vec![1, 2, 3]));
}

#[tokio::test(start_paused = true)]
async fn a_declaration_tells_all_its_mistakes_and_is_not_kept() {
    let engine = Calls::good().bench().open().await;
    let mut draft = trip();
    draft.steps[0].action = Performer::Code;
    draft.steps[0].compensate = Some(backstitch::kernel::saga::draft::DraftCompensation::default());
    draft.steps[1].action = Performer::Worker { queue: "a b".to_owned() };
    let Err(Error::Definition(problems)) = engine.declare(draft).await else { panic!("it has mistakes") };
    let places: Vec<&str> = problems.0.iter().map(|problem| problem.place.as_str()).collect();
    assert_eq!(places, ["steps[0].action", "steps[0].compensate", "steps[1].action.worker.queue"]);
    assert!(engine.declared("trip").await.unwrap().is_none());
}

fn declaring(version: u32, is_new: bool, is_active: bool) -> Declaring {
    Declaring { version, is_new, is_active }
}

fn in_code(trace: &Trace) -> Saga {
    Saga::builder("trip").step(noting("walk", trace)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_name_that_belongs_to_code_is_not_declared() {
    let trace = Trace::default();
    let bench = Calls::good().bench();
    let engine = bench.open_with(in_code(&trace)).await;
    let taken = |refused: Result<Declaring, Error>| matches!(refused, Err(Error::DefinedInCode(name)) if name == "trip");
    assert!(taken(engine.declare(trip()).await), "not even before it is kept");
    assert!(execute(&engine, "trip").await.succeeded());
    drop(engine);
    let engine = bench.open().await;
    assert!(taken(engine.declare(trip()).await), "nor where the program is not at hand");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_declared_is_not_taken_by_code() {
    let (trace, calls) = (Trace::default(), Calls::good());
    let bench = calls.bench();
    put(&bench.open().await, trip()).await;
    let without_calls = Bench { options: Bench::new().options, store: bench.store.clone() };
    let saga = Saga::builder("trip").version(9).step(noting("walk", &trace)).build().unwrap();
    let engine = without_calls.open_with(saga).await;
    let refused = refusal(&engine).await;
    assert!(matches!(&refused, Error::DeclaredElsewhere(name) if name == "trip"), "{refused}");
    drop(engine);
    let engine = bench.open().await;
    assert!(execute(&engine, "trip").await.succeeded());
    assert_eq!(trace.said(), [""; 0]);
    assert_eq!(put(&engine, longer_trip()).await, 2, "and no version of it was kept");
}

#[tokio::test(start_paused = true)]
async fn whoever_means_one_version_applies_that_one_or_hears_why_not() {
    let engine = Calls::good().bench().open().await;
    let mine = engine.declare(trip()).await.unwrap().version;
    let theirs = engine.declare(longer_trip()).await.unwrap().version;
    let refused = engine.apply("trip", Some(mine)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "version 1 of `trip` is not staged any more, but version 2 is: nothing was done; look at what is staged and \
         active, and decide anew"
    );
    let refused = engine.discard("trip", Some(mine)).await.unwrap_err();
    assert!(matches!(refused, Error::NotStaged { version: 1, staged: Some(2), .. }), "{refused}");
    assert_eq!(standing(&engine).await, (None, Some(theirs)), "the other one waits as it did");
    assert_eq!(engine.apply("trip", Some(theirs)).await.unwrap().version, theirs);
    let again = engine.apply("trip", Some(theirs)).await.unwrap();
    assert_eq!(again.version, theirs, "whoever comes second has what they wanted");
    let refused = engine.apply("trip", Some(mine)).await.unwrap_err();
    assert!(matches!(refused, Error::NotStaged { version: 1, staged: None, .. }), "{refused}");
    assert!(refused.to_string().contains("and nothing is"), "{refused}");
    engine.declare(trip()).await.unwrap();
    assert_eq!(engine.discard("trip", Some(3)).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_makes_no_calls_leaves_declared_sagas_alone() {
    let calls = Calls::good();
    let bench = calls.bench();
    let engine = bench.open().await;
    put(&engine, written("trip", [calling("hangs"), calling("hotel")])).await;
    let run = start(&engine, "trip").await;
    eventually("the step is called", async || calls.trace.count("do hangs") == 1).await;
    drop(engine);
    let without_calls = Bench { options: Bench::new().options, store: bench.store.clone() };
    let engine = without_calls.open().await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!((engine.active(), calls.trace.count("do hangs")), (0, 1));
    let waiting = engine.health(backstitch::STUCK_AFTER).await.unwrap().unregistered;
    assert_eq!((&*waiting[0].definition, waiting[0].sagas), ("trip", 1));
    assert_eq!(engine.load(run.id()).await.unwrap().unwrap().status, Status::Running, "it can be read");
    for refused in [
        engine.start("trip", &()).await.map(|_| ()).unwrap_err(),
        engine.declare(trip()).await.map(|_| ()).unwrap_err(),
        engine.apply("trip", None).await.map(|_| ()).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("Options::caller"), "{refused}");
    }
    drop(engine);
    let engine = bench.open().await;
    eventually("the step is called again", async || calls.trace.count("do hangs") == 2).await;
    assert_eq!(engine.active(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_run_keeps_no_other_from_it() {
    let bench = Calls::good().bench();
    put(&bench.open().await, trip()).await;
    // As a newer release may have written it, and as only code can perform it.
    for (name, body) in
        [("alien", json!({"thoughts": []})), ("bespoke", json!({"name": "bespoke", "steps": [{"id": "a"}]}))]
    {
        let body = Payload::encode(&body).unwrap();
        let odd = DocumentVersion { name: name.into(), version: 1, fingerprint: Some(7), body };
        assert!(bench.store.add_version(SAGA, &odd.into(), Becomes::Staged).await.unwrap());
        bench.store.apply_staged(SAGA, name, None).await.unwrap();
    }
    let engine = bench.open().await;
    assert!(execute(&engine, "trip").await.succeeded());
    for odd in ["alien", "bespoke"] {
        assert!(engine.start(odd, &()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn several_may_declare_at_once_and_each_gets_a_version_of_its_own() {
    let engine = Calls::good().bench().open().await;
    let drafts = ["a", "b", "c", "d"].map(|id| written("trip", [calling(id)]));
    let declared = futures::future::join_all(drafts.map(|draft| engine.declare(draft))).await;
    let mut versions: Vec<u32> = declared.into_iter().map(|declared| declared.unwrap().version).collect();
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3, 4]);
    assert_eq!(standing(&engine).await, (None, Some(4)));
}

/// Holds up whoever asks the store for something once a version was applied.
#[derive(Clone, Default)]
struct HeldUp(Arc<Holding>);

#[derive(Default)]
struct Holding {
    armed: AtomicBool,
    applied: AtomicBool,
    reached: Notify,
    go_on: Notify,
}

#[async_trait]
impl Watch for HeldUp {
    async fn at(&self, moment: Moment<'_>) -> Result<(), backstitch::store::Error> {
        let Self(holding) = self;
        match moment {
            Moment::BeforeApplying(_) if holding.armed.load(Ordering::SeqCst) => {
                holding.applied.store(true, Ordering::SeqCst);
            }
            Moment::Before if holding.applied.swap(false, Ordering::SeqCst) => {
                holding.reached.notify_one();
                holding.go_on.notified().await;
            }
            _ => {}
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_is_taken_up_though_whoever_applied_it_went_away() {
    let (calls, held_up) = (Calls::good(), HeldUp::default());
    let bench = calls.bench();
    let store = Arc::new(Watched::new(bench.store.clone(), held_up.clone()));
    let engine = Engine::on_store(store, bench.options.clone()).await.unwrap();
    put(&engine, trip()).await;
    engine.declare(longer_trip()).await.unwrap();
    held_up.0.armed.store(true, Ordering::SeqCst);
    let applying = tokio::spawn({
        let engine = engine.clone();
        async move { engine.apply("trip", Some(2)).await }
    });
    held_up.0.reached.notified().await;
    applying.abort();
    assert!(applying.await.unwrap_err().is_cancelled());
    held_up.0.go_on.notify_one();
    let version = async || engine.start("trip", &()).await.unwrap().accepted().unwrap().version;
    eventually("new sagas take it", async || version().await == 2).await;
}

/// Stages another version whenever somebody is about to make theirs the active one, so many times.
#[derive(Clone)]
struct Meddler {
    store: Arc<dyn Store>,
    left: Arc<AtomicUsize>,
}

#[async_trait]
impl Watch for Meddler {
    async fn at(&self, moment: Moment<'_>) -> Result<(), backstitch::store::Error> {
        let Moment::BeforeApplying(name) = moment else { return Ok(()) };
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            let newest =
                self.store.document_version(SAGA, name, None).await?.map_or(0, |newest| newest.version);
            let draft = Draft { version: newest + 1, ..written(name, [calling("meddled")]) };
            let body = Payload::encode(&draft).unwrap();
            let other =
                DocumentVersion { name: name.into(), version: draft.version, fingerprint: Some(0), body };
            assert!(self.store.add_version(SAGA, &other.into(), Becomes::Staged).await?);
        }
        Ok(())
    }
}

/// An engine beside which somebody stages other versions, so many times.
async fn meddled_with(times: usize) -> Engine {
    let bench = Calls::good().bench();
    let meddler = Meddler { store: bench.store.clone(), left: Arc::new(AtomicUsize::new(times)) };
    let store = Arc::new(Watched::new(bench.store.clone(), meddler));
    Engine::on_store(store, bench.options.clone()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn whoever_declares_and_applies_while_another_one_stages_is_taken_after_them() {
    let engine = meddled_with(1).await;
    assert_eq!(engine.declare_and_apply(trip()).await.unwrap(), declaring(2, true, true));
    assert_eq!(standing(&engine).await, (Some(2), None));
    assert_eq!(execute(&engine, "trip").await.version, 2);
}

#[tokio::test(start_paused = true)]
async fn whoever_may_not_declare_and_apply_leaves_nothing_behind() {
    let engine = meddled_with(usize::MAX).await;
    let refused = engine.declare_and_apply(trip()).await.unwrap_err();
    assert!(matches!(&refused, Error::DeclaredAtOnce(name) if name == "trip"), "{refused}");
    let declared = engine.declared("trip").await.unwrap().unwrap();
    assert_eq!((declared.active, declared.staged), (None, declared.versions.last().map(|it| it.number)));
    for version in declared.versions {
        let kept = engine.draft("trip", Some(version.number)).await.unwrap().unwrap();
        assert_eq!(kept.steps[0].id, "meddled", "version {} is not the other one's", version.number);
    }
}
