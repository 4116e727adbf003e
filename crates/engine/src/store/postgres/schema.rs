//! Brings the tables of one area of a database to their newest form.

use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_postgres::{GenericClient, Object, Transaction};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::fault;
use super::session::Session;
use super::values::get;
use crate::store::migrations::statements::statements;
use crate::store::migrations::{ENGINE, missing};
use crate::store::product::Schema;
use crate::store::{Error, SchemaName};

const IS_THERE: &str = "select to_regclass('$schema.product_migrations') is not null as there";
const VERSIONS: &str =
    "select product, max(version) as version from $schema.product_migrations group by product";
const HAS_NODES: &str = "select to_regclass('$schema.nodes') is not null as there";

/// A process that migrates holds this lock, combined with the name of the schema. The number is "backstit" in ASCII.
const LOCK: i64 = 0x6261_636b_7374_6974;

/// A change of a table that is in use is tried so often, with so much time for others in between: for ten minutes.
const ATTEMPTS: u32 = 400;
const WAIT_FOR_A_MOMENT: &str = "set local lock_timeout = '500ms'";
const PAUSE: Duration = Duration::from_secs(1);

/// The oldest server that has everything the schema uses.
pub(super) const OLDEST_SERVER: i32 = 130_000;

/// The version of each area that the schema has.
pub(super) async fn versions(session: &Session, schema: &SchemaName) -> Result<BTreeMap<String, i64>, Error> {
    if !get::<bool>(&session.query_one(&schema.qualify(IS_THERE)).await?, "there")? {
        return Ok(BTreeMap::new());
    }
    by_area(&session.query(&schema.qualify(VERSIONS), &[]).await?)
}

fn by_area(rows: &[Row]) -> Result<BTreeMap<String, i64>, Error> {
    rows.iter().map(|row| Ok((get(row, "product")?, get(row, "version")?))).collect()
}

/// The version of an area; 0 where there is none of it.
async fn version(client: &impl GenericClient, schema: &SchemaName, area: &Schema) -> Result<i64, Error> {
    let record = client.query_one(&schema.qualify(IS_THERE), &[]).await.map_err(told)?;
    if !get::<bool>(&record, "there")? {
        return Ok(0);
    }
    let found = by_area(&client.query(&schema.qualify(VERSIONS), &[]).await.map_err(told)?)?;
    Ok(found.get(area.product).copied().unwrap_or_default())
}

/// Brings the tables of an area in a schema to their newest form, whole or not at all, one process at a time. A database that is up to
/// date is left alone: most starts need no right to change it.
///
/// # Errors
/// When the database cannot be changed, a newer program has changed the area, or nodes are alive that cannot read what a
/// migration brings.
pub async fn migrate(client: &mut Object, schema: &SchemaName, area: &Schema) -> Result<(), Error> {
    if version(client, schema, area).await? == area.newest() {
        return Ok(());
    }
    let server = client.query_one("select current_setting('server_version_num')::integer", &[]).await;
    supported(server.and_then(|row| row.try_get(0)).map_err(told)?)?;
    let mut transaction = client.transaction().await.map_err(told)?;
    let prepare = format!(
        "set local statement_timeout = 0;
         set local lock_timeout = 0;
         select pg_advisory_xact_lock({LOCK} # hashtext('$schema'));
         create schema if not exists $schema;
         create table if not exists $schema.product_migrations (
            version    bigint      not null,
            applied_at timestamptz not null default now(),
            product    text        not null,
            name       text        not null,
            primary key (product, version)
        )"
    );
    run(&transaction, &schema.qualify(&prepare)).await.map_err(told)?;
    let found = version(&transaction, schema, area).await?;
    let missing = missing(area, found)?;
    refuse_older_nodes(&mut transaction, schema, area, found).await?;
    for (version, migration) in missing {
        apply(&mut transaction, &schema.qualify(migration.postgres)).await?;
        let done = "insert into $schema.product_migrations (product, version, name) values ($1, $2, $3)";
        transaction
            .execute(&schema.qualify(done), &[&area.product, &version, &migration.name])
            .await
            .map_err(told)?;
    }
    shut_out_older_nodes(&mut transaction, schema, area, found).await?;
    transaction.commit().await.map_err(told)
}

/// Sends statement by statement.
async fn run(client: &impl GenericClient, sql: &str) -> Result<(), tokio_postgres::Error> {
    for statement in statements(sql) {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

/// Until the transaction ends: no node registers between the check for older ones and the migration.
async fn keep_nodes_from_joining(
    transaction: &mut Transaction<'_>,
    schema: &SchemaName,
) -> Result<(), Error> {
    apply(transaction, &schema.qualify("lock table $schema.nodes in share row exclusive mode")).await
}

/// Nodes that are alive know the schema that is found, and no newer one: a node migrates before it joins.
async fn refuse_beside(transaction: &Transaction<'_>, schema: &SchemaName, which: &str) -> Result<(), Error> {
    let alive = format!(
        "select distinct name
        from $schema.nodes as node
        where heartbeat_at + lease_ms * interval '1 ms' > $schema.clock() and {which}
        order by name"
    );
    let rows = transaction.query(&schema.qualify(&alive), &[]).await.map_err(told)?;
    let names = rows.iter().map(|row| get(row, "name")).collect::<Result<Vec<String>, _>>()?;
    if names.is_empty() { Ok(()) } else { Err(Error::OlderNodes(names.join(", "))) }
}

/// The newest of these migrations whose data nodes with an earlier version of the product cannot read. There are no such nodes
/// where no version was found, or where no node has ever been.
async fn breaking_for_nodes(
    transaction: &Transaction<'_>,
    schema: &SchemaName,
    area: &Schema,
    found: i64,
) -> Result<Option<i64>, Error> {
    let Some(version) = area.breaking_after(found).filter(|_| found > 0) else { return Ok(None) };
    let has_nodes = transaction.query_one(&schema.qualify(HAS_NODES), &[]).await.map_err(told)?;
    Ok(get::<bool>(&has_nodes, "there")?.then_some(version))
}

/// If a migration from the version that is found brings data that older nodes cannot read, no node registers until the
/// transaction ends, and it is an error that nodes with the area are alive. All nodes have the engine's tables. Nodes of
/// earlier versions do not say which products they have.
async fn refuse_older_nodes(
    transaction: &mut Transaction<'_>,
    schema: &SchemaName,
    area: &Schema,
    found: i64,
) -> Result<(), Error> {
    if breaking_for_nodes(transaction, schema, area, found).await?.is_none() {
        return Ok(());
    }
    keep_nodes_from_joining(transaction, schema).await?;
    if is_engine(area) {
        return refuse_beside(transaction, schema, "true").await;
    }
    // By way of the whole row: the column may not be there yet.
    let products = "coalesce(to_jsonb(node) -> 'products', 'null')";
    let which = format!("({products} = 'null' or {products} ? '{}')", area.product);
    refuse_beside(transaction, schema, &which).await
}

/// From now on a node that cannot read what these migrations have brought can neither join nor send its heartbeat, one
/// that was stopped meanwhile and goes on included.
async fn shut_out_older_nodes(
    transaction: &mut Transaction<'_>,
    schema: &SchemaName,
    area: &Schema,
    found: i64,
) -> Result<(), Error> {
    let Some(version) = breaking_for_nodes(transaction, schema, area, found).await? else { return Ok(()) };
    if is_engine(area) {
        let shut_out = format!(
            "drop trigger if exists nodes_refuse_older_version on $schema.nodes;
            create trigger nodes_refuse_older_version
                before insert or update on $schema.nodes
                for each row
                when (new.schema_version < {version})
                execute function $schema.refuse('a newer version has changed the data: upgrade this node')"
        );
        return apply(transaction, &schema.qualify(&shut_out)).await;
    }
    let product = area.product;
    let shut_out = format!(
        "create or replace function $schema.refuse_older_product() returns trigger
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
        drop trigger if exists nodes_refuse_older_{product} on $schema.nodes;
        create trigger nodes_refuse_older_{product}
            before insert or update on $schema.nodes
            for each row
            execute function $schema.refuse_older_product('{product}', '{version}')"
    );
    apply(transaction, &schema.qualify(&shut_out)).await
}

fn is_engine(area: &Schema) -> bool {
    area.product == ENGINE.product
}

/// Makes one change once nobody is in its way. Everybody else waits behind a change that waits for a table, be it for a backup
/// that reads it for an hour; so it waits for moments only, and lets them go first in between.
async fn apply(transaction: &mut Transaction<'_>, migration: &str) -> Result<(), Error> {
    let mut attempts_left = ATTEMPTS;
    loop {
        let attempt = transaction.transaction().await.map_err(told)?;
        attempt.batch_execute(WAIT_FOR_A_MOMENT).await.map_err(told)?;
        let Err(why) = run(&attempt, migration).await else {
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
