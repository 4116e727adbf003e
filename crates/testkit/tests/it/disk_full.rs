//! A full or failing disk: clear errors, a process that survives, no acknowledged write lost.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstitch::{Error, store};
use backstitch_testkit::chaos::check::{self, Acknowledged, Report, Terms, check};
use backstitch_testkit::chaos::faulty::{Fault, Faulty};
use backstitch_testkit::chaos::load::{self, Request};
use backstitch_testkit::chaos::process::{self, Node, Settings};
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(1);
const SOON: Duration = backstitch_testkit::PATIENCE;

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Store(error) if matches!(**error, store::Error::Full(_)))
}

/// Injects failing system calls into nodes. It needs no privilege: a process may trace its children.
struct BadDisk {
    folder: TempDir,
    settings: Settings,
}

impl BadDisk {
    /// The faults in strace's syntax.
    fn new(faults: &[&str]) -> Self {
        let may_trace = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
        assert!(
            may_trace.is_ok_and(|status| status.success()),
            "the disk's errors are injected with strace: install it, and let it trace (./test installs it where it may)"
        );
        let folder = tempfile::tempdir().unwrap();
        let injected = faults.join(" -e inject=");
        let script = format!(
            "#!/bin/sh\nexec strace -D -f -qq -o {} -e trace=fsync,fdatasync,pwrite64 -e inject={injected} {} \"$@\"\n",
            trace_in(folder.path()).display(),
            env!("CARGO_BIN_EXE_saga-node"),
        );
        let program = folder.path().join("node-on-a-bad-disk");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
        let settings = process::settings(program.to_str().unwrap(), &address, folder.path(), LEASE);
        Self { folder, settings }
    }

    fn node(&self, name: &str) -> Node {
        Node::spawn(&self.settings, name).unwrap()
    }

    /// The number of failed system calls.
    fn failed(&self, call: &str) -> usize {
        let trace = std::fs::read_to_string(trace_in(self.folder.path())).unwrap();
        trace.lines().filter(|line| line.contains(call) && line.contains("INJECTED")).count()
    }

    /// Reopens the file on a working disk.
    async fn check(&self, acknowledged: &[Acknowledged]) -> Report {
        let terms = Terms::for_lease(LEASE);
        check::address(&self.settings.address, self.folder.path(), terms, acknowledged).await.unwrap()
    }
}

fn trace_in(folder: &Path) -> PathBuf {
    folder.join("traced")
}

/// The disk is full for a while, then has space again.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_starts_and_loses_nothing() {
    let disk = BadDisk::new(&["pwrite64:error=ENOSPC:when=300..400"]);
    let mut node = disk.node("first");
    node.until_refused(1, SOON).unwrap();
    // The process survives, and active work continues.
    node.until_acknowledged(node.acknowledged() + 200, SOON).unwrap();
    let refusals = node.refusals();
    let acknowledged = node.kill().unwrap();
    let writes = disk.failed("pwrite64");
    let report = disk.check(&acknowledged).await;
    println!("{writes} writes found no space, {} starts were refused: {report}", refusals.len());
    report.assert_clean();
    for refusal in &refusals {
        assert!(refusal.contains("the disk is full"), "not a clear error: {refusal}");
    }
    assert!(writes > 0, "the disk was never full");
}

/// The same without a disk: some decisions find no space, others are written and their response is lost.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_fail_or_lose_their_answer_cost_nothing_but_time() {
    for fault in [Fault::FullEvery(11), Fault::LoseAnswerEvery(11)] {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
        let store = load::store(&address).await.unwrap();
        let faulty = Arc::new(Faulty::on(store.clone(), fault));
        let engine = load::engine(faulty.clone(), folder.path(), "first", LEASE).await.unwrap();
        let mut acknowledged = Vec::new();
        let mut refused = 0;
        for n in 0..60 {
            let request = Request::numbered("first", n);
            match request.start(&engine).await {
                Ok(saga) => acknowledged.push(Acknowledged { key: request.key, saga }),
                Err(error) => {
                    assert!(is_full(&error) == matches!(fault, Fault::FullEvery(_)), "{error}");
                    refused += 1;
                }
            }
        }
        let began = Instant::now();
        while engine.health(Duration::ZERO).await.unwrap().active.keys().any(|status| !status.is_terminal()) {
            assert!(
                began.elapsed() < SOON,
                "{fault:?}: some sagas never ended while the store was in trouble"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        engine.shutdown().await.unwrap();
        let fired = faulty.fired();
        assert!(fired > 0 && refused > 0, "the fault did not come about");
        let report = check(store, folder.path(), Terms::for_lease(LEASE), &acknowledged).await.unwrap();
        println!("{fault:?} came about {fired} times, {refused} starts were refused: {report}");
        report.assert_clean();
    }
}

/// Errors of the disk.
#[tokio::test(flavor = "multi_thread")]
async fn writes_and_syncs_that_fail_lose_nothing() {
    let disk = BadDisk::new(&["fsync,fdatasync:error=EIO:when=10+3", "pwrite64:error=EIO:when=300+307"]);
    let mut acknowledged = Vec::new();
    let (mut syncs, mut writes) = (0, 0);
    for round in 0..20 {
        let mut node = disk.node(&format!("life{round}"));
        node.until_acknowledged(200, SOON).unwrap();
        // Killed, because a clean shutdown could hide an error.
        acknowledged.extend(node.kill().unwrap());
        (syncs, writes) = (disk.failed("sync"), disk.failed("pwrite64"));
        // On a busy machine a node needs few syncs, each for many decisions, so possibly none of them fails.
        if round >= 2 && syncs > 0 && writes > 0 {
            break;
        }
    }
    let report = disk.check(&acknowledged).await;
    println!("{syncs} syncs and {writes} writes failed: {report}");
    report.assert_clean();
    assert!(syncs > 0 && writes > 0, "the faults did not come about: {syncs} syncs, {writes} writes");
}
