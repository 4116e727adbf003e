//! Whether the server says of itself that it can do its work.

use serde_json::json;

use crate::support::{Running, within};

#[tokio::test]
async fn a_server_that_cannot_write_is_not_ready_until_it_can() {
    let server = Running::start().await;
    assert_eq!(server.client.get("/health/ready").await.status, 200);
    let path = server.db.strip_prefix("sqlite:").unwrap();
    // Whoever holds the file keeps everybody from writing, and nobody from reading.
    let holder = rusqlite::Connection::open(path).unwrap();
    holder.execute_batch("begin immediate").unwrap();
    let refused = within(server.client.post("/v1/sagas", &json!({ "definition": "greet" }))).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    let answer = within(async {
        loop {
            let answer = server.client.get("/health/ready").await;
            if answer.status != 200 {
                return answer;
            }
        }
    })
    .await;
    assert_eq!((answer.status, answer.problem().as_str()), (503, "unavailable"), "{answer:?}");
    assert_eq!(server.client.get("/v1/sagas").await.status, 200, "what is there can be read");

    // Nobody starts anything, and it becomes ready all the same.
    holder.execute_batch("rollback").unwrap();
    within(async { while server.client.get("/health/ready").await.status != 200 {} }).await;
}
