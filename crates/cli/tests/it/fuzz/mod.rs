//! Generated requests to every route, as the API's description allows and forbids them: schemathesis generates them.
//! `./test` installs it.

mod description;
mod documents;
mod log;
mod schemathesis;

use std::fs::File;

use backstitch_demo::services::{Behaviour, Services};
use backstitch_testkit::scale;
use serde_json::json;

use crate::support::population::Population;
use crate::support::{Program, create_key};
use schemathesis::Fuzzer;

const ROLES: [&str; 5] = ["viewer", "client", "worker", "operator", "admin"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_role_gets_only_described_responses() {
    let folder = tempfile::tempdir().unwrap();
    let db = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let mut keys = Vec::new();
    for role in ROLES {
        keys.push((role, create_key(&db, role).await));
    }
    let services = Services::start(Behaviour::Succeed).await.unwrap();
    let log = folder.path().join("log");
    let settings = [
        ("BACKSTITCH_LOG_FORMAT", "json"),
        ("BACKSTITCH_ORDERS_ROLLBACK_RETRIES", "0"),
        // No webhook leaves this machine: no other address is written as one.
        ("BACKSTITCH_EGRESS_ALLOW", "127.0.0.0/8"),
    ];
    let mut program = Program::logging_to(File::create(&log).unwrap(), &db, &settings).await;
    let admin = program.client.with_key(&keys.last().unwrap().1);
    let population = Population::settle(&admin, &services).await;

    let description = description::without_waits(&admin).await;
    let fuzzer = Fuzzer::new(folder.path(), program.client.address, &description, &population);
    let mut findings = Vec::from_iter(fuzzer.run("nobody", None, "fuzzing").await);
    // `./soak` fuzzes as every role; `./test` only as admin, who reaches every handler.
    for (role, key) in keys.iter().filter(|(role, _)| scale::is_soak() || *role == "admin") {
        // Only an administrator's requests get as far as having their values checked.
        let phases = match (*role, scale::is_soak()) {
            ("admin", true) => "examples,coverage,fuzzing",
            ("admin", false) => "examples,fuzzing",
            _ => "fuzzing",
        };
        findings.extend(fuzzer.run(role, Some(key), phases).await);
    }
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));

    population.is_still_there(&admin).await;
    let order = json!({ "order_id": "o", "customer_id": "c", "items": [{ "sku": "book", "quantity": 1 }], "amount": 1 });
    crate::support::population::reopen_services(&admin, &services).await;
    let confirmed = admin.post("/v1/orders", &order).await;
    assert_eq!(confirmed.status, 202, "{confirmed:?}");
    let tx_id = confirmed.json()["tx_id"].as_str().unwrap().to_owned();
    let ended = admin.ended_order(&tx_id).await;
    assert_eq!(ended["outcome"], "complete", "{ended}");
    program.terminate();
    assert_eq!(program.exit_code().await, Some(0));
    log::holds_no_breakdown(&log);
}
