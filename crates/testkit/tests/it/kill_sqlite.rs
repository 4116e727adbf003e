//! kill -9 in a loop, on SQLite.

use std::time::Duration;

use backstitch_testkit::chaos::process;
use backstitch_testkit::chaos::rounds::{self, Adoption};

const SEED: u64 = 1;
/// SQLite needs no lease: a new process adopts at once.
const LEASE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_however_often_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let settings = process::settings(env!("CARGO_BIN_EXE_saga-node"), &address, folder.path(), LEASE);
    let (kills, report) = rounds::assert_kills_lose_nothing(settings, SEED, Adoption::AtOnce).await.unwrap();
    assert!(report.adopters * 2 > kills, "most kills left no saga in flight: {report}");
}
