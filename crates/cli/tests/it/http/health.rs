//! Whether the server says of itself that it can do its work.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::http::support::{Client, Running};

/// Whoever cannot write waits for the file for a while, one after the other.
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
    // Whoever holds the file keeps everybody from writing, and nobody from reading.
    let holder = rusqlite::Connection::open(path).unwrap();
    holder.execute_batch("begin immediate").unwrap();
    let body = json!({ "definition": "greet" });
    let refused = timeout(PATIENCE, server.client.post("/v1/sagas", &body)).await.unwrap();
    assert_eq!(refused.status, 503, "{refused:?}");
    let answer = readiness(&server.client, 503).await;
    assert_eq!(answer.problem(), "unavailable");
    assert_eq!(server.client.get("/v1/sagas").await.status, 200, "what is there can be read");

    // Nobody starts anything, and it becomes ready all the same.
    holder.execute_batch("rollback").unwrap();
    readiness(&server.client, 200).await;
}
