//! Readiness and health.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::http::support::{Client, Running};
use crate::support::program::{create_key, output_of};

/// Writers wait for the file for a while, one after the other.
const PATIENCE: Duration = backstitch_testkit::PATIENCE;

/// Asks until the answer has this status.
async fn readiness(client: &Client, status: u16) -> crate::http::support::Answer {
    let asked = async {
        loop {
            let answer = client.get("/health/ready").await;
            if answer.status == status {
                return answer;
            }
        }
    };
    timeout(PATIENCE, asked).await.unwrap()
}

#[tokio::test]
async fn a_server_that_cannot_write_is_not_ready_until_it_can() {
    let server = Running::start().await;
    readiness(&server.client, 200).await;
    let path = server.db.strip_prefix("sqlite:").unwrap();
    // The lock stops writers, not readers.
    let holder = rusqlite::Connection::open(path).unwrap();
    holder.execute_batch("begin immediate").unwrap();
    let body = json!({ "definition": "greet" });
    let refused = timeout(PATIENCE, server.client.post("/v1/sagas", &body)).await.unwrap();
    assert_eq!(refused.status, 503, "{refused:?}");
    let answer = readiness(&server.client, 503).await;
    assert_eq!(answer.problem(), "unavailable");
    assert_eq!(server.client.get("/v1/sagas").await.status, 200, "what is there can be read");

    // The server becomes ready without a start.
    holder.execute_batch("rollback").unwrap();
    readiness(&server.client, 200).await;
}

#[tokio::test]
async fn deleted_database_refuses_starts_and_readiness() {
    let server = Running::start().await;
    readiness(&server.client, 200).await;
    let path = PathBuf::from(server.db.strip_prefix("sqlite:").unwrap());
    let elsewhere = path.with_extension("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    let body = json!({ "definition": "greet" });
    let refused = timeout(PATIENCE, server.client.post("/v1/sagas", &body)).await.unwrap();
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(readiness(&server.client, 503).await.problem(), "unavailable");

    fs::rename(&elsewhere, &path).unwrap();
    readiness(&server.client, 200).await;
    let started = async {
        // The last failed write is remembered for a moment.
        while server.client.post("/v1/sagas", &body).await.status != 202 {}
    };
    timeout(PATIENCE, started).await.unwrap();
}

#[tokio::test]
async fn missing_database_beside_its_key_file_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstitch.db");
    let db = format!("sqlite:{}", path.display());
    create_key(&db, "admin").await;
    assert!(folder.path().join("backstitch.db.key").exists());
    fs::remove_file(&path).unwrap();
    for arguments in [
        vec!["serve", "--db", &db, "--listen", "127.0.0.1:0"],
        vec!["migrate", "--db", &db],
        vec!["keys", "list", "--db", &db],
    ] {
        let refused = output_of(&arguments).await;
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && said.contains("move the key file away"),
            "{arguments:?}: {said}"
        );
        assert!(!path.exists(), "{arguments:?} created a database");
    }
}
