//! The whole response, and the metric.

use hyper::Method;

use crate::doctor::stage::{open, plant};
use crate::support::{Place, on_both, within};

const CHECKS: [&str; 20] = [
    "unattended_sagas",
    "stuck_sagas",
    "failed_rollbacks",
    "definitions",
    "nodes",
    "jobs",
    "outbox",
    "dead_letters",
    "alerts",
    "webhooks",
    "lifecycles",
    "clock",
    "database_version",
    "schema_version",
    "writes",
    "retention",
    "parked_items",
    "disk_space",
    "write_ahead_log",
    "settings",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_check_is_listed_and_documented() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let said = open.diagnosis().await;
        let names: Vec<_> =
            said["checks"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, CHECKS);
        assert!(said["checked_at"].as_str().unwrap().ends_with('Z'), "{said}");
        let page = include_str!("../../../../../docs/doctor.md");
        for name in CHECKS {
            assert!(page.contains(&format!("## `{name}`")), "docs/doctor.md has nothing about {name}");
        }
        let refused = open.client.send(Method::GET, "/v1/doctor?deep=true", &[], "").await;
        assert_eq!(refused.status, 400, "{refused:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_metric_exists_without_a_request() {
    on_both(async |place: Place| {
        let open = open(&place, &[("BACKSTITCH_DOCTOR_INTERVAL", "1s")]).await;
        let metrics = async || String::from_utf8(open.client.get("/metrics").await.body.to_vec()).unwrap();
        let shows = async |line: &str| {
            within(async { while !metrics().await.lines().any(|found| found == line) {} }).await;
        };
        let name = "backstitch_doctor_findings{check=\"unattended_sagas\",severity=\"error\"}";
        shows(&format!("{name} 0")).await;
        plant(&place, 1, "parcel", "null", "null").await;
        shows(&format!("{name} 1")).await;
        let last = "backstitch_doctor_last_run_timestamp_seconds ";
        let text = metrics().await;
        let run = text.lines().find_map(|line| line.strip_prefix(last)).unwrap();
        assert!(run.parse::<f64>().unwrap() > 1_700_000_000.0, "{run}");
    })
    .await;
}
