//! A full disk, and a disk that fails: clear errors, a process that lives on, nothing acknowledged lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstitch::{Engine, Error, store};
use backstitch_testkit::chaos::check::{self, Acknowledged, Terms, check};
use backstitch_testkit::chaos::faulty::{Fault, Faulty};
use backstitch_testkit::chaos::load::{self, Request};
use backstitch_testkit::chaos::process::{self, Node};

const LEASE: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(30);
/// The environment variable that names the small disk to the process that runs on it.
const DISK: &str = "BACKSTITCH_TEST_SMALL_DISK";

/// Starts sagas one after the other until one is refused; gives those that were not, and why that one was.
async fn start_until_refused(engine: &Engine, prefix: &str) -> (Vec<Acknowledged>, Error) {
    let mut acknowledged = Vec::new();
    for n in 0..1_000_000 {
        let request = Request::numbered(prefix, n);
        match request.start(engine).await {
            Ok(saga) => acknowledged.push(Acknowledged { key: request.key, saga }),
            Err(error) => return (acknowledged, error),
        }
    }
    panic!("the disk never became full");
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Store(error) if matches!(**error, store::Error::Full(_)))
}

/// Starts one saga as soon as there is space.
async fn start_when_there_is_space(engine: &Engine, key: &str) -> Acknowledged {
    let request = Request::numbered(key, 0);
    let began = Instant::now();
    loop {
        match request.start(engine).await {
            Ok(saga) => return Acknowledged { key: request.key, saga },
            Err(error) => assert!(began.elapsed() < SOON, "still refused with space to spare: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The test of a disk that is really full needs a small one: it runs itself again, in a place where it may mount one.
#[test]
fn a_full_disk_refuses_starts_and_loses_nothing() {
    let disk = tempfile::tempdir().unwrap();
    let here = std::env::current_exe().unwrap();
    let script = format!("mount -t tmpfs -o size=16m tmpfs {} && exec \"$@\"", disk.path().display());
    let run = |unshare: &[&str]| {
        Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", &script, "sh"])
            .arg(&here)
            .args(["--exact", "on_a_small_disk", "--nocapture"])
            .env(DISK, disk.path())
            .output()
            .unwrap_or_else(|error| panic!("cannot run unshare (package util-linux): {error}"))
    };
    // As root, and as anybody else who may have a name space of his own.
    let mut output = run(&["--mount"]);
    if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("ermi") {
        output = run(&["--map-root-user", "--mount"]);
    }
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}\n{complained}");
    assert!(told.contains("the disk was full"), "the fault did not come about: {told}\n{complained}");
}

/// Run by the test above, on the disk it made; on its own it has none and nothing to do.
#[test]
fn on_a_small_disk() {
    if let Some(disk) = std::env::var_os(DISK) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(fill_and_free(Path::new(&disk)));
    }
}

async fn fill_and_free(disk: &Path) {
    let outside = tempfile::tempdir().unwrap();
    let ballast = disk.join("ballast");
    // So much that the file's log fills what is left long before it would be moved into the file.
    std::fs::write(&ballast, vec![0; 14 << 20]).unwrap();
    let store = load::store(&format!("sqlite:{}", disk.join("sagas.db").display())).await.unwrap();
    let engine = load::engine(store.clone(), outside.path(), "first", LEASE).await.unwrap();
    let (mut acknowledged, error) = start_until_refused(&engine, "first").await;
    assert!(is_full(&error), "not a clear error: {error}");
    println!(
        "the disk was full after {} starts, with {} under way: {error}",
        acknowledged.len(),
        engine.active()
    );
    // What is under way cannot go on now, and is not given up either.
    std::fs::remove_file(&ballast).unwrap();
    acknowledged.push(start_when_there_is_space(&engine, "later").await);
    engine.shutdown().await.unwrap();
    let report = check(store, outside.path(), Terms::promised(LEASE), &acknowledged).await.unwrap();
    println!("{report}");
    report.assert_clean();
}

/// The same without a disk: some decisions find no space, others are written and their answer is lost.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_fail_or_lose_their_answer_cost_nothing_but_time() {
    for fault in [Fault::FullEvery(11), Fault::LoseAnswerEvery(11)] {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
        let store = load::store(&address).await.unwrap();
        let faulty = Arc::new(Faulty::new(store.clone(), fault));
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
        let report = check(store, folder.path(), Terms::promised(LEASE), &acknowledged).await.unwrap();
        println!("{fault:?} came about {fired} times, {refused} starts were refused: {report}");
        report.assert_clean();
    }
}

/// Errors of the disk itself, injected into the system calls of a process.
#[tokio::test(flavor = "multi_thread")]
async fn writes_and_syncs_that_fail_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let traced = folder.path().join("traced");
    let may_trace = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    assert!(
        may_trace.is_ok_and(|status| status.success()),
        "the disk's errors are injected with strace: install it, and let it trace (./test installs it where it may)"
    );
    let script = format!(
        "#!/bin/sh\nexec strace -D -f -qq -o {} -e trace=fsync,fdatasync,pwrite64 -e inject=fsync,fdatasync:error=EIO:when=10+9 \
         -e inject=pwrite64:error=EIO:when=300+307 {} \"$@\"\n",
        traced.display(),
        env!("CARGO_BIN_EXE_saga-node"),
    );
    let program = folder.path().join("node-on-a-bad-disk");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let settings = process::settings(program.to_str().unwrap(), &address, folder.path(), LEASE);

    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let mut node = Node::spawn(&settings, &format!("life{round}")).unwrap();
        node.until_acknowledged(200, SOON).unwrap();
        // Killed as it is: an error must not be healed by a quiet end.
        acknowledged.extend(node.kill().unwrap());
    }
    let trace = std::fs::read_to_string(&traced).unwrap();
    let failed =
        |call: &str| trace.lines().filter(|line| line.contains(call) && line.contains("INJECTED")).count();
    let (syncs, writes) = (failed("sync"), failed("pwrite64"));
    let report =
        check::address(&address, folder.path(), Terms::promised(LEASE), &acknowledged).await.unwrap();
    println!("{syncs} syncs and {writes} writes failed: {report}");
    report.assert_clean();
    assert!(syncs > 0 && writes > 0, "the faults did not come about: {syncs} syncs, {writes} writes");
}
