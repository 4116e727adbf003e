//! The floor: a bare loop that writes the rows of transitions with the same settings and group size, and does nothing
//! else.

use std::time::{Duration, Instant};

use backstitch::store::sqlite::{WRITER_SETTINGS, allow_guarded_writes};
use rusqlite::{Connection, params};
use tokio_postgres::{Client, NoTls};

use super::super::Failure;
use super::super::target::Target;

/// A longer run adds no information.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// The number of transitions per group: rows of one group have the same time.
pub(super) async fn group(target: &Target, transitions: u64) -> Result<f64, Failure> {
    let sql = "select count(distinct at) from saga_events where type = 'lifecycle.transitioned'";
    let transactions: i64 = match Place::of(target).await? {
        Place::File(connection) => connection.query_row(sql, [], |row| row.get(0))?,
        Place::Server(client) => client.query_one(sql, &[]).await?.get(0),
    };
    #[expect(clippy::cast_precision_loss, reason = "an average is shown with one digit")]
    let average = transitions as f64 / transactions.max(1) as f64;
    Ok(average)
}

/// Transitions per second of the bare loop, on the rows of the run.
pub(super) async fn measure(target: &Target, group: f64) -> Result<f64, Failure> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a group is small")]
    let group = (group.round() as usize).max(1);
    match Place::of(target).await? {
        Place::File(connection) => tokio::task::spawn_blocking(move || on_file(&connection, group)).await?,
        Place::Server(client) => on_server(&client, group).await,
    }
}

enum Place {
    File(Connection),
    Server(Client),
}

impl Place {
    async fn of(target: &Target) -> Result<Self, Failure> {
        let address = target.address().ok_or("there is no database")?;
        if let Some(path) = address.strip_prefix("sqlite:") {
            return Ok(Self::File(Connection::open(path)?));
        }
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("set search_path = backstitch").await?;
        Ok(Self::Server(client))
    }
}

fn on_file(connection: &Connection, group: usize) -> Result<f64, Failure> {
    connection.execute_batch(WRITER_SETTINGS)?;
    allow_guarded_writes(connection)?;
    let ids = begin_on_file(connection, group)?;
    // All `or fail`, like the product's: otherwise SQLite would keep a statement journal.
    let mut update = connection.prepare(
        "update or fail lifecycles set state = ?2, seq = ?3, entry = ?3, updated_at = ?4, entered_at = ?4, due_at = null, \
         stuck_at = null where id = ?1",
    )?;
    let mut append = connection.prepare(
        "insert or fail into saga_events (saga_id, seq, at, type, step, attempt, data) \
         values (?1, ?2, ?3, 'lifecycle.transitioned', ?4, 1, ?5)",
    )?;
    let mut tell = connection.prepare(
        "insert or fail into outbox (topic, idempotency_key, payload, due_at, created_at, updated_at) \
         values (?1, ?2, ?3, ?4, ?4, ?4)",
    )?;
    let (mut written, mut seq) = (0_u32, 1_i64);
    let began = Instant::now();
    while began.elapsed() < LONG_ENOUGH {
        seq += 1;
        let state = ["source_resolving", "source_resolved"][usize::from(seq % 2 == 0)];
        connection.execute_batch("begin immediate")?;
        for id in &ids {
            update.execute(params![id, state, seq, seq])?;
            append.execute(params![id, seq, seq, state, DATA])?;
            tell.execute(params![format!("sites.provisioning.{state}"), key(id, seq), PAYLOAD, seq])?;
        }
        connection.execute_batch("commit")?;
        written += u32::try_from(ids.len())?;
    }
    Ok(f64::from(written) / began.elapsed().as_secs_f64())
}

fn begin_on_file(connection: &Connection, group: usize) -> Result<Vec<Vec<u8>>, Failure> {
    let mut insert = connection.prepare(
        "insert into lifecycles (id, machine, key, version, state, ended, seq, entry, attempt, created_at, updated_at, \
         entered_at) values (randomblob(16), 'site-provisioning', 'floor-' || ?1, 1, 'requested', 0, 1, 1, 1, 0, 0, 0) \
         returning id",
    )?;
    (0..group).map(|nth| Ok(insert.query_row([nth.to_string()], |row| row.get(0))?)).collect()
}

/// The data of a transition's event, and its message.
const DATA: &str = r#"{"from":"source_resolving"}"#;
const PAYLOAD: &str = r#"{"type":"SiteProvisionStateChanged","machine":"site-provisioning","key":"site-255-99","site_id":"site-255-99","from_state":"source_resolving","to_state":"source_resolved","attempt":1,"correlation_id":null,"error_kind":null,"at":"2026-01-01T00:00:00.000000Z","seq":3}"#;

fn key(id: &[u8], seq: i64) -> String {
    let id = id.try_into().map(uuid::Uuid::from_bytes).unwrap_or_default();
    format!("{id}:{seq}")
}

async fn on_server(client: &Client, group: usize) -> Result<f64, Failure> {
    let count = i64::try_from(group)?;
    let insert = "insert into lifecycles (id, machine, key, version, state, ended, seq, entry, attempt, created_at, \
                 updated_at, entered_at) select gen_random_uuid(), 'site-provisioning', 'floor-' || n, 1, 'requested', \
                 false, 1, 1, 1, now(), now(), now() from generate_series(1, $1::bigint) as n returning id";
    let ids: Vec<uuid::Uuid> = client.query(insert, &[&count]).await?.iter().map(|row| row.get(0)).collect();
    let write = client
        .prepare(
            "with moved as (update lifecycles as l set state = $2, seq = $3, entry = $3, updated_at = now(), \
             entered_at = now(), due_at = null, stuck_at = null from unnest($1::uuid[]) as i (id) where l.id = i.id), \
             told as (insert into outbox (topic, idempotency_key, payload, due_at, created_at, updated_at) \
             select 'sites.provisioning.' || $2, id || ':' || $3, $5, now(), now(), now() from unnest($1::uuid[]) as i (id)) \
             insert into saga_events (saga_id, seq, at, type, step, attempt, data) \
             select id, $3, now(), 'lifecycle.transitioned', $2, 1, $4 from unnest($1::uuid[]) as i (id)",
        )
        .await?;
    let (mut written, mut seq) = (0_u32, 1_i32);
    let began = Instant::now();
    while began.elapsed() < LONG_ENOUGH {
        seq += 1;
        let state = ["source_resolving", "source_resolved"][usize::from(seq % 2 == 0)];
        client.execute(&write, &[&ids, &state, &seq, &DATA, &PAYLOAD]).await?;
        written += u32::try_from(ids.len())?;
    }
    Ok(f64::from(written) / began.elapsed().as_secs_f64())
}
