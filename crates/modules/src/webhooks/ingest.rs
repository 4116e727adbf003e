//! Takes events and routes them: an event and its deliveries are on disk together, once.
//!
//! An event goes to every subscription that names its type, to a disabled one too: disabling only keeps its jobs from
//! being leased, so what came meanwhile is sent when it is back.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use backstitch::group_commit::{GroupCommit, GroupWriter};
use backstitch::kernel::idempotency::{Digest, Verdict, judge};
use backstitch::store::postgres::Acting;
use backstitch::store::sqlite::GroupedInsert;
use backstitch::store::{self, Writers, postgres};
use backstitch::{Payload, Timestamp, outbox};
use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::base::{Base, Part, Side};
use super::error::Error;
use super::event_id::check_event_id;
use super::event_type::{check_type, patterns_of};
use crate::question::column_unreadable;

/// Something that happened, as a client tells it.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// The client's own id, by which a repeat is known; without one each telling is an event.
    pub id: Option<String>,
    /// What kind of thing happened.
    pub kind: String,
    /// What there is to say about it; it is sent exactly as it stands.
    pub payload: Payload,
}

/// An event that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its number.
    pub event: i64,
    /// The message id that receivers will see.
    pub webhook_id: String,
    /// To how many subscriptions it was routed.
    pub deliveries: u64,
    /// It had been told before, and nothing changed.
    pub repeated: bool,
}

/// Takes events.
pub struct Ingest {
    base: Arc<Base>,
    group: GroupCommit<Given, Outcome>,
}

/// An event on its way to the disk.
#[derive(Clone)]
struct Given {
    uid: String,
    kind: String,
    payload: Payload,
    webhook_id: String,
    digest: Digest,
}

type Outcome = Result<Accepted, NotTaken>;

/// Why one event of a batch was not taken.
enum NotTaken {
    /// Its id is another event's.
    Conflict { event: i64, at: Timestamp },
    /// Its id is known, and what it was first used for cannot be told now.
    Unread(Arc<store::Error>),
}

impl From<NotTaken> for Error {
    fn from(why: NotTaken) -> Self {
        match why {
            NotTaken::Conflict { event, at } => Self::Conflict { event, at },
            NotTaken::Unread(why) => Self::Batch(why),
        }
    }
}

impl Ingest {
    pub(super) fn on(base: Arc<Base>) -> Result<Self, store::Error> {
        let writers = Writers::Tasks(base.writers());
        let group = GroupCommit::start(&EventWriter(base.clone()), writers, base.pace())?;
        Ok(Self { base, group })
    }

    /// Takes an event and routes it; both are on disk when this returns. Many at once share transactions.
    ///
    /// # Errors
    /// When the event cannot be, its id is another event's, or the database cannot be written.
    pub async fn accept(&self, event: NewEvent) -> Result<Accepted, Error> {
        let given = self.given(event)?;
        let outcome = self.group.write(given).await?;
        self.base.begin_soon();
        Ok(outcome?)
    }

    /// Takes several at once, each on its own or not at all.
    ///
    /// # Errors
    /// For each by itself; see [`Ingest::accept`].
    pub async fn accept_all(&self, events: Vec<NewEvent>) -> Vec<Result<Accepted, Error>> {
        futures::future::join_all(events.into_iter().map(|event| self.accept(event))).await
    }

    fn given(&self, event: NewEvent) -> Result<Given, Error> {
        let NewEvent { id, kind, payload } = event;
        check_type(&kind)?;
        if let Some(id) = &id {
            check_event_id(id).map_err(|why| Error::invalid("id", why))?;
        }
        let made = self.base.ids.next(self.base.now()).0.simple().to_string();
        // Nobody can tell an event again whose id nobody knew: there is nothing to compare.
        let digest = id.as_ref().map_or(Digest([0; 32]), |_| identity(&kind, &payload));
        Ok(Given {
            uid: id.unwrap_or_else(|| made.clone()),
            kind,
            payload,
            webhook_id: format!("msg_{made}"),
            digest,
        })
    }
}

/// What tells the same event from another one under its id: its type, and its payload as the outbox compares messages. Integers that
/// a double cannot keep, which are all alike to the canonical form, are told apart besides.
fn identity(kind: &str, payload: &Payload) -> Digest {
    let mut hash = Sha256::new();
    hash.update(kind.as_bytes());
    // No type holds a zero byte, so where it ends is clear.
    hash.update([0]);
    hash.update(outbox::digest(payload).0);
    if let Ok(document) = payload.decode() {
        let mut numbers = Vec::new();
        large_integers(&document, &mut numbers);
        if numbers.iter().any(Option::is_some) {
            for number in numbers {
                hash.update(number.unwrap_or_default());
                hash.update([0]);
            }
        }
    }
    Digest(hash.finalize().into())
}

/// The integer up to which a double keeps every one before it.
const KEPT_BY_DOUBLES: u64 = 1 << 53;

/// All numbers in their places: those written out that a double may stand for together with others.
fn large_integers(document: &Value, numbers: &mut Vec<Option<String>>) {
    match document {
        Value::Number(number) => numbers.push(large_integer(number)),
        Value::Array(items) => items.iter().for_each(|item| large_integers(item, numbers)),
        Value::Object(fields) => fields.values().for_each(|field| large_integers(field, numbers)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Alike for `100000000000000000` and `1e17`.
fn large_integer(number: &serde_json::Number) -> Option<String> {
    if let Some(size) = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs)) {
        return (size >= KEPT_BY_DOUBLES).then(|| number.to_string());
    }
    let double = number.as_f64()?;
    #[expect(clippy::cast_precision_loss, reason = "a power of two is kept exactly")]
    let is_large = double.fract() == 0.0 && double.abs() >= KEPT_BY_DOUBLES as f64;
    is_large.then(|| format!("{double:.0}"))
}

#[derive(Clone)]
struct EventWriter(Arc<Base>);

impl GroupWriter for EventWriter {
    type Item = Given;
    type Answer = Outcome;

    const ISOLATES: bool = true;

    fn bytes(given: &Given) -> usize {
        given.payload.len()
    }

    async fn write(&self, events: &[Given]) -> Result<Vec<Outcome>, store::Error> {
        match self.0.side(Part::Ingest)? {
            Side::Sqlite(file) => {
                let (events, now) = (events.to_vec(), self.0.now());
                file.write_product(move |transaction| on_file(transaction, &events, now)).await
            }
            Side::Postgres(server) => on_server(server, events).await,
        }
    }
}

/// What was first told under the id.
struct Known {
    event: i64,
    webhook_id: String,
    digest: Digest,
    at: Timestamp,
    deliveries: u64,
}

impl Known {
    fn answers(&self, given: &Given) -> Outcome {
        match judge(Some(&self.digest), &given.digest) {
            Verdict::Conflict => Err(NotTaken::Conflict { event: self.event, at: self.at }),
            Verdict::Fresh | Verdict::Replay => Ok(Accepted {
                event: self.event,
                webhook_id: self.webhook_id.clone(),
                deliveries: self.deliveries,
                repeated: true,
            }),
        }
    }
}

fn on_file(transaction: &Transaction<'_>, batch: &[Given], now: Timestamp) -> rusqlite::Result<Vec<Outcome>> {
    let mut insert = transaction.prepare_cached(include_str!("sqlite/insert_event.sql"))?;
    // Nobody changes a subscription while this transaction lasts.
    let mut wanted: HashMap<&str, Vec<i64>> = HashMap::new();
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut routes = Vec::with_capacity(batch.len());
    for given in batch {
        let Given { uid, kind, payload, webhook_id, digest } = given;
        let values = params![uid, kind, payload.as_str(), webhook_id, digest.0, now.as_micros()];
        let event: i64 = match insert.query_row(values, |row| row.get(0)) {
            Ok(event) => event,
            Err(refused) => {
                // The guard of the table refuses a uid that exists; anything else is an error. The event may be one of
                // this batch, and its deliveries are counted.
                insert_routes(transaction, &routes, now)?;
                routes.clear();
                let known = known_on_file(transaction, uid)?.ok_or(refused)?;
                outcomes.push(known.answers(given));
                continue;
            }
        };
        if !wanted.contains_key(kind.as_str()) {
            wanted.insert(kind, wanted_by(transaction, kind)?);
        }
        let subscriptions = &wanted[kind.as_str()];
        let deliveries = subscriptions.len() as u64;
        routes.extend(subscriptions.iter().map(|&subscription| Route { event, subscription, webhook_id }));
        outcomes.push(Ok(Accepted { event, webhook_id: webhook_id.clone(), deliveries, repeated: false }));
    }
    insert_routes(transaction, &routes, now)?;
    Ok(outcomes)
}

/// A delivery of an event to a subscription.
struct Route<'g> {
    event: i64,
    subscription: i64,
    webhook_id: &'g str,
}

static INSERT_ROUTES: LazyLock<GroupedInsert> = LazyLock::new(|| {
    let into = "insert or fail into webhook_delivery_sagas ( \
         event_id, subscription_id, webhook_id, next_attempt_at, created_at, updated_at \
     )";
    GroupedInsert::new(into, 6)
});

fn insert_routes(
    transaction: &Transaction<'_>,
    routes: &[Route<'_>],
    now: Timestamp,
) -> rusqlite::Result<()> {
    INSERT_ROUTES.insert(transaction, routes, |route, values| {
        values.bind(route.event)?;
        values.bind(route.subscription)?;
        values.bind(route.webhook_id)?;
        for _ in ["next_attempt_at", "created_at", "updated_at"] {
            values.bind(now.as_micros())?;
        }
        Ok(())
    })
}

fn wanted_by(transaction: &Transaction<'_>, kind: &str) -> rusqlite::Result<Vec<i64>> {
    let mut statement = transaction.prepare_cached(include_str!("sqlite/wanted_by.sql"))?;
    let mut subscriptions = Vec::new();
    for pattern in patterns_of(kind) {
        for subscription in statement.query_map([pattern], |row| row.get(0))? {
            subscriptions.push(subscription?);
        }
    }
    subscriptions.sort_unstable();
    subscriptions.dedup();
    Ok(subscriptions)
}

fn known_on_file(transaction: &Transaction<'_>, uid: &str) -> rusqlite::Result<Option<Known>> {
    let mut statement = transaction.prepare_cached(include_str!("sqlite/known_event.sql"))?;
    let known = statement.query_row([uid], |row| {
        Ok(Known {
            event: row.get(0)?,
            webhook_id: row.get(1)?,
            digest: Digest(row.get(2)?),
            at: Timestamp::from_micros(row.get(3)?),
            deliveries: row.get::<_, i64>(4)?.unsigned_abs(),
        })
    });
    known.optional()
}

async fn on_server(server: &Acting, batch: &[Given]) -> Result<Vec<Outcome>, store::Error> {
    let uids: Vec<&str> = batch.iter().map(|given| given.uid.as_str()).collect();
    let kinds: Vec<&str> = batch.iter().map(|given| given.kind.as_str()).collect();
    let payloads: Vec<&str> = batch.iter().map(|given| given.payload.as_str()).collect();
    let webhook_ids: Vec<&str> = batch.iter().map(|given| given.webhook_id.as_str()).collect();
    let digests: Vec<&[u8]> = batch.iter().map(|given| given.digest.0.as_slice()).collect();
    let (mut types, mut patterns) = (Vec::new(), Vec::new());
    let mut seen = std::collections::HashSet::new();
    for kind in kinds.iter().filter(|kind| seen.insert(**kind)) {
        for pattern in patterns_of(kind) {
            types.push(*kind);
            patterns.push(pattern);
        }
    }
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&uids, &kinds, &payloads, &webhook_ids, &digests, &types, &patterns];
    let rows = server.query(include_str!("postgres/ingest.sql"), &values).await?;
    let mut fresh = HashMap::with_capacity(rows.len());
    for row in &rows {
        let (webhook_id, accepted) = fresh_on_server(row).map_err(|why| column_unreadable(&why))?;
        fresh.insert(webhook_id, accepted);
    }
    let repeated: Vec<&str> = batch
        .iter()
        .filter(|given| !fresh.contains_key(&given.webhook_id))
        .map(|given| given.uid.as_str())
        .collect();
    // What is new is on disk, whatever is found out about the others.
    let known =
        if repeated.is_empty() { Ok(HashMap::new()) } else { known_on_server(server, &repeated).await };
    let known = known.map_err(Arc::new);
    let gone =
        || store::Error::Unavailable("an event was pruned at this very moment: tell it again".to_owned());
    let answer = |given: &Given| match (fresh.remove(&given.webhook_id), &known) {
        (Some(accepted), _) => Ok(accepted),
        (None, Ok(known)) => {
            known.get(&given.uid).ok_or_else(|| NotTaken::Unread(Arc::new(gone())))?.answers(given)
        }
        (None, Err(why)) => Err(NotTaken::Unread(why.clone())),
    };
    Ok(batch.iter().map(answer).collect())
}

/// Each under the message id that was made for it alone: of two tellings in a batch one is fresh, and this says which.
fn fresh_on_server(row: &tokio_postgres::Row) -> Result<(String, Accepted), tokio_postgres::Error> {
    let webhook_id: String = row.try_get("webhook_id")?;
    let deliveries = row.try_get::<_, i64>("deliveries")?.unsigned_abs();
    let event = row.try_get("id")?;
    Ok((webhook_id.clone(), Accepted { event, webhook_id, deliveries, repeated: false }))
}

async fn known_on_server(server: &Acting, uids: &[&str]) -> Result<HashMap<String, Known>, store::Error> {
    // The first request with this id may have an unknown outcome.
    let rows = server.query_durably(include_str!("postgres/known_events.sql"), &[&uids]).await?;
    let known = |row: &tokio_postgres::Row| {
        let mut digest = [0; 32];
        let stored: &[u8] = row.try_get("digest")?;
        // The table's check leaves no other length.
        digest.copy_from_slice(stored.get(..32).unwrap_or(&[0; 32]));
        let known = Known {
            event: row.try_get("id")?,
            webhook_id: row.try_get("webhook_id")?,
            digest: Digest(digest),
            at: postgres::timestamp(row.try_get("created_at")?),
            deliveries: row.try_get::<_, i64>("deliveries")?.unsigned_abs(),
        };
        Ok((row.try_get("uid")?, known))
    };
    rows.iter()
        .map(known)
        .collect::<Result<_, _>>()
        .map_err(|why: tokio_postgres::Error| column_unreadable(&why))
}
