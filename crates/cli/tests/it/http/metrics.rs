//! Metrics and traces.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use backstitch_server::Config;
use backstitch_server::config::Secret;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http::support::{Place, Program, Running, on_both, within};

#[tokio::test]
async fn requests_and_sagas_are_counted() {
    let server = Running::start().await;
    server.client.run(&json!({ "definition": "greet" })).await;
    server.client.run(&json!({ "definition": "doomed" })).await;
    server.client.get("/v1/sagas/x").await;
    let expected = [
        "backstitch_http_requests_total{method=\"POST\",route=\"/v1/sagas\",status=\"200\"} 2",
        "backstitch_http_requests_total{method=\"GET\",route=\"/v1/sagas/{id}\",status=\"400\"} 1",
        "backstitch_http_request_duration_seconds_count{method=\"POST\",route=\"/v1/sagas\"} 2",
        "backstitch_sagas_started_total 2",
        "backstitch_sagas_succeeded_total 1",
        "backstitch_sagas_compensated_total 1",
        "backstitch_sagas_failed_total 0",
        "backstitch_step_events_total{type=\"step.compensated\"} 1",
        "backstitch_sagas_active 0",
    ];
    // Events are counted beside the sagas, so a moment later.
    within(async {
        loop {
            let answer = server.client.get("/metrics").await;
            assert!(
                answer.headers["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4")
            );
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            if expected.iter().all(|line| text.lines().any(|found| found == *line)) {
                assert!(!text.contains("backstitch_decisions_total 0"));
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Runs promtool, which `./test` installs, and gives what it complains about.
fn promtool(arguments: &[&str], input: &str) -> String {
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools/bin/promtool");
    let program = if installed.exists() { installed } else { "promtool".into() };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().unwrap_or_else(|why| panic!("promtool does not run ({why}): run `./test`"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {complaints}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    complaints
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_accepts_the_metrics() {
    on_both(async |place: Place| {
        let program = Program::serve(&place.db(), &[("BACKSTITCH_DOCTOR_INTERVAL", "1s")]).await;
        let client = &program.client;
        let yaml = "{name: parcel, steps: [{id: pack, action: {worker: {queue: packing}}}]}";
        let typed = [("content-type", "application/yaml")];
        let put = client.send(hyper::Method::PUT, "/v1/definitions/parcel?apply=true", &typed, yaml).await;
        assert_eq!(put.status, 201, "{put:?}");
        let [done, _waiting] = [
            client.start(&json!({ "definition": "parcel" })).await,
            client.start(&json!({ "definition": "parcel" })).await,
        ];
        let ask = json!({ "queues": ["packing"], "lease_seconds": 60, "wait_seconds": 20, "limit": 1 });
        let job = client.post("/v1/jobs/lease", &ask).await.json()["jobs"][0].clone();
        let complete = format!("/v1/jobs/{}/complete", job["job_id"]);
        let completed = client.post(&complete, &json!({ "token": job["token"], "result": {} })).await;
        assert_eq!(completed.status, 200, "{completed:?}");
        client.get(&format!("/v1/sagas/{done}?wait=20")).await;
        client.post("/v1/sites", &json!({ "site_id": "docs" })).await;
        let expected = [
            "backstitch_saga_duration_seconds_count{end=\"succeeded\"} 1",
            "backstitch_step_duration_seconds_count{phase=\"do\",end=\"succeeded\"} 1",
            "backstitch_queue_pending_jobs{queue=\"work/packing\"} 1",
            "backstitch_rollbacks_stuck 0",
            "backstitch_outbox_sent_total 0",
            "outbox_sent_total 0",
            "# TYPE backstitch_doctor_last_run_timestamp_seconds gauge",
        ];
        // Events are counted beside the sagas, so a moment later.
        let text = within(async {
            loop {
                let text = String::from_utf8(client.get("/metrics").await.body.to_vec()).unwrap();
                if expected.iter().all(|line| text.lines().any(|found| found == *line)) {
                    return text;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(promtool(&["check", "metrics"], &text), "");
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 0.0 && value("process_open_fds") > 0.0);
        assert!(value("backstitch_queue_age_seconds{queue=\"work/packing\"}") > 0.0);

        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/alerts.yml");
        promtool(&["check", "rules", rules], "");
        let rules = std::fs::read_to_string(rules).unwrap();
        let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("backstitch_")) {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name} is not measured");
        }
    })
    .await;
}

#[tokio::test]
async fn the_dashboard_asks_for_numbers_that_there_are() {
    let dashboard = include_str!("../../../../../deploy/grafana-dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked = BTreeSet::new();
    for query in queries {
        let words = query["expr"].as_str().unwrap().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let ours = words
            .filter(|word| ["backstitch_", "outbox_", "lifecycle_"].iter().any(|it| word.starts_with(it)));
        asked.extend(ours.map(|name| name.strip_suffix("_bucket").unwrap_or(name)));
    }
    assert!(asked.len() > 15, "{asked:?}");
    let server = Running::start().await;
    // What is counted by name is there once there was something to count.
    server.client.run(&json!({ "definition": "greet" })).await;
    assert_eq!(server.client.post("/v1/sites", &json!({ "site_id": "docs" })).await.status, 202);
    let on = json!({ "to": "source_resolving" });
    let moved = server.client.post("/v1/lifecycles/site-provisioning/docs/transition", &on).await;
    assert_eq!(moved.status, 200, "{moved:?}");
    within(async {
        while !asked.is_empty() {
            let told = server.client.get("/metrics").await;
            let told = String::from_utf8(told.body.to_vec()).unwrap();
            asked.retain(|name| !told.contains(&format!("# TYPE {name} ")));
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The line of a metric without labels, as a number.
async fn number(server: &Running, name: &str) -> f64 {
    let text = String::from_utf8(server.client.get("/metrics").await.body.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    line.parse().unwrap()
}

#[tokio::test]
async fn age_of_the_oldest_message_is_in_health_and_metrics() {
    // Nothing listens there, so the alert waits.
    let nowhere = |config: &mut Config| config.alerts.webhook.url = Some(Secret::new("http://127.0.0.1:1/"));
    let server = Running::start_with(nowhere).await;
    let health = async |threshold: &str| {
        server.client.get(&format!("/v1/health?stuck_after={threshold}")).await.json()
    };
    assert_eq!(health("10m").await["oldest_outbox_seconds"], json!(null));
    assert_eq!(number(&server, "outbox_age_seconds{percentile=\"100\"}").await.to_bits(), 0.0_f64.to_bits());
    let id = server.client.run(&json!({ "definition": "stuck" })).await["id"].as_str().unwrap().to_owned();
    let first = health("10m").await["oldest_outbox_seconds"].as_f64().unwrap();
    let second = health("10m").await["oldest_outbox_seconds"].as_f64().unwrap();
    assert!(second > first && first >= 0.0, "{first} {second}");
    assert!(number(&server, "outbox_age_seconds{percentile=\"100\"}").await > second);
    server.switches.repair_undo();
    let note = json!({ "action": "retry", "note": "ada: the service is back" });
    server.client.post(&format!("/v1/sagas/{id}/steps/reserve/resolve"), &note).await;
    let ended = server.client.ended(&id).await;
    assert_eq!(ended["status"], "compensated");
    assert_eq!(health("10m").await["status"], "ok");
    assert_eq!(health("0s").await["status"], "attention", "the alert has waited for longer than that");
}

#[tokio::test]
async fn trace_continues_the_callers_trace() {
    let collector = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let db = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let mut program = Program::serve(&db, &[("BACKSTITCH_TELEMETRY_OTLP_ENDPOINT", &endpoint)]).await;
    let parent = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    program.client.send(hyper::Method::GET, "/v1/sagas", &parent, "").await;
    program.terminate();
    let (mut connection, _) = within(collector.accept()).await.unwrap();
    let mut received = Vec::new();
    let trace_id = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
    while !received.windows(16).any(|window| window == trace_id) {
        let read = within(connection.read_buf(&mut received)).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&received));
    }
    assert!(received.starts_with(b"POST /v1/traces HTTP/1.1"));
    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    assert_eq!(program.exit_code().await, Some(0));
}
