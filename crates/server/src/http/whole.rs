//! Whole numbers in the body of a request. JSON has one kind of number: `30` and `30.0` are the same.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// From this number on not every whole number is a double.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// A whole number, for `#[serde(deserialize_with = "whole")]`.
pub(crate) fn whole<'de, T: TryFrom<i128>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Whole::deserialize(from).map(|Whole(number)| number)
}

/// The same for a number that may be `null`.
pub(crate) fn optional_whole<'de, T: TryFrom<i128>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<Whole<T>>::deserialize(from)?.map(|Whole(number)| number))
}

struct Whole<T>(T);

impl<'de, T: TryFrom<i128>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_i64(Number(PhantomData)).map(Self)
    }
}

struct Number<T>(PhantomData<T>);

impl<T: TryFrom<i128>> Number<T> {
    fn fitting<E: Error>(&self, number: i128, unexpected: Unexpected<'_>) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(unexpected, self))
    }
}

impl<T: TryFrom<i128>> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(type_name::<T>())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.fitting(number.into(), Unexpected::Signed(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.fitting(number.into(), Unexpected::Unsigned(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        if number.fract() != 0.0 || number.abs() >= LARGEST_EXACT {
            return Err(E::invalid_type(Unexpected::Float(number), &self));
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough to be exact")]
        let whole = number as i128;
        self.fitting(whole, Unexpected::Float(number))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Body {
        #[serde(deserialize_with = "whole")]
        limit: u32,
        #[serde(default, deserialize_with = "optional_whole")]
        cursor: Option<i64>,
    }

    #[test]
    fn a_whole_number_is_read_however_it_is_written() {
        for (limit, cursor) in [("30", "-7"), ("30.0", "-7.0"), ("3e1", "-0.7e1")] {
            let read: Body =
                serde_json::from_str(&format!("{{\"limit\": {limit}, \"cursor\": {cursor}}}")).unwrap();
            assert_eq!(read, Body { limit: 30, cursor: Some(-7) });
        }
        assert_eq!(serde_json::from_value::<Body>(json!({ "limit": 0 })).unwrap().cursor, None);
        assert_eq!(
            serde_json::from_value::<Body>(json!({ "limit": 0, "cursor": null })).unwrap().cursor,
            None
        );
    }

    #[test]
    fn every_other_number_is_refused() {
        for (limit, told) in [
            ("1.5", "invalid type: floating point `1.5`, expected u32"),
            ("-1", "invalid value: integer `-1`, expected u32"),
            ("4294967296", "invalid value: integer `4294967296`, expected u32"),
            ("\"1\"", "invalid type: string \"1\", expected u32"),
        ] {
            let refused = serde_json::from_str::<Body>(&format!("{{\"limit\": {limit}}}")).unwrap_err();
            assert!(refused.to_string().starts_with(told), "{refused}");
        }
    }
}
