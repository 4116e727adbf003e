//! JSON that is passed on as it is written, and that not everybody could read.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Refuses what is JSON by its grammar and nothing that programs can hold: half of a character in escapes, a number beyond all
/// that a double can be. What is kept as text would pass otherwise, and break whoever reads it later.
///
/// # Errors
/// What it is, and where.
pub fn check(json: &[u8]) -> Result<(), serde_json::Error> {
    serde_json::from_slice(json).map(|Readable| ())
}

/// Anything, each part of it read and forgotten.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while fields.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_hold_is_told_with_its_place() {
        for fine in [
            "null",
            "[1, -2, 1e300, true]",
            r#"{"a": "\ud83d\ude00", "b": {"c": [12345678901234567890123]}}"#,
        ] {
            assert!(check(fine.as_bytes()).is_ok(), "{fine}");
        }
        for (odd, told) in [
            (r#"{"a": "\ud800"}"#, "hex escape"),
            (r#"["\udc00 alone"]"#, "hex escape"),
            (r#"{"\ud800": 1}"#, "hex escape"),
            (r#"{"a": [1e400]}"#, "number out of range"),
        ] {
            let why = check(odd.as_bytes()).unwrap_err();
            assert!(why.to_string().contains(told) && why.line() == 1 && why.column() > 1, "{odd}: {why}");
        }
    }
}
