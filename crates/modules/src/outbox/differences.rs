//! Where two documents differ: the places, never what stands there.

use serde_json::Value;

/// Places that are named at most.
const MOST: usize = 50;

/// JSON Pointers (RFC 6901) to what is in one document and not, or otherwise, in the other. At most fifty are named.
#[must_use]
pub(super) fn differences(first: &Value, now: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(first, now, &mut String::new(), &mut found);
    found.truncate(MOST);
    found
}

fn compare(first: &Value, now: &Value, place: &mut String, found: &mut Vec<String>) {
    if found.len() >= MOST {
        return;
    }
    match (first, now) {
        (Value::Object(first), Value::Object(now)) => {
            let mut names: Vec<&String> = first.keys().chain(now.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                at(place, &name.replace('~', "~0").replace('/', "~1"), |place| {
                    compare_kept(first.get(name), now.get(name), place, found);
                });
            }
        }
        (Value::Array(first), Value::Array(now)) => {
            for index in 0..first.len().max(now.len()) {
                at(place, &index.to_string(), |place| {
                    compare_kept(first.get(index), now.get(index), place, found);
                });
            }
        }
        // 1 and 1.0 are one number to whoever compares digests.
        (Value::Number(first), Value::Number(now)) if first.as_f64() == now.as_f64() => {}
        (first, now) if first == now => {}
        _ => found.push(place.clone()),
    }
}

fn compare_kept(first: Option<&Value>, now: Option<&Value>, place: &mut String, found: &mut Vec<String>) {
    match (first, now) {
        (Some(first), Some(now)) => compare(first, now, place, found),
        _ => found.push(place.clone()),
    }
}

/// Steps into a member, and back.
fn at(place: &mut String, member: &str, look: impl FnOnce(&mut String)) {
    let length = place.len();
    place.push('/');
    place.push_str(member);
    look(place);
    place.truncate(length);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_named_and_values_are_not() {
        let first = json!({ "amount": 5, "items": [{ "sku": "secret-1" }, { "sku": "b" }], "note": null, "a/b~c": 1 });
        let now = json!({ "amount": 5.0, "items": [{ "sku": "secret-2" }], "more": true, "a/b~c": 2 });
        let found = differences(&first, &now);
        assert_eq!(found, ["/a~1b~0c", "/items/0/sku", "/items/1", "/more", "/note"]);
        assert!(!found.concat().contains("secret"));
    }

    #[test]
    fn the_same_has_none_and_another_kind_differs_as_a_whole() {
        assert!(differences(&json!({ "b": [1, {}], "a": 1 }), &json!({ "a": 1, "b": [1, {}] })).is_empty());
        assert_eq!(differences(&json!({}), &json!([])), [""]);
        assert_eq!(differences(&json!({ "a": {} }), &json!({ "a": [] })), ["/a"]);
    }

    #[test]
    fn no_more_are_named_than_anybody_reads() {
        let many: Vec<u32> = (0..1000).collect();
        assert_eq!(differences(&json!(many), &json!([])).len(), MOST);
    }
}
