//! SQL functions that start sagas and publish messages in any transaction.

use backstitch::kernel::SagaId;
use backstitch::kernel::saga::{Event, Status};
use backstitch::kernel::{Payload, Timestamp};
use backstitch::outbox::Receiving;
use backstitch::store::documents::{Becomes, DocumentStore, DocumentVersion, SAGA};
use backstitch::store::postgres::PostgresStore;
use backstitch::store::{MessageStore as _, SagaStore as _, Verdict};
use backstitch::{Context, Engine, MAX_ATTRIBUTES, MAX_LABEL, Options, Saga, Step};
use serde_json::json;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use backstitch_testkit::conformance::make::claim_messages;

use crate::postgres_store::support::{fresh_store, log, new_id, session, start};

async fn register(store: &PostgresStore, version: u32) {
    let body = Payload::null();
    store
        .register(&DocumentVersion { name: "trip".into(), version, fingerprint: Some(7), body })
        .await
        .unwrap();
}

async fn started(session: &Client, call: &str) -> Result<SagaId, tokio_postgres::Error> {
    session
        .query_one(&format!("select backstitch.start({call})"), &[])
        .await?
        .try_get::<_, Uuid>(0)
        .map(SagaId)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saga_started_in_sql_reads_like_any_other() {
    let (store, address) = fresh_store().await;
    for version in [1, 3, 2] {
        register(&store, version).await;
    }
    let session = session(&address).await;
    let saga = started(
        &session,
        r#"'trip', '{"to":  "Rome\n\u0000"}', correlation_id => 'order "7"', attributes => '{"city": "Rome"}',
           deadline => '2031-02-03 04:05:06.789012+00'"#,
    )
    .await
    .unwrap();
    let stored = store.load(&[saga]).await.unwrap().pop().unwrap();
    let [Event::SagaStarted(first)] = &log(&store, saga).await[..] else { panic!("{:?}", stored.log) };
    assert_eq!((first.definition.as_str(), first.version), ("trip", 3), "the highest version kept");
    assert_eq!(first.input.as_str(), r#"{"to":  "Rome\n\u0000"}"#, "as it was given");
    assert_eq!(first.correlation_id.as_deref(), Some("order \"7\""));
    assert_eq!(first.deadline, Some(Timestamp::from_micros(1_927_857_906_789_012)));
    assert_eq!(first.attributes["city"], "Rome");
    let row = stored.summary;
    assert_eq!((row.status, row.owner, row.version), (Status::Pending, None, 3));
    assert!(row.wake_at.is_some_and(|wake_at| wake_at == row.created_at));
    assert_eq!(saga.0.get_version_num(), 7);
    let younger = new_id();
    assert!(saga < younger, "ids sort by the time of their start, wherever they were made: {saga} {younger}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_saga_is_started_in_sql_with_its_active_version() {
    let (store, address) = fresh_store().await;
    let session = session(&address).await;
    let stage = async |version| {
        let body = Payload::null();
        let declared = DocumentVersion { name: "trip".into(), version, fingerprint: Some(7), body };
        assert!(store.add_version(SAGA, &declared.into(), Becomes::Staged).await.unwrap());
    };
    stage(1).await;
    let refused = started(&session, "'trip'").await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::UNDEFINED_OBJECT));
    let hint = refused.as_db_error().unwrap().hint().unwrap().to_owned();
    assert!(hint.contains("apply its staged version"), "{hint}");
    let version = async || {
        let saga = started(&session, "'trip'").await.unwrap();
        store.load(&[saga]).await.unwrap().pop().unwrap().summary.version
    };
    store.apply_staged(SAGA, "trip", None).await.unwrap();
    assert_eq!(version().await, 1);
    stage(2).await;
    assert_eq!(version().await, 1, "not the one that is only staged");
    store.apply_staged(SAGA, "trip", None).await.unwrap();
    stage(3).await;
    store.discard_staged(SAGA, "trip", None).await.unwrap();
    assert_eq!(version().await, 2, "nor one that was discarded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_key_is_the_same_saga_in_sql_too() {
    let (store, address) = fresh_store().await;
    register(&store, 1).await;
    let session = session(&address).await;
    let first = started(&session, r#"'trip', '{"a": 1, "b": [2.50]}', 'k'"#).await.unwrap();
    let again = started(&session, r#"'trip', '{"b":[2.5],"a":1}', 'k'"#).await.unwrap();
    assert_eq!(first, again, "another spelling of the same input");
    let refused = started(&session, r#"'trip', '{"a": 2}', 'k'"#).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::UNIQUE_VIOLATION));
    assert!(refused.as_db_error().unwrap().message().contains(&first.to_string()), "{refused:?}");
    let unknown = started(&session, "'cruise'").await.unwrap_err();
    assert!(unknown.as_db_error().unwrap().hint().unwrap().contains("Register"), "{unknown:?}");
    started(&session, r#"'trip', attributes => '{"n": 1}'"#).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_start_key_covers_the_whole_start() {
    let (store, address) = fresh_store().await;
    let engine = Engine::open(&address).await.unwrap();
    let waits = Step::new("wait", |_: Context<serde_json::Value>| async { Ok(()) });
    engine.register(Saga::builder("trip").step(waits).build().unwrap()).unwrap();
    engine.start("trip", &1).await.unwrap().outcome().await.unwrap();
    let session = session(&address).await;
    let deadline = Timestamp::from_micros(1_927_857_906_789_012);
    let whole = engine.start("trip", &json!({"a": 1.5})).key("k").correlation_id("c \"é\"");
    let whole = whole.attribute("b", "2").attribute("a", "1").deadline(deadline).await.unwrap().id();
    let labels = r#"correlation_id => 'c "é"', attributes => '{"a": "1", "b": "2"}'"#;
    let sql = |more: &str| format!(r#"'trip', '{{"a":1.50}}', 'k'{more}"#);
    let same = sql(&format!(", {labels}, deadline => '2031-02-03 04:05:06.789012+00'"));
    assert_eq!(started(&session, &same).await.unwrap(), whole);
    for other in [
        String::new(),
        format!(", {labels}"),
        format!(", {labels}, deadline => '2031-02-03 04:05:06.789013+00'"),
        ", correlation_id => 'c \"é\"'".to_owned(),
    ] {
        let refused = started(&session, &sql(&other)).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::UNIQUE_VIOLATION), "{other}");
    }
    let plain = engine.start("trip", &json!({"a": 1.5})).key("plain").await.unwrap().id();
    assert_eq!(started(&session, r#"'trip', '{"a":1.5}', 'plain'"#).await.unwrap(), plain);
    drop(store);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_function_has_the_limits_of_the_library() {
    let (store, address) = fresh_store().await;
    register(&store, 1).await;
    let session = session(&address).await;
    let label = |size: usize| "x".repeat(size);
    let attributes = |count: usize| {
        let pairs: Vec<String> = (0..count).map(|number| format!("\"{number}\": \"\"")).collect();
        format!("'trip', attributes => '{{{}}}'", pairs.join(","))
    };
    // An input of this many bytes: a string with its two quotes.
    let input = |size: usize| format!("'trip', '\"{}\"'", "x".repeat(size - 2));
    let limit = Options::default().max_payload;
    for (what, fits, exceeds) in [
        ("the input", input(limit), input(limit + 1)),
        (
            "the idempotency key",
            format!("'trip', idempotency_key => '{}'", label(MAX_LABEL)),
            // Bytes are counted, not characters.
            format!("'trip', idempotency_key => '{}é'", label(MAX_LABEL - 1)),
        ),
        (
            "the correlation id",
            format!("'trip', correlation_id => '{}'", label(MAX_LABEL)),
            format!("'trip', correlation_id => '{}'", label(MAX_LABEL + 1)),
        ),
        ("the list of attributes", attributes(MAX_ATTRIBUTES), attributes(MAX_ATTRIBUTES + 1)),
        (
            "an attribute's name",
            format!(r#"'trip', attributes => '{{"{}": ""}}'"#, label(MAX_LABEL)),
            format!(r#"'trip', attributes => '{{"{}": ""}}'"#, label(MAX_LABEL + 1)),
        ),
        (
            "an attribute's value",
            format!(r#"'trip', attributes => '{{"a": "{}"}}'"#, label(MAX_LABEL)),
            format!(r#"'trip', attributes => '{{"a": "b", "c": "{}"}}'"#, label(MAX_LABEL + 1)),
        ),
    ] {
        assert!(started(&session, &fits).await.is_ok(), "{what}");
        let refused = started(&session, &exceeds).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::PROGRAM_LIMIT_EXCEEDED), "{what}: {refused:?}");
        let told = refused.as_db_error().unwrap().message();
        assert!(told.starts_with(what) && told.contains("the limit is"), "{told}");
    }
}

/// The library hashes the document as `serde_json` writes it again.
#[tokio::test(flavor = "multi_thread")]
async fn sql_and_library_spell_a_document_alike() {
    let (_, address) = fresh_store().await;
    let session = session(&address).await;
    for document in [
        "null",
        "true",
        "[]",
        "{}",
        " [ 1 , -2, 3.5, 0.25, 1.0, 12.50, 9007199254740993, 18446744073709551615 ] ",
        r#"{"b": {"z": 1, "y": [{}, []]}, "a": null, "B": "x", "é": "ü", "": 0, "a b": 1, "b": 2}"#,
        r#"{"\uff61": 1, "\ud83d\ude00": 2}"#,
        r#""quote \" slash \/ back \\ tab \t bell \u0007 del \u007f snow \u2603 \ud83d\ude00 <&>'""#,
    ] {
        let ours = serde_json::from_str::<serde_json::Value>(document).unwrap().to_string();
        let row =
            session.query_one("select backstitch.canonical($1::text::jsonb)", &[&document]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), ours);
    }
}

/// RFC 8785, for every kind of value and number.
const DOCUMENTS: [&str; 9] = [
    "null",
    "true",
    "[]",
    "{}",
    "[0, -0, 0.0, 1, 1.0, -2, 3.5, 0.25, 12.50, 1e3, 1e20, 1e21, 123456789012345680000, 9007199254740993]",
    "[0.000001, 0.0000001, 1.5e-9, 1e-300, 5e-324, 1.7976931348623157e308, 0.1, 333333333.33333329]",
    r#"{"b": {"z": 1, "y": [{}, []]}, "a": null, "B": "x", "é": "ü", "": 0, "a b": 1, "\r": 2, "1": 3, "\u0080": 4}"#,
    // Sorted by UTF-16: a surrogate pair comes before the last character of a single unit.
    r#"{"\uff61": 1, "\ud83d\ude00": 2, "\ud7ff": 3, "\ue000": 4, "\udbff\udfff": 5, "\udbff\udfff\ud83d\ude00": 6}"#,
    r#""quote \" slash \/ back \\ tab \t bell \u0007 del \u007f snow \u2603 \ud83d\ude00 <&>'""#,
];

#[tokio::test(flavor = "multi_thread")]
async fn a_message_published_in_sql_is_the_same_one_in_the_library() {
    let (_store, address) = fresh_store().await;
    let session = session(&address).await;
    let engine = Engine::open(&address).await.unwrap();
    for (nth, document) in DOCUMENTS.into_iter().enumerate() {
        let key = format!("k{nth}");
        let sql = "select backstitch.publish('orders', $1, $2::text::jsonb)";
        let id: i64 = session.query_one(sql, &[&key, &document]).await.unwrap().get(0);
        let payload: serde_json::Value = serde_json::from_str(document).unwrap();
        let again = engine.publish("orders", &key, &payload).await.unwrap();
        assert_eq!(again, Receiving::Replay(id), "{document}");
        let row = session.query_one("select backstitch.jcs($1::text::jsonb)", &[&document]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), serde_json_canonicalizer::to_string(&payload).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_published_with_another_payload_is_refused_in_sql() {
    let (store, address) = fresh_store().await;
    let session = session(&address).await;
    let publish =
        async |call: &str| session.query_one(&format!("select backstitch.publish({call})"), &[]).await;
    let id: i64 = publish(r#"'orders', 'k', '{"n": 1}', expires_at => now() + '1 h'"#).await.unwrap().get(0);
    let kept = store.message(id).await.unwrap().unwrap();
    assert!(kept.message.expires_at.is_some() && kept.digest.is_some());
    let refused = publish(r#"'orders', 'k', '{"n": 2}'"#).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let told = refused.as_db_error().unwrap().message();
    assert!(told.contains(&format!("message {id}")) && !told.contains("\"n\""), "{told}");
    let long = "x".repeat(MAX_LABEL + 1);
    for (call, code) in [
        (format!("'{long}', 'k', '1'"), SqlState::PROGRAM_LIMIT_EXCEEDED),
        (format!("'orders', '{long}', '1'"), SqlState::PROGRAM_LIMIT_EXCEEDED),
        (format!("'orders', 'o', '1', '{long}'"), SqlState::PROGRAM_LIMIT_EXCEEDED),
        ("'', 'k', '1'".to_owned(), SqlState::INVALID_PARAMETER_VALUE),
        ("'orders', null, '1'".to_owned(), SqlState::INVALID_PARAMETER_VALUE),
        ("'orders', 'n', null".to_owned(), SqlState::INVALID_PARAMETER_VALUE),
    ] {
        assert_eq!(publish(&call).await.unwrap_err().code(), Some(&code), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_in_sql_refuses_reserved_topics() {
    let (_store, address) = fresh_store().await;
    let owner = session(&address).await;
    let role = format!("app_{}", Uuid::simple(new_id().0));
    let grants = format!(
        "create role {role} login; grant usage on schema backstitch to {role};
         grant execute on function backstitch.publish to {role}"
    );
    owner.batch_execute(&grants).await.unwrap();
    let app = session(&address.replace("postgres@", &format!("{role}@"))).await;
    for (topic, refused) in [
        ("backstitch.alerts", true),
        ("backstitch.sagas", true),
        ("backstitch.", true),
        ("backstitch", false),
        ("backstitches", false),
    ] {
        let published = app.query_one("select backstitch.publish($1, 'k', '{}')", &[&topic]).await;
        let code = published.err().and_then(|why| why.code().cloned());
        assert_eq!(code, refused.then_some(SqlState::RESERVED_NAME), "{topic}");
    }
    let forged = "select count(*) from backstitch.outbox where topic like 'backstitch.%'";
    assert_eq!(owner.query_one(forged, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_publish_refuses_a_key_with_a_deleted_message() {
    let (_store, address) = fresh_store().await;
    let session = session(&address).await;
    let engine = Engine::open(&address).await.unwrap();
    let publish = async |payload: &str| {
        let sql = "select backstitch.publish('orders', 'k', $1::text::jsonb)";
        session.query_one(sql, &[&payload]).await.map(|row| row.get::<_, Option<i64>>(0))
    };
    assert!(publish("1").await.unwrap().is_some());
    // As left by retention: keys may be kept longer than their messages.
    for statement in
        ["update backstitch.outbox set status = 'succeeded', due_at = null", "delete from backstitch.outbox"]
    {
        assert_eq!(session.execute(statement, &[]).await.unwrap(), 1, "{statement}");
    }
    let told = engine.publish("orders", "k", &1).await.unwrap_err();
    assert!(matches!(told, backstitch::Error::MessageRemoved), "{told}");
    for (payload, says) in [("1", "was removed for its age"), ("2", "another payload")] {
        let refused = publish(payload).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::UNIQUE_VIOLATION));
        let refused = refused.as_db_error().unwrap();
        assert!(refused.message().contains(says), "{refused:?}");
        assert_eq!(refused.hint(), Some("Use a new key for a new message."));
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_transaction_leaves_nothing() {
    let (store, address) = fresh_store().await;
    register(&store, 1).await;
    let mut session = session(&address).await;
    let transaction = session.transaction().await.unwrap();
    let by_function =
        transaction.query_one("select backstitch.start('trip', 'null', 'k')", &[]).await.unwrap();
    let by_function = SagaId(by_function.get(0));
    let by_library = start(new_id());
    assert_eq!(store.commit_in(&transaction, &by_library).await.unwrap(), Verdict::Applied);
    transaction.query_one("select backstitch.publish('orders', 'm', '{}')", &[]).await.unwrap();
    transaction.rollback().await.unwrap();

    assert!(store.load(&[by_function, by_library.saga]).await.unwrap().is_empty());
    assert!(claim_messages(&*store, 10).await.is_empty());
    let fresh = started(&session, "'trip', 'null', 'k'").await.unwrap();
    assert_ne!(fresh, by_function, "the key was not used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_needs_no_more_than_the_function() {
    let (store, address) = fresh_store().await;
    register(&store, 1).await;
    let owner = session(&address).await;
    // Roles belong to the whole server, which other tests share.
    let role = format!("app_{}", Uuid::simple(new_id().0));
    owner
        .batch_execute(&format!(
            "create role {role} login;
             grant usage on schema backstitch to {role};
             grant execute on function backstitch.start, backstitch.publish to {role};"
        ))
        .await
        .unwrap();
    let app = session(&address.replace("postgres@", &format!("{role}@"))).await;
    // A search path on which every name that the function uses belongs to another schema.
    app.batch_execute(
        "create temporary table sagas (id text);
         create temporary table saga_events (id text);
         create temporary table idempotency_ledger (id text);
         set search_path = pg_temp",
    )
    .await
    .unwrap();
    let saga =
        started(&app, "'trip', 'null', 'k', attributes => '{\"a\":\"b\"}', notify => true").await.unwrap();
    assert_eq!(log(&store, saga).await.len(), 1);
    let published = "select backstitch.publish('orders', 'm1', '{\"n\": 1}', ordering_key => 'o')";
    let id: i64 = app.query_one(published, &[]).await.unwrap().get(0);
    let again: i64 = app.query_one(published, &[]).await.unwrap().get(0);
    assert_eq!(id, again);
    let outgoing = claim_messages(&*store, 10).await.pop().unwrap();
    assert_eq!((outgoing.id, outgoing.message.payload.as_str()), (id, "{\"n\": 1}"));

    for forbidden in [
        "select * from backstitch.sagas",
        "insert into backstitch.saga_events (at, saga_id, seq, type) values (now(), gen_random_uuid(), 1, 'x')",
        "update backstitch.sagas set owner = 1",
        "delete from backstitch.idempotency_ledger",
    ] {
        let refused = app.batch_execute(forbidden).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{forbidden}");
    }
    owner.batch_execute(&format!("revoke execute on function backstitch.start from {role}")).await.unwrap();
    let refused = started(&app, "'trip'").await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_path_and_isolation_do_not_matter_to_the_library() {
    let (store, address) = fresh_store().await;
    let mut session = session(&address).await;
    session.batch_execute("set search_path = pg_catalog").await.unwrap();
    let serializable =
        session.build_transaction().isolation_level(tokio_postgres::IsolationLevel::Serializable);
    let transaction = serializable.start().await.unwrap();
    let commit = start(new_id());
    assert_eq!(store.commit_in(&transaction, &commit).await.unwrap(), Verdict::Applied);
    assert_eq!(store.commit_in(&transaction, &commit).await.unwrap(), Verdict::Fenced);
    transaction.commit().await.unwrap();
    assert_eq!(log(&store, commit.saga).await.len(), 2);
}
