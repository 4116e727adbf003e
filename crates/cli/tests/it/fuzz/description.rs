//! The API's description, prepared for the fuzzer.

use serde_json::Value;

use crate::support::Client;

/// The server's own, but for the waits that can be asked for: they would be waited out.
pub(crate) async fn without_waits(client: &Client) -> Value {
    let mut description = client.get("/openapi.json").await.json();
    remove_waits(&mut description);
    description
}

fn remove_waits(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("wait_seconds");
            members.values_mut().for_each(remove_waits);
        }
        Value::Array(values) => {
            values.retain(|value| value["name"] != "wait");
            values.iter_mut().for_each(remove_waits);
        }
        _ => {}
    }
}
