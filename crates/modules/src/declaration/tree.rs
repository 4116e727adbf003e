//! From text to a tree: broken, giant, endless and ambiguous documents end here.

use backstitch::{Problem, Problems};
use backstitch_api::validate::Tree;
use serde_json::Value;
use serde_saphyr::options::MergeKeyPolicy;

use super::Format;

/// The largest document, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// The deepest nesting.
const MAX_DEPTH: usize = 64;
/// The most values that a YAML document may have, those that aliases repeat included.
const MAX_NODES: usize = 100_000;

/// The document as a tree.
pub(crate) fn parse(bytes: &[u8], format: Format) -> Result<Value, Problems> {
    if bytes.len() > MAX_BYTES {
        let message = format!("is {} bytes long; the limit is {MAX_BYTES}", bytes.len());
        return Err(broken("the definition", message));
    }
    let text = std::str::from_utf8(bytes).map_err(|why| {
        let line = bytes[..why.valid_up_to()].split(|byte| *byte == b'\n').count();
        broken(format!("line {line}"), "is not UTF-8: save the file in that encoding")
    })?;
    // Some editors begin a file with this mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = match format {
        Format::Json => json(text)?,
        Format::Yaml => yaml(text)?,
    };
    if depth(&tree) > MAX_DEPTH {
        return Err(broken("the definition", format!("is nested more than {MAX_DEPTH} deep")));
    }
    Ok(tree)
}

fn json(text: &str) -> Result<Value, Problems> {
    serde_json::from_str(text).map(|Tree(value)| value).map_err(|why| {
        let place = format!("line {}, column {}", why.line(), why.column());
        broken(place, format!("is not JSON: {}", without_place(&why.to_string())))
    })
}

fn yaml(text: &str) -> Result<Value, Problems> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_documents: 1,
            max_recorded_anchor_events: MAX_NODES,
            max_recorded_anchor_bytes: MAX_BYTES,
            max_total_scalar_bytes: 2 * MAX_BYTES,
        },
        merge_keys: MergeKeyPolicy::Merge,
        // `no` is text, as in YAML 1.2.
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map(|Tree(value)| value).map_err(|why| {
        let place = why.location().map_or_else(
            || "the definition".to_owned(),
            |at| format!("line {}, column {}", at.line(), at.column()),
        );
        broken(place, format!("is not YAML: {}", without_place(&why.without_snippet().to_string())))
    })
}

/// An error's message; its place is told apart.
fn without_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message)
}

fn broken(place: impl Into<String>, message: impl Into<String>) -> Problems {
    Problems(vec![Problem { place: place.into(), message: message.into() }])
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
