//! kill -9 in a loop, on PostgreSQL.

use std::time::Duration;

use backstitch_testkit::chaos::check::{self, Terms};
use backstitch_testkit::chaos::{process, rounds, setting};
use backstitch_testkit::postgres::fresh_database;

/// Half of them for sure under load.
const KILLS: usize = 100;
const SEED: u64 = 2;
/// A dead node's sagas are taken over this long after its death, so that there is always something to take over.
const LEASE: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_however_often_the_node_is_killed() {
    let kills = setting("BACKSTITCH_KILLS", KILLS);
    let seed = setting("BACKSTITCH_SEED", SEED);
    let folder = tempfile::tempdir().unwrap();
    let address = fresh_database().await;
    let settings = process::settings(env!("CARGO_BIN_EXE_saga-node"), &address, folder.path(), LEASE);
    let killed =
        tokio::task::spawn_blocking(move || rounds::kill_in_a_loop(&settings, seed, kills)).await.unwrap();
    let killed = killed.unwrap();
    let report = check::address(&address, folder.path(), Terms::promised(LEASE), &killed.acknowledged);
    let report = report.await.unwrap();
    println!("seed {seed}: {killed}; {report}");
    report.assert_clean();
    assert!(killed.while_loaded * 2 >= kills, "most kills came before any start was acknowledged: {killed}");
    assert!(report.adopters * 10 > kills, "hardly any node took over from a dead one: {report}");
    assert!(report.interrupted > kills, "hardly any attempt was cut short: {report}");
}
