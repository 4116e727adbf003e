//! Product tables beside the engine's, and rows written with the start of a saga.

use backstitch::store::product::{Migration, RowKind, Schema};
use backstitch::{Context, Engine, Error, Options, Payload, Saga, Step};
use backstitch_testkit::postgres;
use futures::future::join_all;
use serde_json::json;
use tokio_postgres::NoTls;

static FIRST: Schema = Schema {
    product: "shop",
    breaking: &[],
    migrations: &[Migration {
        name: "orders",
        sqlite: "create table orders (
            saga_id blob primary key, at integer not null, amount integer not null check (amount > 0)
        ) strict",
        postgres: "create table backstitch.orders (
            saga_id uuid primary key, at timestamptz not null, amount integer not null check (amount > 0)
        )",
    }],
};

static SECOND: Schema = Schema {
    product: "shop",
    breaking: &[],
    migrations: &[
        Migration { name: "orders", sqlite: "this never runs again", postgres: "this never runs again" },
        Migration {
            name: "notes",
            sqlite: "create table notes (id integer primary key) strict",
            postgres: "create table backstitch.notes (id integer primary key)",
        },
    ],
};

static ORDER: RowKind = RowKind {
    sqlite: "insert into orders (saga_id, at, amount) values (?1, ?2, json_extract(?3, '$.amount'))",
    postgres: "insert into orders (saga_id, at, amount)
        select saga_id, at, (body::json ->> 'amount')::integer
        from unnest($1::uuid[], $2::timestamptz[], $3::text[]) as r (saga_id, at, body)",
};

async fn engine(address: &str, schema: &'static Schema) -> Result<Engine, Error> {
    let options = Options { products: vec![schema], ..Options::default() };
    let engine = Engine::open_with(address, options).await?;
    let step = Step::new("pay", |_: Context<serde_json::Value>| async { Ok(()) });
    engine.register(Saga::builder("order").step(step).build().unwrap()).unwrap();
    Ok(engine)
}

fn body(amount: i32) -> Payload {
    Payload::encode(&json!({ "amount": amount })).unwrap()
}

async fn order(engine: &Engine, amount: i32) -> Result<backstitch::Run, Error> {
    engine.start("order", &json!({ "amount": amount })).row(&ORDER, body(amount)).await
}

/// A new database with a connection besides the engine's.
enum Place {
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

impl Place {
    async fn each() -> [Self; 2] {
        [Self::Sqlite(tempfile::tempdir().unwrap()), Self::Postgres(postgres::fresh_database().await)]
    }

    fn address(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("shop.db").display()),
            Self::Postgres(url) => url.clone(),
        }
    }

    /// Ids and amounts of all orders with a saga.
    async fn orders(&self) -> Vec<(String, i32)> {
        match self {
            Self::Sqlite(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
                let mut statement = file
                    .prepare("select lower(hex(o.saga_id)), o.amount from orders o join sagas s on s.id = o.saga_id")
                    .unwrap();
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.map(Result::unwrap).collect()
            }
            Self::Postgres(url) => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
                tokio::spawn(connection);
                let sql = "select replace(o.saga_id::text, '-', ''), o.amount
                    from backstitch.orders o join backstitch.sagas s on s.id = o.saga_id";
                let rows = client.query(sql, &[]).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }

    async fn count(&self, table: &str) -> i64 {
        match self {
            Self::Sqlite(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
                file.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap()
            }
            Self::Postgres(url) => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
                tokio::spawn(connection);
                let sql = format!("select count(*) from backstitch.{table}");
                client.query_one(&sql, &[]).await.unwrap().get(0)
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_there_exactly_when_its_saga_is() {
    for place in Place::each().await {
        let engine = engine(&place.address(), &FIRST).await.unwrap();
        let run = order(&engine, 7).await.unwrap();
        let id = run.id().to_string().replace('-', "");
        assert!(run.outcome().await.unwrap().succeeded());
        assert_eq!(place.orders().await, [(id, 7)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_written_refuses_its_start_and_no_other() {
    for place in Place::each().await {
        let engine = engine(&place.address(), &FIRST).await.unwrap();
        let starts = (0..40).map(|number| order(&engine, if number % 10 == 3 { 0 } else { number + 1 }));
        let started = join_all(starts).await;
        let refused = started.iter().filter(|start| start.is_err()).count();
        assert_eq!(refused, 4, "an amount of 0 breaks the table's rule");
        for run in started.into_iter().flatten() {
            assert!(run.outcome().await.unwrap().succeeded());
        }
        assert_eq!(place.orders().await.len(), 36);
        assert_eq!((place.count("orders").await, place.count("sagas").await), (36, 36));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_start_writes_no_second_row() {
    for place in Place::each().await {
        let engine = engine(&place.address(), &FIRST).await.unwrap();
        let start = || engine.start("order", &json!({})).key("k").row(&ORDER, body(5));
        let (first, again) = (start().await.unwrap(), start().await.unwrap());
        assert_eq!(first.id(), again.id());
        assert_eq!(place.count("orders").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_products_tables_are_changed_once_and_never_back() {
    for place in Place::each().await {
        engine(&place.address(), &FIRST).await.unwrap().shutdown().await.unwrap();
        engine(&place.address(), &FIRST).await.unwrap().shutdown().await.unwrap();
        engine(&place.address(), &SECOND).await.unwrap().shutdown().await.unwrap();
        assert_eq!(place.count("notes").await, 0);
        let older = engine(&place.address(), &FIRST).await.err().unwrap().to_string();
        assert!(older.contains("newer"), "{older}");
    }
}
