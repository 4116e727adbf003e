//! A question to either database, asked once: its text in both dialects, its values, and the rows of its answer.

use backstitch::Timestamp;
use backstitch::store::{Error, postgres};
use bytes::BytesMut;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::error::Error as StdError;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::base::{Base, Part, Side};

/// The text of a question.
#[derive(Clone, Copy)]
pub(super) struct Statement {
    pub(super) sqlite: &'static str,
    pub(super) postgres: &'static str,
}

/// The question of this name.
macro_rules! statement {
    ($name:literal) => {
        $crate::webhooks::statement::Statement {
            sqlite: include_str!(concat!("../../queries/sqlite/webhooks/", $name, ".sql")),
            postgres: include_str!(concat!("../../queries/postgres/webhooks/", $name, ".sql")),
        }
    };
}
pub(super) use statement;

/// A value that both databases know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Integer(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Time(Option<Timestamp>),
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
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT4, Type::INT8, Type::TEXT, Type::VARCHAR, Type::BYTEA, Type::TIMESTAMPTZ].contains(kind)
    }

    to_sql_checked!();
}

/// A row of an answer.
#[derive(Debug)]
pub(super) struct Record(Vec<Value>);

impl Record {
    pub(super) fn optional_integer(&self, column: usize) -> Result<Option<i64>, Error> {
        match self.0.get(column) {
            Some(Value::Integer(number)) => Ok(*number),
            other => unreadable(column, other),
        }
    }

    pub(super) fn integer(&self, column: usize) -> Result<i64, Error> {
        self.optional_integer(column)?.map_or_else(|| unreadable(column, None), Ok)
    }

    /// A number that cannot be below zero.
    pub(super) fn count(&self, column: usize) -> Result<u32, Error> {
        u32::try_from(self.integer(column)?).or_else(|_| unreadable(column, None))
    }

    pub(super) fn flag(&self, column: usize) -> Result<bool, Error> {
        Ok(self.integer(column)? != 0)
    }

    pub(super) fn optional_text(&self, column: usize) -> Result<Option<String>, Error> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(text.clone()),
            // A file does not say what kind of nothing it holds.
            Some(Value::Integer(None)) => Ok(None),
            other => unreadable(column, other),
        }
    }

    pub(super) fn text(&self, column: usize) -> Result<String, Error> {
        self.optional_text(column)?.map_or_else(|| unreadable(column, None), Ok)
    }

    pub(super) fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Error> {
        match self.0.get(column) {
            Some(Value::Bytes(bytes)) => Ok(bytes.clone()),
            Some(Value::Integer(None)) => Ok(None),
            other => unreadable(column, other),
        }
    }

    pub(super) fn optional_time(&self, column: usize) -> Result<Option<Timestamp>, Error> {
        match self.0.get(column) {
            Some(Value::Time(time)) => Ok(*time),
            Some(Value::Integer(micros)) => Ok(micros.map(Timestamp::from_micros)),
            other => unreadable(column, other),
        }
    }

    pub(super) fn time(&self, column: usize) -> Result<Timestamp, Error> {
        self.optional_time(column)?.map_or_else(|| unreadable(column, None), Ok)
    }

    fn of_file(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<Self> {
        let cell = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => Value::Integer(None),
                ValueRef::Integer(number) => Value::Integer(Some(number)),
                ValueRef::Text(_) => Value::Text(row.get(column)?),
                ValueRef::Blob(_) | ValueRef::Real(_) => Value::Bytes(row.get(column)?),
            })
        };
        (0..columns).map(cell).collect::<rusqlite::Result<_>>().map(Self)
    }

    fn of_server(row: &tokio_postgres::Row) -> Result<Self, tokio_postgres::Error> {
        let cell = |(column, of): (usize, &tokio_postgres::Column)| {
            Ok(match *of.type_() {
                Type::INT4 => Value::Integer(row.try_get::<_, Option<i32>>(column)?.map(i64::from)),
                Type::BOOL => Value::Integer(row.try_get::<_, Option<bool>>(column)?.map(i64::from)),
                Type::BYTEA => Value::Bytes(row.try_get(column)?),
                Type::TIMESTAMPTZ => {
                    let time: Option<std::time::SystemTime> = row.try_get(column)?;
                    Value::Time(time.map(postgres::timestamp))
                }
                Type::TEXT | Type::VARCHAR => Value::Text(row.try_get(column)?),
                _ => Value::Integer(row.try_get(column)?),
            })
        };
        row.columns().iter().enumerate().map(cell).collect::<Result<_, _>>().map(Self)
    }
}

impl Base {
    /// Asks what changes nothing.
    pub(super) async fn read(
        &self,
        part: Part,
        statement: Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, Error> {
        self.read_text(part, statement.sqlite, statement.postgres, values).await
    }

    /// The same with texts that were put together.
    pub(super) async fn read_text(
        &self,
        part: Part,
        sqlite: impl Into<String>,
        postgres: &str,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, Error> {
        match self.side(part)? {
            Side::Sqlite(file) => {
                let sql = sqlite.into();
                file.read_product(move |connection| on_file(connection, &sql, &values)).await
            }
            Side::Postgres(server) => answered(&server.query(postgres, &borrowed(&values)).await?),
        }
    }

    /// Changes something, and says what it gave.
    pub(super) async fn change(
        &self,
        part: Part,
        statement: Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, Error> {
        match self.side(part)? {
            Side::Sqlite(file) => {
                file.write_product(move |transaction| on_file(transaction, statement.sqlite, &values)).await
            }
            Side::Postgres(server) => answered(&server.query(statement.postgres, &borrowed(&values)).await?),
        }
    }

    /// Changes in one transaction what `pick` picks in it: every statement is asked with the numbers in its first column. What
    /// changed by the time it had picked them is seen by them.
    pub(super) async fn change_picked<const N: usize>(
        &self,
        part: Part,
        pick: Statement,
        values: Vec<Value>,
        statements: [Statement; N],
    ) -> Result<[Vec<Record>; N], Error> {
        let mut given = [const { Vec::new() }; N];
        match self.side(part)? {
            Side::Sqlite(file) => {
                let change = move |transaction: &rusqlite::Transaction<'_>| {
                    let picked = numbers_on_file(transaction, pick.sqlite, &values)?;
                    for (statement, given) in statements.iter().zip(&mut given) {
                        *given = on_file(transaction, statement.sqlite, &[chosen(&picked)])?;
                    }
                    Ok(given)
                };
                file.write_product(change).await
            }
            Side::Postgres(server) => {
                let unit = server.begin().await?;
                let picked = answered(&unit.query(pick.postgres, &borrowed(&values)).await?)?;
                let picked = picked.iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
                let values = [chosen(&picked)];
                for (statement, given) in statements.iter().zip(&mut given) {
                    *given = answered(&unit.query(statement.postgres, &borrowed(&values)).await?)?;
                }
                unit.commit().await?;
                Ok(given)
            }
        }
    }
}

/// Numbers as both dialects take them: a list in JSON.
pub(super) fn chosen(ids: &[i64]) -> Value {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    format!("[{}]", ids.join(",")).into()
}

fn numbers_on_file(
    connection: &rusqlite::Connection,
    sql: &str,
    values: &[Value],
) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(0))?;
    rows.collect()
}

fn on_file(connection: &rusqlite::Connection, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Record>> {
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    let rows =
        statement.query_map(rusqlite::params_from_iter(values), |row| Record::of_file(row, columns))?;
    rows.collect()
}

fn answered(rows: &[tokio_postgres::Row]) -> Result<Vec<Record>, Error> {
    rows.iter().map(Record::of_server).collect::<Result<_, _>>().map_err(|why| column_unreadable(&why))
}

fn borrowed(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// Text that only people read: a zero byte, which not every database holds, is marked.
pub(super) fn tidied(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The error of a row that does not have the shape it was given.
pub(super) fn column_unreadable(why: &tokio_postgres::Error) -> Error {
    Error::Refused(format!("a row of webhooks cannot be read: {why}"))
}

fn unreadable<T>(column: usize, found: Option<&Value>) -> Result<T, Error> {
    Err(Error::Refused(format!("a row of webhooks cannot be read: column {column} holds {found:?}")))
}
