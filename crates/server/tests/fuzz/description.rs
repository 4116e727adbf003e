//! The description of the API, as it is fuzzed by.

use serde_json::{Value, json};

use crate::support::Client;

/// The server's own, but for the waits that can be asked for: they would only be waited out.
pub(crate) async fn without_waits(client: &Client) -> Value {
    let mut description = client.get("/openapi.json").await.json();
    shorten(&mut description);
    description
}

fn shorten(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.get("name").is_some_and(|name| name == "wait") {
                members["schema"]["maximum"] = json!(0);
            }
            if let Some(wait) = members.get_mut("wait_seconds") {
                wait["maximum"] = json!(0);
            }
            members.values_mut().for_each(shorten);
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        _ => {}
    }
}
