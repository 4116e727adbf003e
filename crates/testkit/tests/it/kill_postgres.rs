//! kill -9 in a loop, on PostgreSQL.

use std::time::Duration;

use backstitch_testkit::chaos::process;
use backstitch_testkit::chaos::rounds::{self, Adoption};
use backstitch_testkit::postgres::fresh_database;

const SEED: u64 = 2;
/// The lease: short, so that there is always something to adopt.
const LEASE: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_however_often_the_node_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let address = fresh_database().await;
    let settings = process::settings(env!("CARGO_BIN_EXE_saga-node"), &address, folder.path(), LEASE);
    let (kills, report) =
        rounds::assert_kills_lose_nothing(settings, SEED, Adoption::AfterLease).await.unwrap();
    assert!(report.adopters * 10 > kills, "hardly any node took over from a dead one: {report}");
}
