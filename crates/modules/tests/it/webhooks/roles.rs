//! The rights of each part, as the database sees to them: §4, §9.

use std::sync::Arc;

use backstitch::Desk as _;
use backstitch::delivery::limiter::{Limiter, LimiterSettings, Verdict};
use backstitch_modules::webhooks::{Ages, Counter, Nobody, PauseWriter};
use tokio_postgres::Client;

use crate::webhooks::pruned::prune;
use crate::webhooks::stage::{Place, Stage, session};

const ROLES: [&str; 6] = [
    "backstitch_ingest",
    "backstitch_orchestrator",
    "backstitch_worker",
    "backstitch_dead_letter",
    "backstitch_subscriptions",
    "backstitch_retention",
];

/// Each change that somebody may want to make, and who may.
const CHANGES: &[(&str, &[&str])] = &[
    (
        "insert into webhook_events (created_at, uid, type, webhook_id, digest, payload)
         values (now(), 'x', 'x', 'x', decode(repeat('00', 32), 'hex'), '')",
        &["backstitch_ingest"],
    ),
    ("update webhook_events set type = 'x' where false", &[]),
    // Who holds events needs the right to change them; no change is made all the same.
    ("update webhook_events set id = default where false", &["backstitch_dead_letter", "backstitch_retention"]),
    ("delete from webhook_events where false", &["backstitch_retention"]),
    (
        "insert into webhook_delivery_sagas
         (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id)
         values (77, 77, now(), now(), now(), 'x')",
        &["backstitch_ingest", "backstitch_orchestrator", "backstitch_dead_letter"],
    ),
    (
        "insert into webhook_delivery_sagas
         (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, requeue_of)
         values (77, 77, now(), now(), now(), 'x', null)",
        &["backstitch_dead_letter"],
    ),
    (
        "insert into webhook_delivery_sagas
         (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, replay_id)
         values (77, 77, now(), now(), now(), 'x', 'r')",
        &["backstitch_dead_letter"],
    ),
    ("update webhook_delivery_sagas set status = 'DeadLettered' where false", &["backstitch_orchestrator"]),
    ("update webhook_delivery_sagas set attempt_count = 0 where false", &["backstitch_orchestrator"]),
    ("update webhook_delivery_sagas set event_id = 7 where false", &[]),
    ("delete from webhook_delivery_sagas where false", &["backstitch_retention"]),
    (
        "insert into webhook_subscriptions
         (created_at, updated_at, base_delay_ms, max_delay_ms, timeout_ms, max_retry_limit, max_concurrency, url,
          event_types, headers, secret)
         values (now(), now(), 1, 1, 1, 1, 1, 'x', '[\"x\"]', '[]', '')",
        &["backstitch_subscriptions"],
    ),
    ("update webhook_subscriptions set disabled_reason = null where false", &["backstitch_subscriptions"]),
    ("delete from webhook_subscriptions where false", &[]),
    ("insert into webhook_subscription_types (subscription_id, pattern) values (77, 'x')", &[]),
    ("delete from webhook_subscription_types where false", &[]),
    (
        "insert into jobs (delivery_id, lane, queue, until, created_at) values (77, 77, 'x', now(), now())",
        &["backstitch_orchestrator"],
    ),
    // With what belongs to sagas it would be work in any queue.
    (
        "insert into jobs (saga_id, queue, until, created_at)
         values ('00000000-0000-0000-0000-000000000077', 'x', now(), now())",
        &[],
    ),
    (
        "insert into jobs (delivery_id, lane, queue, until, created_at, payload)
         values (77, 77, 'x', now(), now(), '{}')",
        &[],
    ),
    ("update jobs set status = 'Leased', token = 1 where false", &["backstitch_worker"]),
    ("update jobs set delivery_id = 7 where false", &[]),
    ("delete from jobs where false", &["backstitch_retention"]),
    ("insert into job_results (job_id, delivery_id, at) values (77, 77, now())", &["backstitch_worker"]),
    ("update job_results set error_code = 'x' where false", &[]),
    ("delete from job_results where false", &["backstitch_orchestrator"]),
    (
        "insert into webhook_attempts (saga_id, job_id, finished_at, number, status)
         values (77, 77, now(), 1, 'Failed')",
        &["backstitch_worker"],
    ),
    ("delete from webhook_attempts where false", &["backstitch_retention"]),
    (
        "insert into dead_letters (saga_id, event_id, subscription_id, created_at, attempt_count, webhook_id)
         values (77, 77, 77, now(), 1, 'x')",
        &[],
    ),
    ("update dead_letters set attempt_count = 0 where false", &[]),
    ("delete from dead_letters where false", &["backstitch_retention"]),
    (
        "insert into waiting_dead_letters (saga_id, event_id, subscription_id, created_at, attempt_count, webhook_id)
         values (77, 77, 77, now(), 1, 'x')",
        &[],
    ),
    ("update waiting_dead_letters set attempt_count = 0 where false", &[]),
    ("delete from waiting_dead_letters where false", &[]),
    (
        "insert into webhook_senders (seen_at, id, node) values (now(), 'x', 'x')",
        &["backstitch_worker"],
    ),
    ("update webhook_senders set seen_at = now() where false", &["backstitch_worker"]),
    ("update webhook_senders set id = 'x' where false", &[]),
    ("delete from webhook_senders where false", &["backstitch_worker"]),
    (
        "insert into webhook_pauses (subscription_id, node, paused_until, reason) values (77, 'x', now(), 'x')",
        &["backstitch_worker"],
    ),
    ("update webhook_pauses set paused_until = now(), reason = 'x' where false", &["backstitch_worker"]),
    ("update webhook_pauses set node = 'x' where false", &[]),
    ("delete from webhook_pauses where false", &["backstitch_worker"]),
    ("truncate webhook_pauses", &[]),
    (
        "insert into webhook_rejected_reports (job_id, token, report) values (77, 1, '{}')",
        &["backstitch_worker"],
    ),
    ("update webhook_rejected_reports set report = '{}' where false", &[]),
    ("delete from webhook_rejected_reports where false", &["backstitch_worker"]),
    ("delete from sagas where false", &[]),
    ("insert into outbox (topic, idempotency_key, payload, due_at, created_at) values ('x', 'x', '', now(), now())", &[]),
    ("truncate webhook_delivery_sagas", &[]),
    ("create table mine (id bigint)", &[]),
];

/// Whether a role may do this; nothing of it stays.
async fn may(session: &Client, role: &str, statement: &str) -> bool {
    session.batch_execute(&format!("begin; set local role {role}")).await.unwrap();
    let done = session.batch_execute(statement).await;
    session.batch_execute("rollback").await.unwrap();
    match done {
        Ok(()) => true,
        Err(why) => {
            let code = why.as_db_error().unwrap().code().code();
            assert_eq!(code, "42501", "{role} fails at something else than its rights: {statement}: {why:?}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_each_role_may_change_what_is_its_own_and_nothing_else() {
    let stage = Stage::postgres().await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let session = session(address).await;
    for (statement, allowed) in CHANGES {
        for role in ROLES {
            assert_eq!(may(&session, role, statement).await, allowed.contains(&role), "{role}: {statement}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_of_webhooks_cannot_change_jobs_of_sagas() {
    let stage = Stage::postgres().await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let session = session(address).await;
    for status in ["Pending", "Failed"] {
        let job = format!(
            "insert into jobs (saga_id, status, queue, until, created_at)
             values ('00000000-0000-0000-0000-000000000077', '{status}', 'x', now(), now())"
        );
        session.batch_execute(&job).await.unwrap();
    }
    for (role, change) in [
        ("backstitch_worker", "update jobs set status = 'Completed' where status = 'Pending'"),
        (
            "backstitch_worker",
            "update jobs set token = token + 1, status = 'Leased' where status = 'Pending'",
        ),
        ("backstitch_retention", "delete from jobs where status = 'Failed'"),
    ] {
        session.batch_execute(&format!("begin; set local role {role}")).await.unwrap();
        let refused = session.batch_execute(change).await.unwrap_err();
        let refused = refused.as_db_error().unwrap().message().to_owned();
        assert_eq!(refused, "the roles of webhooks change only jobs of deliveries", "{role}: {change}");
        session.batch_execute("rollback").await.unwrap();
    }
    session.batch_execute("update jobs set status = 'Completed' where status = 'Pending'").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_3_ended_delivery_gets_no_job_from_any_program() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        stage.tell("o-1").await;
        stage.decide().await;
        let leased = stage.lease_one().await;
        stage.arrived(&leased).await;
        assert_eq!(stage.decide().await.completed, 1);
        let job = "insert into jobs (delivery_id, lane, queue, until, created_at)
            select id, subscription_id, 'deliver/webhooks', created_at, created_at from webhook_delivery_sagas";
        let refused = stage.execute(job).await.unwrap_err();
        assert!(refused.contains("gets no further job"), "{refused}");
        if let Place::Postgres { address, .. } = &stage.place {
            let session = session(address).await;
            session.batch_execute("set role backstitch_orchestrator").await.unwrap();
            let refused = session.batch_execute(job).await.unwrap_err();
            assert!(refused.as_db_error().unwrap().message().contains("gets no further job"), "{refused:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_granting_roles_again_keeps_requeues_to_one_role() {
    let stage = Stage::postgres().await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let session = session(address).await;
    session.batch_execute("select grant_webhook_roles()").await.unwrap();
    let requeue = "insert into webhook_delivery_sagas
        (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, requeue_of)
        values (77, 77, now(), now(), now(), 'x', 7)";
    assert!(!may(&session, "backstitch_ingest", requeue).await);
    assert!(!may(&session, "backstitch_orchestrator", requeue).await);
    assert!(may(&session, "backstitch_dead_letter", requeue).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_those_who_may_hold_an_event_cannot_change_it() {
    let stage = Stage::postgres().await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    stage.tell("o-1").await;
    let session = session(address).await;
    for role in ["backstitch_dead_letter", "backstitch_retention"] {
        session.batch_execute(&format!("begin; set local role {role}")).await.unwrap();
        assert_eq!(
            session.query("select from webhook_events for no key update", &[]).await.unwrap().len(),
            1
        );
        let refused = session.batch_execute("update webhook_events set id = default").await.unwrap_err();
        assert_eq!(refused.as_db_error().unwrap().message(), "an event never changes", "{role}");
        session.batch_execute("rollback").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_the_orchestrator_may_read_events_and_subscriptions_and_nobody_reads_what_is_not_theirs() {
    let stage = Stage::postgres().await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let session = session(address).await;
    let orchestrator = "backstitch_orchestrator";
    for table in ["webhook_events", "webhook_subscriptions", "webhook_delivery_sagas"] {
        assert!(may(&session, orchestrator, &format!("select from {table}")).await, "{table}");
    }
    for (role, table) in [
        ("backstitch_ingest", "webhook_subscriptions"),
        ("backstitch_subscriptions", "webhook_events"),
        ("backstitch_worker", "dead_letters"),
        ("backstitch_retention", "webhook_subscriptions"),
        ("backstitch_orchestrator", "webhook_senders"),
        ("backstitch_orchestrator", "webhook_pauses"),
        ("backstitch_subscriptions", "webhook_pauses"),
        ("backstitch_worker", "waiting_dead_letters"),
        ("backstitch_retention", "waiting_dead_letters"),
    ] {
        assert!(!may(&session, role, &format!("select from {table}")).await, "{role} reads {table}");
    }
}

/// Notes under which role each table was changed.
const WITNESS: &str = "
    create table backstitch.seen (role text, tab text, what text);
    grant insert on backstitch.seen to public;
    create function backstitch.note() returns trigger language plpgsql as $$
    begin
        insert into backstitch.seen values (current_user, tg_table_name, tg_op);
        return null;
    end $$;
";

#[tokio::test(flavor = "multi_thread")]
async fn s4_s9_every_part_really_runs_under_its_own_role() {
    let stage = Stage::postgres().await;
    let Place::Postgres { session, .. } = &stage.place else { return };
    session.batch_execute(WITNESS).await.unwrap();
    for table in [
        "webhook_events",
        "webhook_delivery_sagas",
        "webhook_subscriptions",
        "jobs",
        "job_results",
        "webhook_attempts",
        "dead_letters",
        "webhook_senders",
        "webhook_pauses",
    ] {
        let trigger = format!(
            "create trigger seen after insert or update or delete on backstitch.{table}
             for each row execute function backstitch.note()"
        );
        session.batch_execute(&trigger).await.unwrap();
    }
    let limiter = Limiter::new(LimiterSettings::default());
    let dispatch = stage.dispatch_within(limiter.clone());
    let counter = Counter::of(dispatch.clone(), stage.webhooks.subscriptions.clone(), Arc::new(Nobody));
    counter.lease(&["webhooks"], 1, std::time::Duration::ZERO).await.unwrap();
    let subscription = stage.subscribe(&["site.*"], 1).await.id;
    let writer = tokio::spawn(PauseWriter::of(dispatch.clone()).run());
    for quiet_for in [30, 60] {
        limiter.observe(&subscription, Verdict::Failing, Some(std::time::Duration::from_secs(quiet_for)));
        let written = format!(
            "select count(*) from webhook_pauses where paused_until > clock() + interval '{} seconds'",
            quiet_for - 20
        );
        while stage.number(&written).await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    writer.abort();
    dispatch.leave().await;
    // By the hand of the trigger, which nobody can lend.
    stage.webhooks.subscriptions.delete(subscription).await.unwrap();
    let dead = stage.dead_letter("o-1").await;
    stage.webhooks.dead_letters.requeue(dead.id).await.unwrap();
    stage.exhaust(dead.id + 1).await;
    let old = std::time::Duration::from_secs(400 * 24 * 3600);
    stage.advance(old).await;
    // The second one goes once its predecessor has.
    for _ in 0..2 {
        let month = Some(std::time::Duration::from_secs(30 * 24 * 3600));
        let ages = Ages { completed: month, dead_lettered: month, events: month };
        prune(&stage, &ages).await;
    }

    let rows = session
        .query("select distinct tab || ' ' || what || ' ' || role from backstitch.seen order by 1", &[])
        .await
        .unwrap();
    let seen: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let owner: String = session.query_one("select current_user::text", &[]).await.unwrap().get(0);
    let expected = [
        "dead_letters DELETE backstitch_retention".to_owned(),
        // By the hand of the dead-letter module, which nobody can lend.
        format!("dead_letters INSERT {owner}"),
        "job_results DELETE backstitch_orchestrator".to_owned(),
        "job_results INSERT backstitch_worker".to_owned(),
        "jobs DELETE backstitch_retention".to_owned(),
        "jobs INSERT backstitch_orchestrator".to_owned(),
        "jobs UPDATE backstitch_worker".to_owned(),
        "webhook_attempts DELETE backstitch_retention".to_owned(),
        "webhook_attempts INSERT backstitch_worker".to_owned(),
        "webhook_delivery_sagas DELETE backstitch_retention".to_owned(),
        "webhook_delivery_sagas INSERT backstitch_dead_letter".to_owned(),
        "webhook_delivery_sagas INSERT backstitch_ingest".to_owned(),
        "webhook_delivery_sagas UPDATE backstitch_orchestrator".to_owned(),
        "webhook_events DELETE backstitch_retention".to_owned(),
        "webhook_events INSERT backstitch_ingest".to_owned(),
        format!("webhook_pauses DELETE {owner}"),
        "webhook_pauses INSERT backstitch_worker".to_owned(),
        "webhook_pauses UPDATE backstitch_worker".to_owned(),
        "webhook_senders DELETE backstitch_worker".to_owned(),
        "webhook_senders INSERT backstitch_worker".to_owned(),
        "webhook_senders UPDATE backstitch_worker".to_owned(),
        "webhook_subscriptions INSERT backstitch_subscriptions".to_owned(),
        "webhook_subscriptions UPDATE backstitch_subscriptions".to_owned(),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_make_no_roles_migrates_all_the_same_and_runs_with_its_own_rights() {
    // The roles are the whole server's, and there by now; what they may do is each database's own.
    drop(Stage::postgres().await);
    let address = backstitch_testkit::postgres::empty_database().await;
    let admin = session(&address).await;
    let name: String = admin.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    let user = format!("{name}_plain");
    admin
        .batch_execute(&format!(
            "create role \"{user}\" login; grant create on database \"{name}\" to \"{user}\";
             grant backstitch_worker to \"{user}\""
        ))
        .await
        .unwrap();
    let mut plain = url::Url::parse(&address).unwrap();
    plain.set_username(&user).unwrap();
    let products = vec![&backstitch_modules::webhooks::SCHEMA];
    let options = backstitch::Options { products, ..backstitch::Options::default() };
    let engine = backstitch::Engine::open_with(plain.as_str(), options).await.unwrap();
    let webhooks = backstitch_modules::webhooks::Webhooks::open(&engine).await.unwrap();
    let terms = backstitch_modules::webhooks::Terms::to("https://example.com", vec!["*".to_owned()]);
    webhooks
        .subscriptions
        .create(&terms, |_| Ok(backstitch_modules::webhooks::Sealed::default()))
        .await
        .unwrap();
    let accepted = webhooks.ingest.accept(crate::webhooks::stage::order_created("o-1")).await.unwrap();
    assert_eq!(accepted.deliveries, 1);
    assert_eq!(webhooks.orchestrator.settle().await.unwrap().begun, 1);
    let asks = crate::webhooks::stage::asks(&[(1, 1)]);
    assert_eq!(
        webhooks.jobs.hand_out(&asks, "here").await.unwrap().len(),
        1,
        "it has one role, without rights"
    );
    engine.shutdown().await.unwrap();
}
