//! A question to either database: its text in both dialects, its values, and the rows of its answer.

use backstitch::store::{Error, postgres};
use backstitch::{SagaId, Timestamp};
use bytes::BytesMut;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::error::Error as StdError;
use std::fmt::Display;
use std::sync::Arc;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// The question of this name, `product/name`, for files right under a product's folder.
macro_rules! statement {
    ($name:literal) => {
        backstitch::store::sql::Statement {
            sqlite: include_str!(concat!("../../queries/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../../queries/postgres/", $name, ".sql")),
        }
    };
}
pub(crate) use backstitch::store::sql::Statement;
pub(crate) use statement;

/// A value that both databases know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Integer(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Time(Option<Timestamp>),
    Id(SagaId),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(Some(number))
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(Some(number.into()))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Integer(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl From<SagaId> for Value {
    fn from(id: SagaId) -> Self {
        Self::Id(id)
    }
}

impl From<Timestamp> for Value {
    fn from(time: Timestamp) -> Self {
        Self::Time(Some(time))
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Integer(Some(number)) => ValueRef::Integer(*number),
            Self::Time(Some(time)) => ValueRef::Integer(time.as_micros()),
            Self::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
            Self::Id(id) => ValueRef::Blob(id.0.as_bytes()),
            Self::Integer(None) | Self::Time(None) | Self::Text(None) | Self::Bytes(None) => ValueRef::Null,
        }))
    }
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Integer(number) if *kind == Type::INT4 => {
                number.map(i32::try_from).transpose()?.to_sql(kind, out)
            }
            Self::Integer(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
            Self::Time(time) => time.map(postgres::time).to_sql(kind, out),
            Self::Id(id) => id.0.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT4, Type::INT8, Type::TEXT, Type::VARCHAR, Type::BYTEA, Type::TIMESTAMPTZ, Type::UUID]
            .contains(kind)
    }

    to_sql_checked!();
}

/// What names a column of an answer.
pub(crate) trait Column: Copy + Display {
    fn position(self, names: &[String]) -> Option<usize>;
}

impl Column for &str {
    fn position(self, names: &[String]) -> Option<usize> {
        names.iter().position(|name| name == self)
    }
}

impl Column for usize {
    fn position(self, _: &[String]) -> Option<usize> {
        Some(self)
    }
}

/// A row of an answer.
#[derive(Debug)]
pub(crate) struct Record {
    names: Arc<[String]>,
    values: Vec<Value>,
}

impl Record {
    fn value(&self, column: impl Column) -> Option<&Value> {
        self.values.get(column.position(&self.names)?)
    }

    pub(crate) fn optional_integer(&self, column: impl Column) -> Result<Option<i64>, Error> {
        match self.value(column) {
            Some(Value::Integer(number)) => Ok(*number),
            other => unreadable(column, other),
        }
    }

    pub(crate) fn integer(&self, column: impl Column) -> Result<i64, Error> {
        self.optional_integer(column)?.map_or_else(|| unreadable(column, None), Ok)
    }

    /// A number that cannot be below zero.
    pub(crate) fn count(&self, column: impl Column) -> Result<u32, Error> {
        u32::try_from(self.integer(column)?).or_else(|_| unreadable(column, None))
    }

    pub(crate) fn flag(&self, column: impl Column) -> Result<bool, Error> {
        Ok(self.integer(column)? != 0)
    }

    pub(crate) fn optional_text(&self, column: impl Column) -> Result<Option<String>, Error> {
        match self.value(column) {
            Some(Value::Text(text)) => Ok(text.clone()),
            // A file does not say what kind of nothing it holds.
            Some(Value::Integer(None)) => Ok(None),
            other => unreadable(column, other),
        }
    }

    pub(crate) fn text(&self, column: impl Column) -> Result<String, Error> {
        self.optional_text(column)?.map_or_else(|| unreadable(column, None), Ok)
    }

    pub(crate) fn optional_bytes(&self, column: impl Column) -> Result<Option<Vec<u8>>, Error> {
        match self.value(column) {
            Some(Value::Bytes(bytes)) => Ok(bytes.clone()),
            Some(Value::Integer(None)) => Ok(None),
            other => unreadable(column, other),
        }
    }

    pub(crate) fn id(&self, column: impl Column) -> Result<SagaId, Error> {
        match self.value(column) {
            Some(Value::Id(id)) => Ok(*id),
            Some(Value::Bytes(Some(bytes))) => match bytes.as_slice().try_into() {
                Ok(bytes) => Ok(SagaId(uuid::Uuid::from_bytes(bytes))),
                Err(_) => unreadable(column, self.value(column)),
            },
            other => unreadable(column, other),
        }
    }

    pub(crate) fn optional_time(&self, column: impl Column) -> Result<Option<Timestamp>, Error> {
        match self.value(column) {
            Some(Value::Time(time)) => Ok(*time),
            Some(Value::Integer(micros)) => Ok(micros.map(Timestamp::from_micros)),
            other => unreadable(column, other),
        }
    }

    pub(crate) fn time(&self, column: impl Column) -> Result<Timestamp, Error> {
        self.optional_time(column)?.map_or_else(|| unreadable(column, None), Ok)
    }

    /// A row of a file as it is found.
    pub(crate) fn of_file_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Self::of_file(row, &row.as_ref().column_names().map(str::to_owned).collect())
    }

    fn of_file(row: &rusqlite::Row<'_>, names: &Arc<[String]>) -> rusqlite::Result<Self> {
        let cell = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => Value::Integer(None),
                ValueRef::Integer(number) => Value::Integer(Some(number)),
                // Whoever reads it as text finds out; the other rows can be read all the same.
                ValueRef::Text(bytes) if str::from_utf8(bytes).is_err() => Value::Bytes(Some(bytes.to_vec())),
                ValueRef::Text(_) => Value::Text(row.get(column)?),
                ValueRef::Blob(_) | ValueRef::Real(_) => Value::Bytes(row.get(column)?),
            })
        };
        let values = (0..names.len()).map(cell).collect::<rusqlite::Result<_>>()?;
        Ok(Self { names: names.clone(), values })
    }

    fn of_server(row: &tokio_postgres::Row, names: &Arc<[String]>) -> Result<Self, tokio_postgres::Error> {
        let cell = |(column, of): (usize, &tokio_postgres::Column)| {
            Ok(match *of.type_() {
                Type::INT4 => Value::Integer(row.try_get::<_, Option<i32>>(column)?.map(i64::from)),
                Type::BOOL => Value::Integer(row.try_get::<_, Option<bool>>(column)?.map(i64::from)),
                Type::BYTEA => Value::Bytes(row.try_get(column)?),
                Type::UUID => Value::Id(SagaId(row.try_get(column)?)),
                Type::TIMESTAMPTZ => {
                    let time: Option<std::time::SystemTime> = row.try_get(column)?;
                    Value::Time(time.map(postgres::timestamp))
                }
                Type::TEXT | Type::VARCHAR => Value::Text(row.try_get(column)?),
                _ => Value::Integer(row.try_get(column)?),
            })
        };
        let values = row.columns().iter().enumerate().map(cell).collect::<Result<_, _>>()?;
        Ok(Self { names: names.clone(), values })
    }
}

/// Numbers as both dialects take them: a list in JSON.
pub(crate) fn chosen(ids: &[i64]) -> Value {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    format!("[{}]", ids.join(",")).into()
}

pub(crate) fn numbers_on_file(
    connection: &rusqlite::Connection,
    sql: &str,
    values: &[Value],
) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(0))?;
    rows.collect()
}

pub(crate) fn on_file(
    connection: &rusqlite::Connection,
    sql: &str,
    values: &[Value],
) -> rusqlite::Result<Vec<Record>> {
    let mut statement = connection.prepare_cached(sql)?;
    let names = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map(rusqlite::params_from_iter(values), |row| Record::of_file(row, &names))?;
    rows.collect()
}

pub(crate) fn answered(rows: &[tokio_postgres::Row]) -> Result<Vec<Record>, Error> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let names = first.columns().iter().map(|column| column.name().to_owned()).collect();
    let records = rows.iter().map(|row| Record::of_server(row, &names));
    records.collect::<Result<_, _>>().map_err(|why| column_unreadable(&why))
}

pub(crate) fn borrowed(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// Text that only people read: a zero byte, which not every database holds, is marked.
pub(crate) fn tidied(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The error of a row that does not have the shape it was given.
pub(crate) fn column_unreadable(why: &tokio_postgres::Error) -> Error {
    Error::Refused(format!("a row cannot be read: {why}"))
}

fn unreadable<T>(column: impl Column, found: Option<&Value>) -> Result<T, Error> {
    Err(Error::Refused(format!("a row cannot be read: column {column} holds {found:?}")))
}
