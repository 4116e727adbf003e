//! Addresses of `PgBouncer`, or with several servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstitch::Engine;
use backstitch::store::postgres::PostgresStore;
use backstitch::{Context, Saga, Step};
use backstitch_testkit::pgbouncer::PgBouncer;
use backstitch_testkit::postgres::{ThrowawayPostgres, empty_database};
use tokio::net::TcpListener;

use crate::postgres_store::support::{SOON, session};

async fn is_migrated(address: &str) -> bool {
    let found = "select to_regnamespace('backstitch') is not null";
    session(address).await.query_one(found, &[]).await.unwrap().get(0)
}

async fn refusal(address: &str) -> String {
    PostgresStore::connect(address).await.err().map(|why| why.to_string()).unwrap_or_default()
}

/// Runs a saga to its end.
async fn runs(address: &str) {
    let engine = Engine::open(address).await.unwrap();
    let step = Step::new("call", |_: Context<()>| async { Ok(()) });
    engine.register(Saga::builder("s").step(step).build().unwrap()).unwrap();
    let run = engine.start("s", &()).await.unwrap();
    assert!(tokio::time::timeout(SOON, run.outcome()).await.unwrap().unwrap().succeeded());
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_pooling_is_refused_before_migrating() {
    for (mode, settings) in [
        ("transaction", ""),
        ("transaction", "default_pool_size = 1"),
        ("transaction", "ignore_startup_parameters = options"),
        ("statement", ""),
    ] {
        let server = empty_database().await;
        let pooler = PgBouncer::configured(&server, mode, settings).await;
        let told = refusal(&pooler.url(&server)).await;
        for words in ["PgBouncer", "transaction pooling mode", "pool_mode = session"] {
            assert!(told.contains(words), "{mode} {settings}: {told}");
        }
        assert!(!is_migrated(&server).await, "{mode} {settings}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_pooling_is_accepted() {
    let server = empty_database().await;
    let pooler = PgBouncer::start(&server, "session").await;
    runs(&pooler.url(&server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn next_host_is_tried_when_one_never_answers() {
    let address = empty_database().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = silent.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = accepted.clone();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            kept.push(silent.accept().await.unwrap());
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    runs(&format!("{}?connect_timeout=1", address.replace('@', &format!("@{place},")))).await;
    assert_eq!(accepted.load(Ordering::SeqCst), 1, "the host that answered is tried first from then on");
}

#[tokio::test(flavor = "multi_thread")]
async fn next_host_is_tried_when_one_refuses_or_is_a_standby() {
    let primary = ThrowawayPostgres::start().unwrap();
    let address = primary.create_database().await.unwrap();
    let mut standby = primary.start_standby().await.unwrap();
    let place = |url: &str| url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let database = address.rsplit_once('/').unwrap().1;
    let (first, second) = (place(&standby.url("x")), place(&address));
    let both = format!("postgres://postgres@{first},{second}/{database}");
    for attributes in ["", "?target_session_attrs=primary", "?target_session_attrs=any"] {
        runs(&format!("{both}{attributes}")).await;
    }
    runs(&format!("{both}?target_session_attrs=prefer-standby")).await;
    let alone = format!("postgres://postgres@{first}/{database}?target_session_attrs=primary");
    let told = refusal(&alone).await;
    assert!(told.contains("standby"), "{told}");
    let session = session(&address).await;
    session.batch_execute("alter system reset synchronous_standby_names").await.unwrap();
    session.batch_execute("select pg_reload_conf()").await.unwrap();
    standby.stop_immediate().unwrap();
    runs(&both).await;
}
