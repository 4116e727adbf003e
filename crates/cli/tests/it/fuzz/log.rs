//! The server's log during the fuzzing.

use std::path::Path;

use serde_json::Value;

/// A panic is not a line of JSON, and what broke is an error or has a status from 500 on.
pub(crate) fn holds_no_breakdown(log: &Path) {
    let text = std::fs::read_to_string(log).unwrap();
    let breakdowns: Vec<&str> = text.lines().filter(|line| is_breakdown(line)).collect();
    assert!(breakdowns.is_empty(), "{}", breakdowns.join("\n"));
    let requests = text.lines().filter(|line| line.contains("\"message\":\"request\"")).count();
    assert!(requests > 200, "the server was not fuzzed: it had {requests} requests");
}

fn is_breakdown(line: &str) -> bool {
    let Ok(entry) = serde_json::from_str::<Value>(line) else { return true };
    // Alerts are logged as errors, but are none of the server.
    let is_alert =
        entry["target"].as_str().is_some_and(|target| target.starts_with("backstitch_modules::alerts"));
    (entry["level"] == "ERROR" && !is_alert) || entry["status"].as_u64().is_some_and(|status| status >= 500)
}
