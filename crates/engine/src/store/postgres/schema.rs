//! The schema and how a database gets to it.

use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_postgres::{GenericClient, Object, Transaction};
use tokio_postgres::error::SqlState;

use super::fault;
use super::session::Session;
use super::values::get;
use crate::store::Error;
use crate::store::product::Schema;

struct Migration {
    name: &'static str,
    sql: &'static str,
    /// Whether nodes that do not know it cannot read what newer ones write, such as a new kind of event. It waits until
    /// they are gone, and keeps them from coming back.
    is_breaking: bool,
}

const fn migration(name: &'static str, sql: &'static str) -> Migration {
    Migration { name, sql, is_breaking: false }
}

const fn breaking(name: &'static str, sql: &'static str) -> Migration {
    Migration { is_breaking: true, ..migration(name, sql) }
}

/// In the order they are applied; the first one is version 1.
const MIGRATIONS: &[Migration] = &[
    migration("sagas", include_str!("../../../migrations/postgres/0001_sagas.sql")),
    migration("jobs", include_str!("../../../migrations/postgres/0002_jobs.sql")),
    migration("outbox", include_str!("../../../migrations/postgres/0003_outbox.sql")),
    migration("retention", include_str!("../../../migrations/postgres/0004_retention.sql")),
    migration("guards", include_str!("../../../migrations/postgres/0005_guards.sql")),
    migration("ordering", include_str!("../../../migrations/postgres/0006_ordering.sql")),
    migration("order_requests", include_str!("../../../migrations/postgres/0007_order_requests.sql")),
    migration("parked_items", include_str!("../../../migrations/postgres/0008_parked_items.sql")),
    migration("other_programs", include_str!("../../../migrations/postgres/0009_other_programs.sql")),
    // Nodes before it do not know the event `step.leased`.
    breaking("mixed_versions", include_str!("../../../migrations/postgres/0010_mixed_versions.sql")),
    migration("cheaper_guards", include_str!("../../../migrations/postgres/0011_cheaper_guards.sql")),
    migration("product_versions", include_str!("../../../migrations/postgres/0012_product_versions.sql")),
    migration("atomic_refusals", include_str!("../../../migrations/postgres/0013_atomic_refusals.sql")),
];

const IS_THERE: &str = "select to_regclass('backstitch.schema_migrations') is not null as there";
const VERSION: &str = "select coalesce(max(version), 0) as version from backstitch.schema_migrations";

const HAS_NODES: &str = "select to_regclass('backstitch.nodes') is not null as there";

const HAS_PRODUCTS: &str = "select to_regclass('backstitch.product_migrations') is not null as there";
const PRODUCT_VERSION: &str =
    "select coalesce(max(version), 0) as version from backstitch.product_migrations where product = $1";

/// Whoever migrates holds this lock of the database; the number is "backstit" in ASCII.
const LOCK: i64 = 0x6261_636b_7374_6974;

/// A change of a table that is in use is tried so often, with so much time for others in between: for ten minutes.
const ATTEMPTS: u32 = 400;
const WAIT_FOR_A_MOMENT: &str = "set local lock_timeout = '500ms'";
const PAUSE: Duration = Duration::from_secs(1);

/// The oldest server that has everything the schema uses.
pub(super) const OLDEST_SERVER: i32 = 130_000;

/// Whether there is nothing to do.
pub(super) async fn is_newest(session: &Session) -> Result<bool, Error> {
    if !get::<bool>(&session.query_one(IS_THERE).await?, "there")? {
        return Ok(false);
    }
    Ok(version_of(session).await? == newest())
}

/// The version of the engine's own tables, which are there.
pub(super) async fn version_of(session: &Session) -> Result<i64, Error> {
    get(&session.query_one(VERSION).await?, "version")
}

/// The version of the tables of each product.
pub(super) async fn products(session: &Session) -> Result<BTreeMap<String, i64>, Error> {
    if !get::<bool>(&session.query_one(HAS_PRODUCTS).await?, "there")? {
        return Ok(BTreeMap::new());
    }
    let newest =
        "select product, max(version) as version from backstitch.product_migrations group by product";
    let rows = session.query(newest, &[]).await?;
    rows.iter().map(|row| Ok((get(row, "product")?, get(row, "version")?))).collect()
}

/// Brings the database to the newest schema, whole or not at all, one process at a time.
pub(super) async fn migrate(client: &mut Object) -> Result<(), Error> {
    let server = client.query_one("select current_setting('server_version_num')::integer", &[]).await;
    supported(server.and_then(|row| row.try_get(0)).map_err(told)?)?;
    let mut transaction = client.transaction().await.map_err(told)?;
    let wait_for_others = format!(
        "set local statement_timeout = 0;
         set local lock_timeout = 0;
         select pg_advisory_xact_lock({LOCK})"
    );
    transaction.batch_execute(&wait_for_others).await.map_err(told)?;
    let record = "create schema if not exists backstitch;
        create table if not exists backstitch.schema_migrations (
            version    bigint      primary key,
            name       text        not null,
            applied_at timestamptz not null default now()
        )";
    transaction.batch_execute(record).await.map_err(told)?;
    let (found, known) = (version(&transaction).await.map_err(told)?, newest());
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    let missing = || (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found);
    let breaking =
        missing().filter(|(_, migration)| migration.is_breaking).last().map(|(version, _)| version);
    if breaking.is_some() && found > 0 {
        keep_nodes_from_joining(&mut transaction).await?;
        refuse_beside(&transaction, "true").await?;
    }
    for (version, migration) in missing() {
        apply(&mut transaction, migration.sql).await?;
        let done = "insert into backstitch.schema_migrations (version, name) values ($1, $2)";
        transaction.execute(done, &[&version, &migration.name]).await.map_err(told)?;
    }
    if let Some(version) = breaking {
        apply(&mut transaction, &shut_out_before(version)).await?;
    }
    transaction.commit().await.map_err(told)
}

/// Until the transaction ends: no node registers between the check for older ones and the migration.
async fn keep_nodes_from_joining(transaction: &mut Transaction<'_>) -> Result<(), Error> {
    apply(transaction, "lock table backstitch.nodes in share row exclusive mode").await
}

/// Nodes that are alive know the schema that is found, and no newer one: a node migrates before it joins.
async fn refuse_beside(transaction: &Transaction<'_>, which: &str) -> Result<(), Error> {
    let alive = format!(
        "select distinct name
        from backstitch.nodes as node
        where heartbeat_at + lease_ms * interval '1 ms' > backstitch.clock() and {which}
        order by name"
    );
    let rows = transaction.query(&alive, &[]).await.map_err(told)?;
    let names = rows.iter().map(|row| get(row, "name")).collect::<Result<Vec<String>, _>>()?;
    if names.is_empty() { Ok(()) } else { Err(Error::OlderNodes(names.join(", "))) }
}

/// From now on a node that does not know this version can neither join nor send its heartbeat, one that was stopped
/// meanwhile and goes on included.
fn shut_out_before(version: i64) -> String {
    format!(
        "drop trigger if exists nodes_refuse_older_version on backstitch.nodes;
        create trigger nodes_refuse_older_version
            before insert or update on backstitch.nodes
            for each row
            when (new.schema_version < {version})
            execute function backstitch.refuse('a newer version has changed the data: upgrade this node')"
    )
}

/// The newest of these migrations whose data nodes with an earlier version of the product cannot read. There are no such nodes
/// where no version was found, or where no node has ever been.
async fn breaking_for_nodes(
    transaction: &Transaction<'_>,
    schema: &Schema,
    found: i64,
) -> Result<Option<i64>, Error> {
    let Some(version) = schema.breaking_after(found).filter(|_| found > 0) else { return Ok(None) };
    let has_nodes = transaction.query_one(HAS_NODES, &[]).await.map_err(told)?;
    Ok(get::<bool>(&has_nodes, "there")?.then_some(version))
}

/// Prepares for migrations of a product from a version that is found. If one of them brings data that older nodes cannot
/// read, no node registers until the transaction ends, and it is an error that nodes with the product are alive. Nodes of
/// earlier versions do not say which products they have.
///
/// # Errors
/// When such nodes are alive, or the database cannot be written.
pub async fn before_product_migrations(
    transaction: &mut Transaction<'_>,
    schema: &Schema,
    found: i64,
) -> Result<(), Error> {
    if breaking_for_nodes(transaction, schema, found).await?.is_none() {
        return Ok(());
    }
    keep_nodes_from_joining(transaction).await?;
    // By way of the whole row: the column may not be there yet.
    let products = "coalesce(to_jsonb(node) -> 'products', 'null')";
    let which = format!("({products} = 'null' or {products} ? '{}')", schema.product);
    refuse_beside(transaction, &which).await
}

/// Shuts out nodes that cannot read what these migrations have brought: see [`before_product_migrations`].
///
/// # Errors
/// When the database cannot be written.
pub async fn after_product_migrations(
    transaction: &mut Transaction<'_>,
    schema: &Schema,
    found: i64,
) -> Result<(), Error> {
    let Some(version) = breaking_for_nodes(transaction, schema, found).await? else { return Ok(()) };
    let product = schema.product;
    let shut_out = format!(
        "create or replace function backstitch.refuse_older_product() returns trigger
            language plpgsql
            set search_path = pg_catalog, pg_temp
        as $$
        declare
            products constant jsonb := coalesce(to_jsonb(new) -> 'products', 'null');
        begin
            if products = 'null' or (products ->> tg_argv[0])::bigint < tg_argv[1]::bigint then
                raise exception 'a newer version has changed the data of %: upgrade this node', tg_argv[0]
                    using errcode = 'restrict_violation', table = tg_table_name;
            end if;
            return new;
        end;
        $$;
        drop trigger if exists nodes_refuse_older_{product} on backstitch.nodes;
        create trigger nodes_refuse_older_{product}
            before insert or update on backstitch.nodes
            for each row
            execute function backstitch.refuse_older_product('{product}', '{version}')"
    );
    apply(transaction, &shut_out).await
}

/// Brings the tables of a product to their newest form, whole or not at all, one process at a time.
pub(super) async fn migrate_product(client: &mut Object, schema: &Schema) -> Result<(), Error> {
    let mut transaction = client.transaction().await.map_err(told)?;
    let prepare = format!(
        "set local statement_timeout = 0;
         set local lock_timeout = 0;
         select pg_advisory_xact_lock({LOCK});
         create table if not exists backstitch.product_migrations (
            version    bigint      not null,
            applied_at timestamptz not null default now(),
            product    text        not null,
            name       text        not null,
            primary key (product, version)
        )"
    );
    transaction.batch_execute(&prepare).await.map_err(told)?;
    let found = transaction.query_one(PRODUCT_VERSION, &[&schema.product]).await.map_err(told)?;
    let (found, known) = (get::<i64>(&found, "version")?, schema.newest());
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    before_product_migrations(&mut transaction, schema, found).await?;
    for (version, migration) in (1..).zip(schema.migrations).filter(|(version, _)| *version > found) {
        apply(&mut transaction, migration.postgres).await?;
        let done = "insert into backstitch.product_migrations (product, version, name) values ($1, $2, $3)";
        transaction.execute(done, &[&schema.product, &version, &migration.name]).await.map_err(told)?;
    }
    after_product_migrations(&mut transaction, schema, found).await?;
    transaction.commit().await.map_err(told)
}

/// Makes one change once nobody is in its way. Everybody else waits behind a change that waits for a table, be it for a backup
/// that reads it for an hour; so it waits for moments only, and lets them go first in between.
async fn apply(transaction: &mut Transaction<'_>, migration: &str) -> Result<(), Error> {
    let mut attempts_left = ATTEMPTS;
    loop {
        let attempt = transaction.transaction().await.map_err(told)?;
        attempt.batch_execute(WAIT_FOR_A_MOMENT).await.map_err(told)?;
        let Err(why) = attempt.batch_execute(migration).await else {
            return attempt.commit().await.map_err(told);
        };
        attempts_left -= 1;
        if why.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) || attempts_left == 0 {
            return Err(told(why));
        }
        attempt.rollback().await.map_err(told)?;
        tracing::warn!(
            "the tables are in use and cannot be changed yet: this node starts once they are free"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether there is nothing to do for a product.
pub(super) async fn is_newest_of(session: &Session, schema: &Schema) -> Result<bool, Error> {
    if !get::<bool>(&session.query_one(HAS_PRODUCTS).await?, "there")? {
        return Ok(false);
    }
    let rows = session.query(PRODUCT_VERSION, &[&schema.product]).await?;
    let found = rows.first().map(|row| get::<i64>(row, "version")).transpose()?;
    Ok(found == Some(schema.newest()))
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error it is given")]
fn told(why: tokio_postgres::Error) -> Error {
    fault::error(&why)
}

fn supported(server: i32) -> Result<(), Error> {
    if server >= OLDEST_SERVER {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the server is PostgreSQL {}: use version {} or newer",
        server / 10_000,
        OLDEST_SERVER / 10_000
    )))
}

pub(super) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

async fn version(client: &impl GenericClient) -> Result<i64, tokio_postgres::Error> {
    client.query_one(VERSION, &[]).await?.try_get("version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused_with_both_versions_named() {
        supported(150_007).unwrap();
        let refused = supported(120_022).unwrap_err().to_string();
        assert!(refused.contains("PostgreSQL 12") && refused.contains("13 or newer"), "{refused}");
    }
}
