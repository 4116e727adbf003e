//! The cost of the diagnostics does not depend on the number of active or ended sagas.

use backstitch_testkit::scale;
use backstitch_testkit::sql::statement;
use tokio_postgres::Client;

use super::flat_outbox::pages;
use super::support::fresh_client;

/// A statement of the engine.
fn query(name: &str) -> String {
    statement("engine", "postgres", name)
}

const FEW: i64 = 1_000;

/// Sagas of three definitions, a third owned by ten nodes, a third waiting, a third ended; and as many jobs.
async fn fill(client: &Client, count: i64) {
    let rows = format!(
        "insert into sagas (id, definition, version, status, owner, wake_at, created_at, updated_at)
         select
             lpad(to_hex(n), 32, '0')::uuid, 'definition-' || (n / 3 % 3), 1,
             case n % 3 when 2 then 'succeeded' else 'running' end,
             case n % 3 when 0 then 1 + n / 9 % 10 end,
             case n % 3 when 1 then now() + n * interval '1 ms' end, now(), now()
         from generate_series(1::bigint, {count}) as n;
         insert into jobs (saga_id, queue, status, until, created_at)
         select
             lpad(to_hex(n), 32, '0')::uuid, 'queue-' || n % 7, case n % 2 when 0 then 'Leased' else 'Pending' end,
             now() + n * interval '1 ms', now()
         from generate_series(1::bigint, {count}) as n where n % 3 <> 2;
         vacuum analyze sagas; vacuum analyze jobs"
    );
    execute_each(client, &rows).await;
}

/// The cost of finding stalled sagas when every saga waits for a timer. Rows are inserted in their final form: dead
/// versions
/// of updated rows stay in the indexes while another session has an older snapshot.
async fn cost_of_stuck(count: i64) -> i64 {
    let client = fresh_client().await;
    let rows = format!(
        "insert into sagas (id, definition, version, status, wake_at, created_at, updated_at)
         select
             lpad(to_hex(n), 32, '0')::uuid, 'definition-' || n % 3, 1, 'running', now() + interval '1 year', now(), now()
         from generate_series(1::bigint, {count}) as n;
         insert into document_versions (kind, name, version, fingerprint, body)
         select distinct 'saga', definition, version, 0, '' from sagas;
         vacuum analyze sagas; vacuum analyze document_versions"
    );
    execute_each(&client, &rows).await;
    pages(&client, &query("sagas::stuck"), "(now() + interval '1 hour', 100)", "").await
}

/// Separately: vacuum cannot run in a batch.
async fn execute_each(client: &Client, statements: &str) {
    for statement in statements.split(';') {
        client.batch_execute(statement).await.unwrap();
    }
}

async fn costs(count: i64) -> [i64; 6] {
    let client = fresh_client().await;
    fill(&client, count).await;
    [
        pages(&client, &query("sagas::orphaned"), "(100)", "").await,
        pages(&client, &query("diagnostics::owners"), "(100)", "").await,
        pages(&client, &query("diagnostics::waiting_sagas"), "(100)", "").await,
        pages(&client, &query("diagnostics::leased_queues"), "(100)", "").await,
        pages(&client, &query("diagnostics::pending_queues"), "(100)", "").await,
        cost_of_stuck(count).await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn diagnostics_cost_does_not_grow_with_the_sagas() {
    let (few, many) = (costs(FEW).await, costs(scale::rows()).await);
    for (name, (few, many)) in
        ["adrift", "owners", "waiting", "leased", "pending", "stuck"].iter().zip(few.into_iter().zip(many))
    {
        // An index of a million entries is a level or two deeper.
        assert!(few > 0 && many <= few * 3, "{name}: {few} pages became {many}");
    }
}
