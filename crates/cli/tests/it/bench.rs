//! The benchmark measures what its output says, on every store.

use std::process::{Command, Output};

use backstitch_testkit::nats::NatsServer;
use backstitch_testkit::scale;
use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let always = ["bench", "--seconds", "1", "--rounds", "1", "--json"];
    Command::new(env!("CARGO_BIN_EXE_backstitch")).args(always).args(arguments).output().unwrap()
}

fn reports(arguments: &[&str]) -> Vec<Value> {
    let output = bench(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn assert_measured(report: &Value, commits_per_saga: u64, on_disk: bool) {
    let number = |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("no {name} in {report}"));
    assert!(number("sagas_per_s") > 0.0 && number("p50_ms") <= number("p99_ms"), "{report}");
    assert!(number("peak_rss_mb") > 0.0);
    let (sagas, commits) = (report["sagas"].as_u64().unwrap(), report["commits"].as_u64().unwrap());
    assert_eq!(commits, sagas * commits_per_saga, "a saga of n steps costs n + 1 commits: {report}");
    assert!(report["transactions"].as_u64().unwrap() <= commits);
    assert_eq!(report["floor_per_s"].as_f64().is_some_and(|rate| rate > 0.0), on_disk, "{report}");
    assert_eq!(report["floor_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), on_disk);
    assert_eq!(report["bytes_per_saga"].as_u64().is_some_and(|bytes| bytes > 0), on_disk);
}

/// Both variants in one run, each against its own floor, and the rollback against the success.
fn assert_measures(store: &str, on_disk: bool) {
    let reports = reports(&["--store", store, "--variant", "success,rollback", "--concurrency", "8"]);
    let variants: Vec<_> = reports.iter().map(|report| report["variant"].as_str().unwrap()).collect();
    assert_eq!(variants, ["success", "rollback"]);
    assert_measured(&reports[0], 4, on_disk);
    assert_measured(&reports[1], 6, on_disk);
    assert_eq!(reports[0]["of_success"], Value::Null);
    assert!(reports[1]["of_success"].as_f64().unwrap() > 0.0);
}

#[test]
fn memory_is_measured() {
    assert_measures("memory", false);
}

#[test]
fn a_file_is_measured_against_its_floor() {
    assert_measures("sqlite", true);
}

#[test]
fn a_server_is_measured_against_its_floor_and_left_as_it_was() {
    let server = std::env::var("BACKSTITCH_TEST_POSTGRES");
    let server = server.unwrap_or_else(|why| panic!("this test needs PostgreSQL ({why}): run `./test`"));
    assert_measures(&server, true);
}

#[test]
fn a_long_run_compares_its_beginning_with_its_end() {
    let report = &reports(&["--store", "memory", "--concurrency", "64", "--sagas", "20000"])[0];
    assert_eq!(report["sagas"], 20_000);
    assert!(report["last_to_first"].as_f64().unwrap() > 0.0);
}

#[test]
fn sagas_are_measured_beside_the_removal_of_others() {
    let server = std::env::var("BACKSTITCH_TEST_POSTGRES");
    let server = server.unwrap_or_else(|why| panic!("this test needs PostgreSQL ({why}): run `./test`"));
    for store in ["sqlite", &server] {
        let report = &reports(&["--retention", "--store", store, "--concurrency", "8"])[0];
        for figure in ["undisturbed_per_s", "beside_removal_per_s", "kept", "removed_per_s"] {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{figure} in {report}");
        }
    }
}

#[test]
fn bench_measures_webhooks_with_and_without_trouble() {
    let report = &reports(&["--webhooks", "400"])[0];
    assert_eq!(report["events"], 400);
    for figure in ["deliveries_per_s", "paced_at_per_s", "p50_ms", "p99_ms", "kept_in_trouble"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{figure}: {report}");
    }
}

#[test]
fn lifecycles_are_measured_against_their_floor() {
    let server = std::env::var("BACKSTITCH_TEST_POSTGRES");
    let server = server.unwrap_or_else(|why| panic!("this test needs PostgreSQL ({why}): run `./test`"));
    for store in ["sqlite", &server] {
        let report = &reports(&["--lifecycles", "--store", store, "--concurrency", "8"])[0];
        for figure in
            ["transitions_per_s", "p50_ms", "p99_ms", "per_transaction", "floor_per_s", "floor_ratio"]
        {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{figure} in {report}");
        }
    }
}

#[test]
fn bench_and_migrate_survive_a_closed_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", folder.path().join("closed.db").display());
    for arguments in [
        &["bench", "--store", "memory", "--sagas", "10", "--concurrency", "1,2"][..],
        &["bench", "--store", "memory", "--sagas", "10", "--json"],
        &["migrate", "--db", &file],
        &["check", "--help"],
    ] {
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_backstitch"));
        command.args(arguments).stdout(closed.try_clone().unwrap());
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !printed.contains("panicked"), "{arguments:?}: {printed}");
        let status = command.stderr(closed).status().unwrap();
        assert!(status.success(), "{arguments:?} with standard error closed: {status}");
    }
}

#[test]
fn bench_refuses_contradictory_arguments() {
    for (arguments, told) in [
        (["--store", "mysql://host/db"], "is not a store"),
        (["--concurrency", "0"], "must be at least 1"),
        (["--store", "postgres://127.0.0.1:1/none"], "cannot connect"),
    ] {
        let refused = bench(&arguments);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(told), "{arguments:?}: {said}");
    }
}

#[test]
fn bench_measures_a_server_for_every_clause() {
    let arguments = ["bench", "--http", "--json", "--concurrency", "2", "--seconds", "1", "--users", "3"];
    let output = Command::new(env!("CARGO_BIN_EXE_backstitch")).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect();
    let said = String::from_utf8_lossy(&output.stderr);
    // Whether limits of time hold is for the machine to say; that nothing is lost is not.
    for clause in
        ["sagas", "SC-001", "SC-002", "SC-003", "SC-004", "SC-005", "SC-006", "SC-007", "SC-008", "SC-010"]
    {
        assert!(figures.iter().any(|figure| figure["clause"] == clause), "{clause} is missing: {text}{said}");
    }
    for clause in ["SC-004", "SC-007", "SC-008"] {
        let figure = figures.iter().find(|figure| figure["clause"] == clause).unwrap();
        assert_eq!(figure["holds"], true, "{figure}");
    }
}

/// Every page that the console has, by its route.
fn pages_of_the_console() -> impl Iterator<Item = &'static str> {
    let routes = include_str!("console/routes.txt");
    routes.lines().filter_map(|line| line.strip_prefix("GET ")?.split(' ').nth(1))
}

#[test]
fn every_page_of_the_console_is_measured_on_a_full_store() {
    let server = std::env::var("BACKSTITCH_TEST_POSTGRES");
    let server = server.unwrap_or_else(|why| panic!("this test needs PostgreSQL ({why}): run `./test`"));
    let stores = ["sqlite", &server];
    for store in stores.into_iter().take(if scale::is_soak() { 2 } else { 1 }) {
        // Whether all are fast enough is for the machine to say, so how it ends is not looked at.
        let output = bench(&["--console", "2000", "--store", store]);
        let said = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        let figures: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for route in pages_of_the_console() {
            let of_route: Vec<_> = figures.iter().filter(|figure| figure["route"] == route).collect();
            assert!(!of_route.is_empty(), "{route} is not measured on {store}: {said}");
            for figure in of_route {
                let number = |name: &str| figure[name].as_f64().unwrap_or_else(|| panic!("{figure}"));
                assert!(0.0 < number("p50_ms") && number("p50_ms") <= number("p99_ms"), "{figure}");
                assert!(number("p99_ms") <= number("max_ms"), "{figure}");
                assert_eq!(figure["goal_ms"], 100.0);
            }
        }
    }
}

#[tokio::test]
async fn bench_empties_an_outbox_into_a_complete_stream() {
    let broker = NatsServer::start().await;
    let url = broker.url();
    let run = tokio::task::spawn_blocking(move || reports(&["--outbox", "500", "--nats", &url]));
    let reports = run.await.unwrap();
    let [report] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((&report["adapter"], &report["messages"]), (&"nats".into(), &500.into()));
    assert!(report["drained_per_s"].as_f64().unwrap() > 0.0, "{report}");
    let streams = broker.directory().join("jetstream").join("$G").join("streams");
    let left = std::fs::read_dir(streams).map_or(0, Iterator::count);
    assert_eq!(left, 0, "the stream is gone");
}

#[test]
fn a_broker_without_an_outbox_to_empty_is_refused() {
    let refused = bench(&["--nats", "nats://127.0.0.1:4222"]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}
