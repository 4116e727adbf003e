//! The checks detect each bug that a failpoint enables in the engine or the kernel, and pass without it.
//!
//! A failpoint is enabled for the whole process, so these tests run one at a time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::{Clock as _, SystemClock};
use backstitch::failpoints::{self, Bug};
use backstitch::inbox::Message;
use backstitch::store::Store;
use backstitch::store::sqlite::SqliteStore;
use backstitch::{Engine, Status};
use backstitch_testkit::chaos::check::{Acknowledged, Report, Terms, check};
use backstitch_testkit::chaos::faulty::{Fault, Faulty};
use backstitch_testkit::chaos::load::{self, Request};
use backstitch_testkit::chaos::sagas::NAMES;
use tokio::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const LEASE: Duration = Duration::from_millis(100);
/// A lost saga makes every check wait this long, so it is shorter than usual.
const TERMS: Terms = Terms { lease: LEASE, patience: Duration::from_secs(5) };
/// Two of each kind; one is rolled back if the input decides.
const STARTS: u64 = 2 * NAMES.len() as u64;
/// The interval of tested crash points, where not every decision is tested.
const STRIDE: usize = 7;
/// More decisions than these sagas take.
const DECISIONS: u64 = 70;

/// Disables the failpoint when the test ends.
struct Planted;

impl Planted {
    fn new(bug: Bug) -> Self {
        failpoints::enable(bug);
        Self
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        failpoints::disable();
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(SqliteStore::in_memory(Arc::new(SystemClock)).unwrap())
}

/// Starts some of each kind; returns the acknowledged ones.
async fn start_some(engine: &Engine) -> Vec<Acknowledged> {
    let starts = (0..STARTS).map(|n| async move {
        let request = Request::numbered("first", n);
        let saga = request.start(engine).await.ok()?;
        Some(Acknowledged { key: request.key, saga })
    });
    futures::future::join_all(starts).await.into_iter().flatten().collect()
}

async fn until_idle(engine: &Engine) {
    while engine.active() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs sagas on a store with this fault until they end or the store fails, then checks the result.
async fn run_through(fault: Fault, folder: &Path) -> (Report, u64) {
    let store = memory();
    let faulty = Arc::new(Faulty::on(store.clone(), fault));
    let engine = load::engine(faulty.clone(), folder, "first", LEASE).await.unwrap();
    let acknowledged = start_some(&engine).await;
    let fired = async {
        while faulty.fired() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! { () = fired => {}, () = until_idle(&engine) => {} }
    // Dropped, as if the process was killed.
    drop(engine);
    (check(store, folder, TERMS, &acknowledged).await.unwrap(), faulty.fired())
}

/// Crashes at many points; returns the first report with violations.
async fn die_at_many_moments(stride: usize) -> Option<Report> {
    let mut deaths = 0;
    for decision in (1..DECISIONS).step_by(stride) {
        for fault in [Fault::DieBefore(decision), Fault::DieAfter(decision)] {
            let folder = tempfile::tempdir().unwrap();
            let (report, fired) = run_through(fault, folder.path()).await;
            deaths += fired;
            if !report.violations.is_empty() {
                println!("{fault:?}: {}", report.violations[0]);
                return Some(report);
            }
        }
    }
    assert!(deaths > 10, "hardly any death came about");
    None
}

/// A node waits for its commit while another adopts everything and runs half of it; then the first continues.
async fn overtake(from: u64) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let store = memory();
    let slow_store = Arc::new(Faulty::on(store.clone(), Fault::HoldFrom(from)));
    let slow = load::engine(slow_store.clone(), folder.path(), "slow", LEASE).await.unwrap();
    let acknowledged = tokio::spawn({
        let slow = slow.clone();
        async move { start_some(&slow).await }
    });
    slow_store.until_held().await;
    let quick_store = Arc::new(Faulty::on(store.clone(), Fault::HoldFrom(STARTS / 2)));
    let quick = load::engine(quick_store.clone(), folder.path(), "quick", LEASE).await.unwrap();
    quick_store.until_held().await;
    slow_store.release();
    let acknowledged = acknowledged.await.unwrap();
    until_idle(&slow).await;
    assert!(failpoints::is_enabled(Bug::AppendUnfenced) || slow.stats().fenced > 0, "nothing was refused");
    drop(slow);
    quick_store.release();
    until_idle(&quick).await;
    quick.shutdown().await.unwrap();
    check(store, folder.path(), TERMS, &acknowledged).await.unwrap()
}

/// A message of another node arrives during the last step, and the owner is not notified.
async fn cancel_unheard() -> Report {
    let folder = tempfile::tempdir().unwrap();
    let store = memory();
    let faulty = Arc::new(Faulty::on(store.clone(), Fault::HoldFrom(4)));
    let engine = load::engine(faulty.clone(), folder.path(), "first", LEASE).await.unwrap();
    // Three steps in sequence that succeed: the fourth decision is the end.
    let request = Request::numbered("first", 0);
    let saga = request.start(&engine).await.unwrap();
    faulty.until_held().await;
    let cancel = Message::Cancel { note: "a person".to_owned() };
    store.post(saga, &cancel, SystemClock.now()).await.unwrap();
    faulty.release();
    until_idle(&engine).await;
    engine.shutdown().await.unwrap();
    let acknowledged = [Acknowledged { key: request.key, saga }];
    check(store, folder.path(), TERMS, &acknowledged).await.unwrap()
}

/// The saga of the n-th decision differs between runs, so a rare violation needs several runs.
async fn first_violation_with(bug: Bug, stride: usize) -> Option<Report> {
    let _planted = Planted::new(bug);
    for _ in 0..4 {
        let found = die_at_many_moments(stride).await;
        if found.is_some() {
            return found;
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bug_every_moment_of_death_leaves_the_checks_green() {
    let _turn = ONE_AT_A_TIME.lock().await;
    if let Some(report) = die_at_many_moments(STRIDE).await {
        report.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_without_its_fence_is_found() {
    let _turn = ONE_AT_A_TIME.lock().await;
    for from in [STARTS + 1, STARTS + 9] {
        overtake(from).await.assert_clean();
        let _planted = Planted::new(Bug::AppendUnfenced);
        let report = overtake(from).await;
        assert!(!report.violations.is_empty(), "not found: {report}");
        println!("{}", report.violations[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_before_its_commit_is_found() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let report = first_violation_with(Bug::EffectBeforeCommit, STRIDE).await.expect("a call nobody decided");
    // The next owner does not know that call, so it may reuse the attempt's number.
    let found = |reason: &str| reason.contains("a logged attempt") || reason.contains("the same attempt");
    assert!(report.violations.iter().any(|it| found(&it.reason)), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_outside_the_transaction_is_found() {
    let _turn = ONE_AT_A_TIME.lock().await;
    // The message is lost only by a crash right after its decision.
    let report = first_violation_with(Bug::OutboxOutsideTransaction, 1).await.expect("a lost message");
    assert!(report.violations.iter().any(|it| it.reason.contains("never arrived")), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compensations_in_the_wrong_order_are_found() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let report = first_violation_with(Bug::CompensationOrderReversed, STRIDE).await.expect("a wrong order");
    assert!(report.violations.iter().any(|it| it.reason.contains("invariant 9")), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_doubt_is_found() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let report = first_violation_with(Bug::DoubtForgotten, STRIDE).await.expect("a step left undone");
    assert!(report.violations.iter().any(|it| it.reason.contains("in doubt")), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_message_is_detected() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let report = cancel_unheard().await;
    report.assert_clean();
    assert_eq!(report.sagas.get(&Status::Compensated), Some(&1), "the cancel came first: {report}");
    let _planted = Planted::new(Bug::InboxUnguarded);
    let report = cancel_unheard().await;
    assert!(report.violations.iter().any(|it| it.reason.contains("never answered")), "not found: {report}");
}
