//! Paths of resources whose keys may contain any character.

use std::fmt::Write as _;

/// Routes below `/v1/lifecycles/{machine}/` that a key of the same name would shadow.
const RESERVED_KEYS: [&str; 2] = ["apply", "staged"];

/// The path of one lifecycle. `machine` must be a valid path segment; `key` is escaped here.
#[must_use]
pub fn lifecycle_path(machine: &str, key: &str) -> String {
    let mut path = format!("/v1/lifecycles/{machine}/");
    for (place, byte) in key.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        // Escaping its first byte keeps a reserved key from matching the route.
        if is_plain && !(place == 0 && RESERVED_KEYS.contains(&key)) {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifecycle_keys_are_escaped() {
        assert_eq!(lifecycle_path("parcel", "p-1.a_b~c"), "/v1/lifecycles/parcel/p-1.a_b~c");
        assert_eq!(lifecycle_path("parcel", "a/b ü?"), "/v1/lifecycles/parcel/a%2Fb%20%C3%BC%3F");
        assert_eq!(lifecycle_path("parcel", "apply"), "/v1/lifecycles/parcel/%61pply");
        assert_eq!(lifecycle_path("parcel", "staged"), "/v1/lifecycles/parcel/%73taged");
    }
}
