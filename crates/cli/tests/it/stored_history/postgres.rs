//! Stored history in a PostgreSQL database, under statements of the tables' owner.

use tokio_postgres::{Client, NoTls};
use tokio_util::task::AbortOnDropHandle;

use super::attempts::{Catalog, Column, Dialect, Shape, assert_complete, attempts, only, queries};
use super::tables::{Row, SEED};
use crate::support::fresh_database;

struct Postgres;

impl Dialect for Postgres {
    fn filled(&self, sql: &str) -> String {
        let mut sql = sql.to_owned();
        for number in 1..=6 {
            let id = format!("'019b0000-0000-7000-8000-00000000000{number}'::uuid");
            sql = sql.replace(&format!("{{id:{number}}}"), &id);
        }
        sql.replace("{t}", "to_timestamp(1700000000)")
            .replace("{bytes}", "decode(repeat('00', 32), 'hex')")
            .replace("{other_bytes}", "decode(repeat('01', 32), 'hex')")
            .replace("{true}", "true")
            .replace("{false}", "false")
    }

    fn overwrites(&self, table: &str, shape: &Shape, find: &str, column: &str, value: &str) -> Vec<String> {
        if value == "default" {
            return Vec::new();
        }
        let copied =
            shape.copied(table, find, column, value).replace("{overriding}", "overriding system value");
        let key = shape.key.join(", ");
        vec![format!(
            "insert into {table} {copied} on conflict ({key}) do update set {column} = excluded.{column}"
        )]
    }

    fn truncates(&self, table: &str) -> Vec<String> {
        vec![format!("truncate {table}"), format!("truncate {table} cascade")]
    }

    fn as_text(&self, column: &str) -> String {
        format!("quote_nullable({column}::text)")
    }

    fn free(&self, row: &Row) -> &'static [&'static str] {
        row.free
    }
}

async fn texts(client: &Client, sql: &str) -> Vec<String> {
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn column(client: &Client, table: &str, name: String) -> Column {
    let kind = format!(
        "select format_type(atttypid, atttypmod) || '/' || attidentity::text
         from pg_attribute where attrelid = '{table}'::regclass and attname = '{name}'"
    );
    let kind = texts(client, &kind).await.remove(0);
    let (kind, identity) = kind.rsplit_once('/').unwrap();
    let others = format!("select distinct quote_nullable({name}::text) from {table} order by 1 limit 4");
    let mut values = texts(client, &others).await;
    values.push("null".to_owned());
    let other = match kind {
        "bigint" | "integer" => "4242",
        "boolean" => "true",
        "timestamp with time zone" => "2001-01-01Z",
        "uuid" => "019b0000-0000-7000-8000-000000000042",
        _ => "other",
    };
    values.push(format!("'{other}'"));
    for value in &mut values {
        *value = format!("{value}::{kind}");
    }
    if !identity.is_empty() {
        // A column that is generated always takes nothing else from an update.
        values.push("default".to_owned());
    }
    Column { name, values, is_listed: true }
}

async fn catalog(client: &Client) -> Catalog {
    let mut catalog = Catalog::new();
    for table in texts(client, "select tablename::text from pg_tables where schemaname = 'backstitch'").await
    {
        let names = format!(
            "select attname::text from pg_attribute
             where attrelid = '{table}'::regclass and attnum > 0 and not attisdropped order by attnum"
        );
        let mut columns = Vec::new();
        for name in texts(client, &names).await {
            columns.push(column(client, &table, name).await);
        }
        let key = format!(
            "select attname::text from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey)
             where indrelid = '{table}'::regclass and indisprimary"
        );
        let key = texts(client, &key).await;
        catalog.insert(table, Shape { columns, key });
    }
    catalog
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_refuses_every_change_of_stored_history() {
    let (client, connection) = tokio_postgres::connect(&fresh_database().await, NoTls).await.unwrap();
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    client.batch_execute("set search_path = backstitch").await.unwrap();
    client.batch_execute(&Postgres.filled(SEED)).await.unwrap();
    let catalog = catalog(&client).await;
    assert_complete(&catalog);

    let queries = queries(&Postgres, &catalog);
    let mut before = Vec::new();
    for query in &queries {
        before.push(only(query, texts(&client, query).await));
    }
    for attempt in attempts(&Postgres, &catalog) {
        client.batch_execute("begin").await.unwrap();
        // A statement that fails undoes everything.
        if client.batch_execute(&attempt).await.is_ok() {
            for (query, was) in queries.iter().zip(&before) {
                let is = texts(&client, query).await;
                assert!(is.contains(was), "{attempt}\nchanged\n{was}\nto {is:?}");
            }
        }
        client.batch_execute("rollback").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_the_log_of_sagas_that_are_truncated() {
    let (client, connection) = tokio_postgres::connect(&fresh_database().await, NoTls).await.unwrap();
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    client.batch_execute("set search_path = backstitch").await.unwrap();
    client.batch_execute(&Postgres.filled(SEED)).await.unwrap();
    for attempt in ["truncate sagas", "truncate sagas, saga_events", "delete from saga_events"] {
        client.batch_execute(attempt).await.unwrap_err();
    }
    assert_eq!(texts(&client, "select count(*)::text from saga_events").await, ["4"]);
}
