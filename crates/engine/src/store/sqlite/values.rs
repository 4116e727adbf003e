//! Columns as values. One that cannot be read is named by table, column and row.

use std::fmt::Display;

use backstitch_kernel::saga::Status;
use backstitch_kernel::{Payload, SagaId, StepId, Timestamp};
use rusqlite::Row;
use rusqlite::types::FromSql;
use uuid::Uuid;

use crate::store::Corrupt;

/// A number as `SQLite` keeps it. No count of ours comes near its end.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit as `SQLite` takes it.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A row whose columns are read by name.
pub(super) struct RowReader<'r> {
    table: &'static str,
    id: &'r dyn Display,
    row: &'r Row<'r>,
}

impl<'r> RowReader<'r> {
    /// The row of this id; an error message will name both.
    pub(super) fn of(table: &'static str, id: &'r dyn Display, row: &'r Row<'r>) -> Self {
        Self { table, id, row }
    }

    fn corrupt(&self, column: &'static str, why: &impl ToString) -> Corrupt {
        Corrupt { table: self.table, column, id: self.id.to_string(), why: why.to_string() }
    }

    /// The value as it stands.
    pub(super) fn get<T: FromSql>(&self, column: &'static str) -> Result<T, Corrupt> {
        self.row.get(column).map_err(|why| self.corrupt(column, &why))
    }

    /// Text, without a copy of it.
    pub(super) fn text(&self, column: &'static str) -> Result<&'r str, Corrupt> {
        let value = self.row.get_ref(column).map_err(|why| self.corrupt(column, &why))?;
        value.as_str().map_err(|why| self.corrupt(column, &why))
    }

    /// Text that may be absent.
    pub(super) fn optional_text(&self, column: &'static str) -> Result<Option<&'r str>, Corrupt> {
        let value = self.row.get_ref(column).map_err(|why| self.corrupt(column, &why))?;
        value.as_str_or_null().map_err(|why| self.corrupt(column, &why))
    }

    /// A number that cannot be negative.
    pub(super) fn count<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T, Corrupt>
    where
        T::Error: Display,
    {
        let number: i64 = self.get(column)?;
        T::try_from(number).map_err(|why| self.corrupt(column, &format!("{number}: {why}")))
    }

    /// Exactly so many bytes.
    pub(super) fn bytes<const N: usize>(&self, column: &'static str) -> Result<[u8; N], Corrupt> {
        self.get(column)
    }

    /// A saga's id.
    pub(super) fn saga(&self, column: &'static str) -> Result<SagaId, Corrupt> {
        Ok(SagaId(Uuid::from_bytes(self.bytes(column)?)))
    }

    /// A point in time.
    pub(super) fn time(&self, column: &'static str) -> Result<Timestamp, Corrupt> {
        Ok(Timestamp::from_micros(self.get(column)?))
    }

    /// A point in time that may be absent.
    pub(super) fn optional_time(&self, column: &'static str) -> Result<Option<Timestamp>, Corrupt> {
        Ok(self.get::<Option<i64>>(column)?.map(Timestamp::from_micros))
    }

    /// A step that may be absent.
    pub(super) fn optional_step(&self, column: &'static str) -> Result<Option<StepId>, Corrupt> {
        Ok(self.optional_text(column)?.map(StepId::from))
    }

    /// JSON.
    pub(super) fn payload(&self, column: &'static str) -> Result<Payload, Corrupt> {
        Payload::parse(self.text(column)?).map_err(|why| self.corrupt(column, &why))
    }

    /// A saga's status.
    pub(super) fn status(&self) -> Result<Status, Corrupt> {
        let name = self.text("status")?;
        Status::parse(name).ok_or_else(|| self.corrupt("status", &format!("`{name}` is no status")))
    }
}
