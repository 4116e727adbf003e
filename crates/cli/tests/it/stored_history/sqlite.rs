//! Stored history in a SQLite file, under the statements of a program that is not ours.

use backstitch::store::sqlite::allow_guarded_writes;
use rusqlite::Connection;

use super::attempts::{Catalog, Column, Dialect, Shape, assert_complete, attempts, only, queries};
use super::tables::{Row, SEED};
use crate::support::Place;

struct Sqlite;

impl Dialect for Sqlite {
    fn filled(&self, sql: &str) -> String {
        let mut sql = sql.to_owned();
        for number in 1..=6 {
            let id = format!("x'019b000000007000800000000000000{number}'");
            sql = sql.replace(&format!("{{id:{number}}}"), &id);
        }
        sql.replace("{t}", "1700000000000000")
            .replace("{bytes}", "zeroblob(32)")
            .replace("{other_bytes}", "randomblob(32)")
            .replace("{true}", "1")
            .replace("{false}", "0")
    }

    fn overwrites(&self, table: &str, shape: &Shape, find: &str, column: &str, value: &str) -> Vec<String> {
        let copied = shape.copied(table, find, column, value).replace("{overriding} ", "");
        vec![
            format!("insert or replace into {table} {copied}"),
            format!("insert into {table} {copied} on conflict do update set {column} = excluded.{column}"),
            format!("update or replace {table} set {column} = {value} where {find}"),
        ]
    }

    fn truncates(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn as_text(&self, column: &str) -> String {
        format!("quote({column})")
    }

    fn free(&self, row: &Row) -> &'static [&'static str] {
        if row.shut_on_sqlite { &[] } else { row.free }
    }
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare_cached(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn catalog(connection: &Connection) -> Catalog {
    let tables = "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'";
    let shape = |table: String| {
        let names = texts(connection, &format!("select name from pragma_table_info('{table}')"));
        let mut columns: Vec<Column> = names
            .into_iter()
            .map(|name| {
                let mut values = texts(
                    connection,
                    &format!("select distinct quote({name}) from {table} order by 1 limit 4"),
                );
                values.extend(["4242", "'other'", "x'00'", "null"].map(str::to_owned));
                Column { name, values, is_listed: true }
            })
            .collect();
        // An update of it goes past triggers that name the column which is its alias.
        if let Ok(mut statement) = connection.prepare(&format!("select rowid from {table}")) {
            let rows = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
            let mut values: Vec<String> = rows.map(|id| id.unwrap().to_string()).collect();
            values.push("4242".to_owned());
            columns.push(Column { name: "rowid".to_owned(), values, is_listed: false });
        }
        let key = texts(connection, &format!("select name from pragma_table_info('{table}') where pk > 0"));
        (table, Shape { columns, key })
    };
    texts(connection, tables).into_iter().map(shape).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_refuses_every_change_of_stored_history() {
    let place = Place::Sqlite(tempfile::tempdir().unwrap());
    place.migrate().await;
    let open = || Connection::open(place.db().strip_prefix("sqlite:").unwrap()).unwrap();
    let ours = open();
    allow_guarded_writes(&ours).unwrap();
    ours.execute_batch(&Sqlite.filled(SEED)).unwrap();
    // As the sqlite3 shell opens it.
    let connection = open();
    connection
        .execute_batch("pragma recursive_triggers = off; pragma foreign_keys = off; pragma synchronous = off")
        .unwrap();
    connection.set_prepared_statement_cache_capacity(200);
    let catalog = catalog(&connection);
    assert_complete(&catalog);

    let queries = queries(&Sqlite, &catalog);
    let before: Vec<String> = queries.iter().map(|query| only(query, texts(&connection, query))).collect();
    for attempt in attempts(&Sqlite, &catalog) {
        connection.execute_batch("begin").unwrap();
        let answer = connection.execute_batch(&attempt);
        for (query, was) in queries.iter().zip(&before) {
            let is = texts(&connection, query);
            assert!(is.contains(was), "{attempt}\nanswered {answer:?} and changed\n{was}\nto {is:?}");
        }
        connection.execute_batch("rollback").unwrap();
    }
}
