//! kill -9 in a loop, on a file.

use std::time::Duration;

use backstitch_testkit::chaos::check::{self, Terms};
use backstitch_testkit::chaos::{process, rounds, setting};

/// Half of them for sure under load.
const KILLS: usize = 100;
const SEED: u64 = 1;
/// On a file nobody waits for a lease: a new life takes over at once.
const LEASE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_however_often_the_process_is_killed() {
    let kills = setting("BACKSTITCH_KILLS", KILLS);
    let seed = setting("BACKSTITCH_SEED", SEED);
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let settings = process::settings(env!("CARGO_BIN_EXE_saga-node"), &address, folder.path(), LEASE);
    let killed =
        tokio::task::spawn_blocking(move || rounds::kill_in_a_loop(&settings, seed, kills)).await.unwrap();
    let killed = killed.unwrap();
    let report = check::address(&address, folder.path(), Terms::promised(LEASE), &killed.acknowledged);
    let report = report.await.unwrap();
    println!("seed {seed}: {killed}; {report}");
    report.assert_clean();
    assert!(killed.while_loaded * 2 >= kills, "most kills came before any start was acknowledged: {killed}");
    assert!(report.adopters * 2 > kills, "most kills left no saga in flight: {report}");
    assert!(report.interrupted > kills, "hardly any attempt was cut short: {report}");
}
