//! Tests of the `PostgreSQL` fixture.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use backstitch_testkit::postgres::{
    Error, SHARED_URL_VARIABLE, Signal, ThrowawayPostgres, database_from, empty_database, fresh_database,
    send_signal,
};
use futures::future::join_all;
use tokio_postgres::{Client, NoTls};

const PATIENCE: Duration = backstitch_testkit::PATIENCE;

#[tokio::test]
async fn throwaway_server_keeps_durability_enabled() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let client = connect(&postgres.url("postgres")).await;
    assert_eq!(client.query_one("select 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    for (setting, expected) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("listen_addresses", "127.0.0.1"),
        ("max_connections", "500"),
        ("server_encoding", "UTF8"),
    ] {
        let row = client.query_one("select current_setting($1)", &[&setting]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), expected, "{setting}");
    }
}

#[tokio::test]
async fn every_database_is_a_new_one() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let (first, second) =
        (postgres.create_database().await.unwrap(), postgres.create_database().await.unwrap());
    assert_ne!(first, second);
    connect(&first).await.batch_execute("create table t ()").await.unwrap();
    connect(&second).await.batch_execute("create table t ()").await.unwrap();
}

#[tokio::test]
async fn fresh_databases_are_separate_and_migrated() {
    let (first, second) = tokio::join!(fresh_database(), fresh_database());
    assert_ne!(first, second);
    for database in [&first, &second] {
        let client = connect(database).await;
        client.batch_execute("create table t (); select from backstitch.sagas").await.unwrap();
    }
    let empty = connect(&empty_database().await).await;
    assert!(empty.batch_execute("select from backstitch.sagas").await.is_err(), "it is not migrated");
}

#[tokio::test]
async fn concurrent_tests_build_a_template_once() {
    let name = format!("of_this_test_{}", std::process::id());
    let built = AtomicUsize::new(0);
    let databases = join_all((0..4).map(|_| {
        database_from(&name, async |url: &str| {
            built.fetch_add(1, Ordering::SeqCst);
            connect(url).await.batch_execute("create table t ()").await.unwrap();
        })
    }));
    for database in databases.await {
        connect(&database).await.batch_execute("select from t").await.unwrap();
    }
    assert_eq!(built.into_inner(), 1);
}

#[tokio::test]
async fn committed_rows_survive_an_immediate_stop() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let url = postgres.create_database().await.unwrap();
    connect(&url).await.batch_execute("create table t (x int); insert into t values (42)").await.unwrap();
    let first_pid = postgres.pid();

    postgres.stop_immediate().unwrap();
    assert_eq!(postgres.pid(), None);
    assert!(tokio_postgres::connect(&url, NoTls).await.is_err(), "nobody listens on a stopped server's port");
    assert!(matches!(postgres.stop_immediate(), Err(Error::NotRunning)));

    postgres.start_again().unwrap();
    assert_ne!(postgres.pid(), first_pid);
    assert!(matches!(postgres.start_again(), Err(Error::StillRunning)));
    let row = connect(&url).await.query_one("select x from t", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 42);
}

#[test]
fn server_waits_for_an_occupied_port() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let port = postgres.url("").parse::<tokio_postgres::Config>().unwrap().get_ports()[0];
    let log = postgres.directory().join("server.log");
    postgres.stop_immediate().unwrap();

    let intruder = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let restart = thread::spawn(move || postgres.start_again().map(|()| postgres));
    wait_until("the server to find its port taken", || {
        fs::read_to_string(&log).unwrap().contains("Address already in use")
    });
    drop(intruder);
    restart.join().unwrap().unwrap();
}

#[tokio::test]
async fn a_suspended_server_answers_only_after_it_is_resumed() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let client = connect(&postgres.url("postgres")).await;
    postgres.suspend().unwrap();

    let query = client.query_one("select 1", &[]);
    tokio::pin!(query);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut query).await;
    assert!(early.is_err(), "a suspended server must not answer");

    postgres.resume().unwrap();
    assert_eq!(query.await.unwrap().get::<_, i32>(0), 1);
}

#[test]
fn dropping_a_server_ends_it_and_removes_its_directory() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let (pid, directory) = (postgres.pid().unwrap(), postgres.directory().to_owned());
    assert!(directory.join("server.log").is_file() && is_process(pid));
    drop(postgres);
    assert!(!directory.exists() && !is_process(pid));
}

#[test]
fn a_suspended_server_can_be_dropped() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let pid = postgres.pid().unwrap();
    postgres.suspend().unwrap();
    drop(postgres);
    assert!(!is_process(pid));
}

#[test]
fn the_wrapper_exits_with_its_commands_code() {
    let script = format!("test -n \"${SHARED_URL_VARIABLE}\" && exit 7");
    let status = wrapper(&script).status().unwrap();
    assert_eq!(status.code(), Some(7));
}

#[tokio::test]
async fn a_terminated_wrapper_takes_its_server_along() {
    let (mut wrapper, url) = waiting_wrapper();
    connect(&url).await;
    send_signal(&[wrapper.id()], Signal::Terminate).unwrap();
    assert_eq!(wrapper.wait().unwrap().code(), Some(128 + 15));
    assert!(tokio_postgres::connect(&url, NoTls).await.is_err());
}

#[tokio::test]
async fn a_server_does_not_outlive_a_killed_parent() {
    let (mut wrapper, url) = waiting_wrapper();
    let directory = connect(&url).await.query_one("show unix_socket_directories", &[]).await.unwrap();
    let directory = Path::new(directory.get::<_, &str>(0)).to_owned();
    send_signal(&[wrapper.id()], Signal::Kill).unwrap();
    wrapper.wait().unwrap();
    wait_until("the watchdog to clear away", || !directory.exists());
    assert!(tokio_postgres::connect(&url, NoTls).await.is_err());
}

fn wait_until(awaited: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "waited in vain for {awaited}");
        thread::sleep(Duration::from_millis(10));
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .unwrap_or_else(|error| panic!("cannot connect to {url}: {error:?}"));
    tokio::spawn(connection);
    client
}

fn is_process(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn wrapper(script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_with-postgres"));
    command.args(["sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A wrapper with a command that has printed its server's address and waits for the end of this test.
fn waiting_wrapper() -> (Child, String) {
    let mut wrapper = wrapper(&format!("echo ${SHARED_URL_VARIABLE}; exec cat"))
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run with-postgres: {error}"));
    let mut url = String::new();
    let read = wrapper.stdout.as_mut().map(|stdout| BufReader::new(stdout).read_line(&mut url));
    assert!(matches!(read, Some(Ok(1..))), "with-postgres printed no address: {read:?}");
    (wrapper, url.trim().to_owned())
}
