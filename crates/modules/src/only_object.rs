//! What is an object in JSON, and nothing else.
//!
//! A type with named fields can be read from a list as well, by the order in which its fields are written down. Nobody
//! means that: a list where an object belongs is a mistake, and is told.

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

/// A value that was read from an object.
#[derive(Clone, Debug)]
pub struct OnlyObject<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OnlyObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::deserialize(Object(from)).map(Self)
    }
}

struct Object<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Object<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// One of them, for `deserialize_with`.
///
/// # Errors
/// When it is something else, or does not fit.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    OnlyObject::deserialize(from).map(|OnlyObject(object)| object)
}

/// A list of them.
///
/// # Errors
/// When it is something else, or one of them does not fit.
pub fn list_of_objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list: Vec<OnlyObject<T>> = Vec::deserialize(from)?;
    Ok(list.into_iter().map(|OnlyObject(object)| object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Point {
        x: u32,
        y: Option<u32>,
    }

    #[test]
    fn an_object_is_read_and_a_list_is_none() {
        let read =
            |text: &str| serde_json::from_str::<OnlyObject<Point>>(text).map(|OnlyObject(point)| point);
        assert_eq!(read(r#"{"x": 1}"#).unwrap(), Point { x: 1, y: None });
        for text in ["[1, 2]", "[]", "1", "null", "\"x\""] {
            let why = read(text).unwrap_err().to_string();
            assert!(why.contains("expected struct Point"), "{text}: {why}");
        }
    }
}
