//! TLS to the server by libpq's parameters.

use std::path::PathBuf;

use backstitch::store::postgres::PostgresStore;
use backstitch::store::{Error, OutboxStore as _};
use backstitch::{Context, Engine, Saga, Status, Step};
use backstitch_testkit::postgres::{ThrowawayPostgres, fresh_database};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A certificate authority, with its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { issuer, folder: tempfile::tempdir().unwrap() };
        std::fs::write(authority.path(), authority.issuer.pem()).unwrap();
        authority
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("the authority.pem")
    }

    /// The path as encoded in an address.
    fn parameter(&self) -> String {
        self.path().display().to_string().replace(' ', "%20")
    }

    /// A server with a certificate for this name.
    fn server(&self, name: &str) -> ThrowawayPostgres {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        ThrowawayPostgres::start_with_tls(&certificate.pem(), &key.serialize_pem()).unwrap()
    }
}

async fn refusal(address: &str) -> String {
    let refused = PostgresStore::connect(address).await.err();
    refused.map(|error| error.to_string()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn saga_runs_over_encrypted_verified_connections() {
    let authority = Authority::new();
    let postgres = authority.server("127.0.0.1");
    let plain = postgres.create_database().await.unwrap();
    let address = format!("{plain}?sslmode=verify-full&sslrootcert={}", authority.parameter());
    let engine = Engine::open(&address).await.unwrap();
    let step = Step::new("greet", |_: Context<String>| async { Ok("hello") });
    engine.register(Saga::builder("greeting").step(step).build().unwrap()).unwrap();
    let outcome = engine.start("greeting", "ada").await.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Succeeded);

    let (client, connection) = tokio_postgres::connect(&plain, NoTls).await.unwrap();
    tokio::spawn(connection);
    let sessions = "select ssl, query like 'listen %' from pg_stat_ssl join pg_stat_activity using (pid)
        where application_name = 'backstitch'";
    let sessions = client.query(sessions, &[]).await.unwrap();
    assert!(sessions.len() > 2 && sessions.iter().all(|session| session.get(0)), "{sessions:?}");
    assert!(sessions.iter().any(|session| session.get(1)), "nobody listens");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_is_verified_as_the_address_requires() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    // The certificate has another name than the address.
    let postgres = authority.server("db.example");
    let plain = postgres.create_database().await.unwrap();
    let asking =
        |mode: &str, root: &Authority| format!("{plain}?sslmode={mode}&sslrootcert={}", root.parameter());

    for accepted in [plain.clone(), format!("{plain}?sslmode=require"), asking("verify-ca", &authority)] {
        let store = PostgresStore::connect(&accepted).await.unwrap();
        store.outbox_ages().await.unwrap();
    }
    for wrong in ["require", "verify-ca", "verify-full"] {
        let told = refusal(&asking(wrong, &stranger)).await;
        assert!(told.contains("not accepted") && told.contains("sslrootcert"), "{wrong}: {told}");
    }
    let told = refusal(&asking("verify-full", &authority)).await;
    assert!(told.contains("not for this host") && told.contains("db.example"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_used_if_available_and_required_on_request() {
    let bare = fresh_database().await;
    PostgresStore::connect(&bare).await.unwrap();
    PostgresStore::connect(&format!("{bare}?sslmode=prefer")).await.unwrap();
    let told = refusal(&format!("{bare}?sslmode=require")).await;
    assert!(told.contains("speaks no TLS") && told.contains("ssl = on"), "{told}");

    let postgres = Authority::new().server("127.0.0.1");
    let preferred = postgres.create_database().await.unwrap();
    for (address, encrypted) in [(preferred.clone(), true), (format!("{preferred}?sslmode=disable"), false)] {
        let store = PostgresStore::connect(&address).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&preferred, NoTls).await.unwrap();
        tokio::spawn(connection);
        let sessions = "select bool_and(ssl), count(*) from pg_stat_ssl join pg_stat_activity using (pid)
            where application_name = 'backstitch' and state = 'idle'";
        let sessions = client.query_one(sessions, &[]).await.unwrap();
        assert_eq!(sessions.get::<_, Option<bool>>(0), Some(encrypted), "{address}");
        drop(store);
        crate::postgres_store::support::until(async || {
            let left = "select from pg_stat_activity where application_name = 'backstitch'";
            client.query(left, &[]).await.unwrap().is_empty().then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_refusing_tls_logins_is_reached_without_tls() {
    let postgres = Authority::new().server("127.0.0.1");
    let address = postgres.create_database().await.unwrap();
    let rules = postgres.directory().join("data/pg_hba.conf");
    std::fs::write(rules, "hostnossl all all 127.0.0.1/32 trust\n").unwrap();
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("select pg_reload_conf()").await.unwrap();
    let required = format!("{address}?sslmode=require");
    crate::postgres_store::support::until(async || PostgresStore::connect(&required).await.err()).await;
    PostgresStore::connect(&address).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate\n").unwrap();
    let broken = folder.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    for path in [folder.path().join("missing.pem"), empty, broken] {
        let address =
            format!("postgres://nowhere.invalid/db?sslmode=verify-ca&sslrootcert={}", path.display());
        let refused = PostgresStore::connect(&address).await.err();
        let named = path.display().to_string();
        assert!(matches!(&refused, Some(Error::Refused(why)) if why.contains(&named)), "{refused:?}");
    }
}
