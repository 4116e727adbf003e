//! Where a lifecycle is to be found.

use std::fmt::Write as _;

/// What the routes of a machine are called beside its keys.
const TAKEN: [&str; 2] = ["apply", "staged"];

/// The path of one, whatever its key is made of.
pub(crate) fn of(machine: &str, key: &str) -> String {
    let mut path = format!("/v1/lifecycles/{machine}/");
    for (place, byte) in key.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        // Escaped, such a key is not taken for the route.
        if is_plain && !(place == 0 && TAKEN.contains(&key)) {
            path.push(char::from(byte));
        } else {
            // Writing to text cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_escaped_where_a_path_would_take_it_for_something_else() {
        assert_eq!(of("parcel", "p-1.a_b~c"), "/v1/lifecycles/parcel/p-1.a_b~c");
        assert_eq!(of("parcel", "a/b ü?"), "/v1/lifecycles/parcel/a%2Fb%20%C3%BC%3F");
        assert_eq!(of("parcel", "apply"), "/v1/lifecycles/parcel/%61pply");
        assert_eq!(of("parcel", "staged"), "/v1/lifecycles/parcel/%73taged");
    }
}
