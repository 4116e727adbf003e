//! Tests of the NATS fixture.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use backstitch_testkit::nats::NatsServer;

const PATIENCE: Duration = backstitch_testkit::PATIENCE;
/// Marks the process as the parent that is killed by the test below.
const PARENT: &str = "BACKSTITCH_TEST_NATS_PARENT";

#[tokio::test]
async fn broker_can_be_killed_and_restarted_on_its_port() {
    let mut server = NatsServer::start().await;
    let (url, first_pid) = (server.url(), server.pid());
    assert!(listens(&server));
    server.kill();
    assert!(server.pid().is_none() && !listens(&server));
    server.start_again().await;
    assert!(listens(&server) && server.url() == url && server.pid() != first_pid);
}

#[tokio::test]
async fn dropped_broker_ends_even_if_suspended() {
    let server = NatsServer::start().await;
    let (pid, directory) = (server.pid().unwrap(), server.directory().to_owned());
    server.suspend();
    assert!(directory.join("server.log").is_file() && is_process(pid));
    drop(server);
    assert!(!directory.exists() && !is_process(pid));
}

#[test]
fn a_broker_does_not_outlive_a_killed_parent() {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "throwaway_nats::a_parent_waits_for_its_end", "--nocapture"])
        .env(PARENT, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told = said.find_map(|line| line.split_once("broker: ").map(|(_, rest)| rest.to_owned()));
    let told = told.expect("the parent starts a broker");
    let (pid, directory) = told.split_once(' ').unwrap();
    let (pid, directory) = (pid.parse().unwrap(), Path::new(directory));
    assert!(directory.exists() && is_process(pid));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while directory.exists() || is_process(pid) {
        assert!(Instant::now() < deadline, "the watchdog does not clear away");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The parent of the test above; on its own it does nothing.
#[tokio::test]
async fn a_parent_waits_for_its_end() {
    if std::env::var_os(PARENT).is_none() {
        return;
    }
    let server = NatsServer::start().await;
    println!("broker: {} {}", server.pid().unwrap(), server.directory().display());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn listens(server: &NatsServer) -> bool {
    TcpStream::connect(server.url().trim_start_matches("nats://")).is_ok()
}

fn is_process(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
