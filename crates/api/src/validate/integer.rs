//! Whole numbers of requests.

use utoipa::PartialSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use super::{Input, Node};

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Input for $integer {
            fn read(node: &Node<'_>) -> Option<Self> {
                node.number()
            }

            fn schema() -> RefOr<Schema> {
                <Self as PartialSchema>::schema()
            }
        }
    )*};
}

integers!(i64, u32, u64);

/// A whole number within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded<T, const LEAST: u64, const MOST: u64>(pub T);

impl<T, const LEAST: u64, const MOST: u64> Bounded<T, LEAST, MOST> {
    /// Checks a number that comes from somewhere else than a request.
    ///
    /// # Errors
    /// What to use, when it is out of bounds.
    pub fn check(number: u64) -> Result<(), String> {
        if (LEAST..=MOST).contains(&number) {
            return Ok(());
        }
        Err(out_of_bounds(number.into(), LEAST, MOST))
    }
}

/// The number of a row.
pub type RowNumber = Bounded<i64, 1, { i64::MAX.unsigned_abs() }>;

fn out_of_bounds(number: i128, least: u64, most: u64) -> String {
    format!("is {number}: use {least} to {most}")
}

impl<T: TryFrom<i128>, const LEAST: u64, const MOST: u64> Input for Bounded<T, LEAST, MOST> {
    fn read(node: &Node<'_>) -> Option<Self> {
        let number: i128 = node.number()?;
        let bounds = i128::from(LEAST)..=i128::from(MOST);
        let read = bounds.contains(&number).then(|| T::try_from(number).ok()).flatten();
        if read.is_none() {
            node.wrong(out_of_bounds(number, LEAST, MOST));
        }
        read.map(Self)
    }

    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        // Bounds are decimals of JSON, which have room for every bound in use.
        number
            .minimum(Some(i64::try_from(LEAST).unwrap_or(i64::MAX)))
            .maximum(Some(i64::try_from(MOST).unwrap_or(i64::MAX)))
            .into()
    }
}
