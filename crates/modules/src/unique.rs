//! Objects of JSON in which no name is there twice.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

/// Reads an object. Of two values under one name nobody could say which is meant.
///
/// # Errors
/// When it is no object, one of its values does not fit, or a name is there twice; that is where the second one stands.
pub fn each_name_once<'de, D, V>(from: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    from.deserialize_map(EachOnce(PhantomData))
}

struct EachOnce<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for EachOnce<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(name) = from.next_key::<String>()? {
            if members.contains_key(&name) {
                from.next_value_seed(Twice(&name))?;
            }
            let value = from.next_value()?;
            members.insert(name, value);
        }
        Ok(members)
    }
}

/// Refuses a value where it stands, so that its place is told.
struct Twice<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Twice<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Err(D::Error::custom(format!("`{}` is there twice: give it once", self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BTreeMap<String, u32>, String> {
        let mut reader = serde_json::Deserializer::from_str(text);
        each_name_once(&mut reader).map_err(|why| why.to_string())
    }

    #[test]
    fn a_name_that_is_there_twice_is_refused_however_it_is_written() {
        assert_eq!(read(r#"{"a": 1, "b": 2}"#).unwrap().len(), 2);
        for twice in [r#"{"a": 1, "a": 1}"#, r#"{"a": 1, "b": 2, "\u0061": 3}"#] {
            let why = read(twice).unwrap_err();
            assert!(why.contains("`a` is there twice: give it once"), "{why}");
        }
        assert!(read("[1]").unwrap_err().contains("expected an object"));
    }
}
