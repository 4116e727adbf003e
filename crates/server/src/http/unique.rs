//! Objects of JSON in which no name is there twice.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Reads an object. Of two values under one name nobody could say which is meant.
pub(crate) fn each_name_once<'de, D, V>(from: D) -> Result<BTreeMap<String, V>, D::Error>
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
        while let Some((name, value)) = from.next_entry::<String, V>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format!("`{name}` is there twice: give it once")));
            }
            members.insert(name, value);
        }
        Ok(members)
    }
}
