//! Several processes on one PostgreSQL: one of them crashes, is suspended or stops, or the database does.

use std::path::Path;
use std::time::{Duration, Instant};

use backstitch_testkit::chaos::check::{self, Acknowledged, Report, Terms};
use backstitch_testkit::chaos::process::{self, Node, Settings};
use backstitch_testkit::postgres::{Signal, ThrowawayPostgres, fresh_database};
use tempfile::TempDir;
use tokio_postgres::NoTls;

const LEASE: Duration = Duration::from_secs(1);
/// Time limit of every wait.
const SOON: Duration = backstitch_testkit::PATIENCE;
/// Acknowledged starts before a fault.
const UNDER_LOAD: usize = 50;

/// Nodes under load on one database.
struct Cluster {
    settings: Settings,
    folder: TempDir,
    nodes: Vec<Node>,
    acknowledged: Vec<Acknowledged>,
}

impl Cluster {
    fn of(count: usize, address: &str, lease: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = process::settings(env!("CARGO_BIN_EXE_saga-node"), address, folder.path(), lease);
        settings.start_every = Duration::from_millis(4);
        let nodes = (0..count).map(|number| Node::spawn(&settings, &format!("node{number}")).unwrap());
        let mut nodes: Vec<Node> = nodes.collect();
        for node in &mut nodes {
            node.until_acknowledged(UNDER_LOAD, SOON).unwrap();
        }
        Self { settings, folder, nodes, acknowledged: Vec::new() }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until this node has acknowledged as many further starts as it has now.
    fn until_back_at_work(&mut self, node: usize) {
        let target = self.nodes[node].acknowledged() + UNDER_LOAD;
        self.nodes[node].until_acknowledged(target, SOON).unwrap();
    }

    /// Waits until a node has noticed the end of its lease. It accepts starts earlier, as soon as the database does.
    fn until_taken_for_dead(&self) {
        let began = Instant::now();
        while !self.nodes.iter().any(|node| node.log().contains("taken for dead")) {
            assert!(began.elapsed() < SOON, "no node's lease ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("found out after {:?}", began.elapsed());
    }

    fn kill(&mut self, node: usize) {
        self.acknowledged.extend(self.nodes.remove(node).kill().unwrap());
    }

    fn terminate(&mut self, node: usize) {
        self.acknowledged.extend(self.nodes.remove(node).terminate().unwrap());
    }

    /// Waits until this node has adopted a saga.
    async fn until_adopted_by(&self, name: &str) -> Duration {
        let (client, connection) = tokio_postgres::connect(&self.settings.address, NoTls).await.unwrap();
        tokio::spawn(connection);
        let began = Instant::now();
        let pattern = format!("%\"{name}\"%");
        let count =
            "select count(*) from backstitch.saga_events where type = 'saga.adopted' and data like $1";
        loop {
            let adopted: i64 = client.query_one(count, &[&pattern]).await.unwrap().get(0);
            if adopted > 0 {
                return began.elapsed();
            }
            assert!(began.elapsed() < SOON, "{name} took nothing over");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until every released saga is adopted.
    async fn until_every_saga_has_an_owner(&self) -> Duration {
        let (client, connection) = tokio_postgres::connect(&self.settings.address, NoTls).await.unwrap();
        tokio::spawn(connection);
        let began = Instant::now();
        let count = "select count(*) from backstitch.sagas where owner is null and wake_at is not null";
        loop {
            let released: i64 = client.query_one(count, &[]).await.unwrap().get(0);
            if released == 0 {
                return began.elapsed();
            }
            assert!(began.elapsed() < SOON, "{released} sagas were not taken over");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end(mut self) -> Report {
        while !self.nodes.is_empty() {
            self.terminate(0);
        }
        let terms = Terms::for_lease(self.settings.lease);
        let report =
            check::address(&self.settings.address, self.folder(), terms, &self.acknowledged).await.unwrap();
        println!("{report}");
        report.assert_clean();
        report
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn living_node_adopts_from_the_dead_one() {
    let mut cluster = Cluster::of(2, &fresh_database().await, LEASE);
    cluster.kill(0);
    let waited = cluster.until_adopted_by("node1").await;
    println!("taken over after {waited:?}");
    cluster.until_back_at_work(0);
    let report = cluster.end().await;
    assert!(report.interrupted > 0, "the kill cut nothing short: {report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_nodes_one_that_stood_still_finds_itself_fenced() {
    let mut cluster = Cluster::of(3, &fresh_database().await, LEASE);
    cluster.nodes[0].signal(Signal::Stop).unwrap();
    let (one, two) = (cluster.until_adopted_by("node1"), cluster.until_adopted_by("node2"));
    tokio::select! { _ = one => {}, _ = two => {} }
    cluster.nodes[0].signal(Signal::Continue).unwrap();
    cluster.until_back_at_work(0);
    let log = cluster.nodes[0].log();
    let dead = log.matches("taken for dead").count();
    let fenced = log.matches("another node owns this saga now").count();
    println!("the node that stood still found itself dead {dead} times and was refused {fenced} times");
    assert!(dead + fenced > 0, "the node that stood still noticed nothing: {log}");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_alternately_suspended_nodes_never_overwrite() {
    let mut cluster = Cluster::of(2, &fresh_database().await, LEASE);
    for round in 0..4 {
        let (still, other) = (round % 2, 1 - round % 2);
        cluster.nodes[still].signal(Signal::Stop).unwrap();
        // Longer than the lease: the suspension is the fault.
        std::thread::sleep(LEASE + LEASE / 2);
        cluster.nodes[still].signal(Signal::Continue).unwrap();
        cluster.until_back_at_work(still);
        cluster.until_back_at_work(other);
    }
    let logs: String = cluster.nodes.iter().map(Node::log).collect();
    assert!(logs.contains("taken for dead"), "nobody noticed that it had stood still");
    let report = cluster.end().await;
    assert!(report.adopters >= 2, "nothing was taken over: {report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_node_hands_over_at_once() {
    // Longer than the test waits: only a handover without waiting for the lease is fast enough.
    let long = Duration::from_secs(3600);
    let mut cluster = Cluster::of(2, &fresh_database().await, long);
    cluster.terminate(0);
    let waited = cluster.until_every_saga_has_an_owner().await;
    println!("taken over after {waited:?}");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_database_loses_nothing() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let mut cluster = Cluster::of(2, &address, LEASE);
    for _ in 0..2 {
        postgres.stop_immediate().unwrap();
        postgres.start_again().unwrap();
        cluster.until_back_at_work(0);
        cluster.until_back_at_work(1);
    }
    let log = cluster.nodes[0].log();
    assert!(log.contains("WARN"), "the node noticed nothing: {log}");
    cluster.end().await;
    drop(postgres);
}

#[tokio::test(flavor = "multi_thread")]
async fn database_stalled_beyond_the_lease_loses_nothing() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let mut cluster = Cluster::of(3, &address, LEASE);
    postgres.suspend().unwrap();
    // Longer than the lease: the suspension is the fault.
    std::thread::sleep(LEASE * 3);
    postgres.resume().unwrap();
    for node in 0..3 {
        cluster.until_back_at_work(node);
    }
    cluster.until_taken_for_dead();
    cluster.end().await;
}
