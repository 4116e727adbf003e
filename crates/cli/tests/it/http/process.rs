//! The binary: how it starts, and how it refuses to start.

use serde_json::Value;

use crate::http::support::{Program, create_key, output_of, within};
use crate::support::program::command;

fn address_in(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("sagas.db").display())
}

#[tokio::test]
async fn an_open_server_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::serve(&address_in(&folder), &[]).await;
    assert!(program.next_line().await.starts_with("warning: no API keys configured"));
    assert_eq!(program.client.get("/health/ready").await.status, 200);
}

#[tokio::test]
async fn database_password_is_not_in_the_process_list() {
    // A server that accepts connections and says nothing keeps the program waiting.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    for form in ["postgres://me:geheim@127.0.0.1:PORT/db", "postgres://me@127.0.0.1:PORT/db?password=geheim"]
    {
        let db = form.replace("PORT", &port.to_string());
        let mut child = command(&["migrate", "--db", &db]).spawn().unwrap();
        let (_connection, _) = within(silent.accept()).await.unwrap();
        let line = std::fs::read_to_string(format!("/proc/{}/cmdline", child.id().unwrap())).unwrap();
        assert!(line.contains("***") && !line.contains("geheim"), "{line:?}");
        child.kill().await.unwrap();
    }
}

#[tokio::test]
async fn without_keys_it_refuses_to_listen_where_others_can_reach_it() {
    let folder = tempfile::tempdir().unwrap();
    let refused = output_of(&["serve", "--db", &address_in(&folder), "--listen", "0.0.0.0:0"]).await;
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("there is no API key") && said.contains("backstitch keys create"), "{said}");
}

#[tokio::test]
async fn with_only_revoked_keys_it_refuses_too() {
    let folder = tempfile::tempdir().unwrap();
    let db = address_in(&folder);
    create_key(&db, "admin").await;
    output_of(&["keys", "--db", &db, "revoke", "1"]).await;
    let refused = output_of(&["serve", "--db", &db, "--listen", "0.0.0.0:0"]).await;
    assert!(String::from_utf8(refused.stderr).unwrap().contains("there is no API key"));
}

#[tokio::test]
async fn configuration_error_is_reported_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backstitch.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:0\"\n[limits]\n  bodybytes = 3\n").unwrap();
    let path = file.to_str().unwrap();
    let refused = output_of(&["serve", "--config", path]).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains(&format!("{path}:3:3: ")) && said.contains("bodybytes"), "{said}");
}

#[tokio::test]
async fn occupied_address_and_second_server_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::serve(&address_in(&folder), &[]).await;
    let other = tempfile::tempdir().unwrap();
    let address = program.client.address.to_string();
    let in_use = output_of(&["serve", "--db", &address_in(&other), "--listen", &address]).await;
    assert!(String::from_utf8(in_use.stderr).unwrap().contains(&format!("cannot listen on {address}")));
    let second = output_of(&["serve", "--db", &address_in(&folder), "--listen", "127.0.0.1:0"]).await;
    assert!(String::from_utf8(second.stderr).unwrap().contains("another engine has"));
}

#[tokio::test]
async fn logs_can_be_read_by_programs() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::serve(&address_in(&folder), &[("BACKSTITCH_LOG_FORMAT", "json")]).await;
    program.client.get("/v1/sagas/x").await;
    let line: Value = serde_json::from_str(&program.logs("\"request\"").await).unwrap();
    assert_eq!(
        (&line["method"], &line["route"], &line["status"]),
        (&"GET".into(), &"/v1/sagas/{id}".into(), &400.into())
    );
    assert!(line["duration_us"].is_u64());
}

#[tokio::test]
async fn migrating_makes_the_tables_of_engine_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let db = address_in(&folder);
    for _ in 0..2 {
        let done = output_of(&["migrate", "--db", &db]).await;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let connection = rusqlite::Connection::open(folder.path().join("sagas.db")).unwrap();
    for table in ["sagas", "api_keys", "backstitch_product_migrations"] {
        connection.query_row(&format!("select count(*) from {table}"), [], |_| Ok(())).unwrap();
    }
}
