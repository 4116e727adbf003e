//! The named statements of the engine, the products and the server fit the tables that they are about.

use std::sync::Arc;

use backstitch::clock::SystemClock;
use backstitch::store::sqlite::allow_guarded_writes;
use backstitch_server::{Config, admin};
use backstitch_testkit::postgres::empty_database;
use backstitch_testkit::sql::{NamedStatement, statements};
use tokio_postgres::{Client, NoTls};

use crate::support::{Place, fresh_database};

const PACKAGES: [&str; 3] = ["engine", "modules", "server"];

async fn client(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_fits_the_tables_on_sqlite() {
    let place = Place::Sqlite(tempfile::tempdir().unwrap());
    place.migrate().await;
    let connection = rusqlite::Connection::open(place.db().strip_prefix("sqlite:").unwrap()).unwrap();
    allow_guarded_writes(&connection).unwrap();
    for package in PACKAGES {
        for NamedStatement { name, text, .. } in statements(package, "sqlite") {
            assert!(
                connection.prepare(&text).is_ok(),
                "{package} {name}: {:?}",
                connection.prepare(&text).err()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_fits_the_tables_on_postgres() {
    let client = client(&fresh_database().await).await;
    client.batch_execute("set search_path = backstitch").await.unwrap();
    for package in PACKAGES {
        for NamedStatement { name, text, .. } in statements(package, "postgres") {
            let fits = client.prepare(&text).await;
            assert!(fits.is_ok(), "{package} {name}: {:?}", fits.err());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_schema_holds_everything() {
    let address = empty_database().await;
    let config = Config { db: address.clone(), schema: "tenant_a".parse().unwrap(), ..Config::default() };
    let clock: Arc<dyn backstitch::clock::Clock> = Arc::new(SystemClock);
    admin::migrate(&config, &clock).await.unwrap();
    let client = client(&address).await;
    let elsewhere = "select n.nspname || '.' || c.relname
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname not in ('tenant_a', 'pg_catalog', 'pg_toast', 'information_schema')";
    let elsewhere = client.query(elsewhere, &[]).await.unwrap();
    assert!(elsewhere.is_empty(), "{:?}", elsewhere.iter().map(|row| row.get(0)).collect::<Vec<String>>());
    for table in ["sagas", "webhook_events", "lifecycles", "orders", "api_keys", "audit"] {
        client.batch_execute(&format!("select from tenant_a.{table}")).await.unwrap();
    }
    let grants = "select has_table_privilege('tenant_a_ingest', 'tenant_a.webhook_events', 'insert')";
    assert!(client.query_one(grants, &[]).await.unwrap().get::<_, bool>(0));
}
