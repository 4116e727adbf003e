//! Which instances are removed with their logs, and which dead letters: those that are old enough.
//!
//! What is removed is forgotten: the same key begins anew.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::jobs;
use backstitch::kernel::lifecycle::codec;
use backstitch::retention::{Area, CandidatePage, Line, NotPruned, Prunable, line};
use backstitch::store::retention::Bulk;
use backstitch::{Payload, Rfc3339, SagaId, Timestamp, store};
use base64::Engine as _;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Lifecycles;
use super::base::{Base, Side};
use super::dead_letters::{DeadLetter, read};
use super::looking::log;
use super::parked::{LETTER_RETENTION, RETENTION};
use super::standing::{COLUMNS, Standing};
use crate::question::{Record, Statement, Value, answered, borrowed, chosen, on_file, statement};
use crate::retention::{before, misread};

const ENDS: Statement = statement!("lifecycles/ends");
const OLD: Statement = statement!("lifecycles/old");
const REMOVE: Statement = statement!("lifecycles/remove");
const REMOVE_LOG: Statement = statement!("lifecycles/remove_log");
const OLD_LETTERS: Statement = statement!("lifecycles/old_letters");
const REMOVE_LETTERS: Statement = statement!("lifecycles/remove_letters");

/// How many are looked at together.
const PAGE: usize = 100;

/// How long what is over is kept: for ever, unless told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// Instances that have ended, with their logs, counted from their end.
    pub ended: Option<Duration>,
    /// Requests that nobody could make sense of.
    pub dead_letters: Option<Duration>,
}

impl Lifecycles {
    /// The areas of instances and dead letters at these ages, for [`Engine::prune_with`](backstitch::Engine::prune_with).
    #[must_use]
    pub fn retention(&self, ages: Ages) -> Vec<Area> {
        let base = &self.base;
        let ended = ages.ended.map(|age| Area::new(EndedInstances { base: base.clone(), age }));
        let letters = ages.dead_letters.map(|age| Area::new(OldLetters { base: base.clone(), age }));
        letters.into_iter().chain(ended).collect()
    }
}

struct EndedInstances {
    base: Arc<Base>,
    age: Duration,
}

/// Where the next page begins: the ends that are left to be looked at, and how far the first of them was.
#[derive(Clone)]
struct Reached {
    ends: Vec<(String, String)>,
    after: Option<SagaId>,
}

impl EndedInstances {
    async fn ends(&self) -> Result<Vec<(String, String)>, store::Error> {
        let rows = self.base.read(ENDS, Vec::new()).await?;
        rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect()
    }

    async fn exported(&self, id: SagaId) -> Result<Option<String>, NotPruned> {
        let sql = format!("select {COLUMNS} from lifecycles where id = $1");
        let rows = self.base.read_text(sql, vec![id.into()]).await?;
        let standing = rows.first().map(Standing::read).transpose().map_err(misread)?;
        let Some(standing) = standing else { return Ok(None) };
        let log = log(&self.base, id, 0, usize::MAX).await?;
        let unwritable =
            |why: serde_json::Error| NotPruned::Export(format!("an event has no JSON form: {why}"));
        let events = log.iter().map(|recorded| {
            let event = &recorded.event;
            let data = codec::data(event).map(RawValue::from_string).transpose().map_err(unwritable)?;
            Ok(EventLine {
                seq: recorded.seq,
                at: Rfc3339(recorded.at),
                r#type: event.name(),
                state: event.state(),
                attempt: event.attempt(),
                data,
            })
        });
        let events = events.collect::<Result<Vec<_>, NotPruned>>()?;
        let instance = &standing.instance;
        line(&InstanceLine {
            kind: "lifecycle",
            id,
            machine: &standing.machine,
            key: &standing.key,
            version: standing.version,
            state: &instance.state,
            abandoned: instance.abandoned,
            attempt: instance.attempt,
            correlation_id: instance.given.correlation_id.as_deref(),
            error_kind: instance.failure.as_ref().map(|failure| &*failure.kind),
            last_error: instance.failure.as_ref().map(|failure| &*failure.message),
            input: instance.given.input.as_ref(),
            created_at: Rfc3339(standing.created_at),
            updated_at: Rfc3339(instance.updated_at),
            log: events,
        })
        .map(Some)
    }
}

#[async_trait]
impl Prunable for EndedInstances {
    type Item = SagaId;
    type Place = Reached;

    const PARKED_IN: &'static str = RETENTION;
    const ITEM: &'static str = "lifecycle";
    const ITEMS: &'static str = "lifecycles";

    fn age(&self) -> Duration {
        self.age
    }

    /// One page of one state that is an end, and on to the next state after its last page.
    async fn page(&self, after: Option<Reached>) -> Result<CandidatePage<SagaId, Reached>, NotPruned> {
        let Reached { mut ends, after } = match after {
            Some(reached) => reached,
            None => Reached { ends: self.ends().await?, after: None },
        };
        let Some((machine, state)) = ends.last().cloned() else {
            return Ok(CandidatePage::before(None, Vec::new()));
        };
        let after = after.unwrap_or(SagaId(uuid::Uuid::nil()));
        let before = before(self.base.now(), self.age);
        let values: Vec<Value> = vec![machine.into(), state.into(), before.into(), after.into(), PAGE.into()];
        let page = self.base.read(OLD, values).await?;
        let mut old = Vec::new();
        for row in &page {
            if row.flag(1)? {
                old.push(row.id(0)?);
            }
        }
        let bulks: HashMap<SagaId, Bulk> = self.base.store().bulk_of_sagas(&old).await?.into_iter().collect();
        let items = old.into_iter().map(|id| (id, bulks.get(&id).copied().unwrap_or_default())).collect();
        let after = match page.last() {
            Some(last) if page.len() == PAGE && !last.flag(2)? => Some(last.id(0)?),
            _ => {
                ends.pop();
                None
            }
        };
        let next = (!ends.is_empty()).then_some(Reached { ends, after });
        Ok(CandidatePage::before(next, items))
    }

    async fn lines(&self, instances: Vec<SagaId>) -> Result<Vec<Line<SagaId>>, NotPruned> {
        let mut lines = Vec::with_capacity(instances.len());
        for id in instances {
            lines.extend(self.exported(id).await.transpose().map(|line| (id, line)));
        }
        Ok(lines)
    }

    async fn remove(&self, instances: Vec<SagaId>) -> Result<Vec<(&'static str, u64)>, NotPruned> {
        let gone = remove(&self.base, &instances, before(self.base.now(), self.age)).await?;
        Ok(vec![(Self::ITEMS, gone.instances), ("lifecycle_events", gone.events), ("jobs", gone.jobs)])
    }
}

struct OldLetters {
    base: Arc<Base>,
    age: Duration,
}

/// A dead letter with its row, which was read with it.
#[derive(Clone)]
struct ReadLetter {
    id: i64,
    row: Arc<Record>,
}

impl fmt::Display for ReadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

#[async_trait]
impl Prunable for OldLetters {
    type Item = ReadLetter;
    type Place = i64;

    const PARKED_IN: &'static str = LETTER_RETENTION;
    const ITEM: &'static str = "lifecycle dead letter";
    const ITEMS: &'static str = "lifecycle_dead_letters";

    fn age(&self) -> Duration {
        self.age
    }

    /// The oldest come first, and the first that is not old enough ends the walk.
    async fn page(&self, after: Option<i64>) -> Result<CandidatePage<ReadLetter, i64>, NotPruned> {
        let before = before(self.base.now(), self.age);
        let values = vec![after.unwrap_or_default().into(), before.into(), PAGE.into()];
        let mut items = Vec::new();
        for row in self.base.read(OLD_LETTERS, values).await? {
            if row.flag(5)? {
                let letter = ReadLetter { id: row.integer(0)?, row: Arc::new(row) };
                items.push((letter, Bulk { rows: 1, bytes: 0 }));
            }
        }
        let next = items.last().map(|(letter, _)| letter.id).filter(|_| items.len() == PAGE);
        Ok(CandidatePage::before(next, items))
    }

    async fn lines(&self, letters: Vec<ReadLetter>) -> Result<Vec<Line<ReadLetter>>, NotPruned> {
        let line = |letter: ReadLetter| {
            let read = read(&letter.row).map_err(misread);
            (letter, read.and_then(|letter| line(&LetterLine::from(&letter))))
        };
        Ok(letters.into_iter().map(line).collect())
    }

    async fn remove(&self, letters: Vec<ReadLetter>) -> Result<Vec<(&'static str, u64)>, NotPruned> {
        let ids: Vec<i64> = letters.iter().map(|letter| letter.id).collect();
        let gone = self.base.change(REMOVE_LETTERS, vec![chosen(&ids)]).await?;
        Ok(vec![(Self::ITEMS, gone.len() as u64)])
    }
}

#[derive(Default)]
struct Gone {
    instances: u64,
    events: u64,
    jobs: u64,
}

/// The row goes first, then what belongs to it, as one transaction: a log that lost its row can go, and none before.
async fn remove(base: &Base, old: &[SagaId], before: Timestamp) -> Result<Gone, store::Error> {
    match base.side()? {
        Side::Sqlite(file) => {
            let old = listed(old);
            let change = move |transaction: &rusqlite::Transaction<'_>| {
                let removed = on_file(transaction, REMOVE.sqlite, &[old.into(), before.into()])?;
                let ids = ids(&removed).map_err(|why| rusqlite::Error::ToSqlConversionFailure(why.into()))?;
                let values = [Value::from(listed(&ids))];
                Ok(Gone {
                    instances: removed.len() as u64,
                    events: on_file(transaction, REMOVE_LOG.sqlite, &values)?.len() as u64,
                    jobs: jobs::sqlite::remove_owned(transaction, &ids)? as u64,
                })
            };
            file.write_product(change).await
        }
        Side::Postgres(_, acting) => {
            let unit = acting.begin().await?;
            let values = [Value::from(listed(old)), before.into()];
            let removed = answered(&unit.query(REMOVE.postgres, &borrowed(&values)).await?)?;
            let ids = ids(&removed)?;
            let values = [Value::from(listed(&ids))];
            let gone = Gone {
                instances: removed.len() as u64,
                events: unit.query(REMOVE_LOG.postgres, &borrowed(&values)).await?.len() as u64,
                jobs: jobs::postgres::remove_owned(&unit, &ids).await? as u64,
            };
            unit.commit().await?;
            Ok(gone)
        }
    }
}

fn ids(rows: &[Record]) -> Result<Vec<SagaId>, store::Error> {
    rows.iter().map(|row| row.id(0)).collect()
}

/// Ids as both dialects take them: a list of their digits.
pub(super) fn listed(ids: &[SagaId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("\"{}\"", id.0.simple())).collect();
    format!("[{}]", ids.join(","))
}

#[derive(Serialize)]
struct InstanceLine<'a> {
    kind: &'static str,
    id: SagaId,
    machine: &'a str,
    key: &'a str,
    version: u32,
    state: &'a str,
    /// Whether it ended in this state without a transition.
    abandoned: bool,
    attempt: u32,
    correlation_id: Option<&'a str>,
    error_kind: Option<&'a str>,
    last_error: Option<&'a str>,
    input: Option<&'a Payload>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
    log: Vec<EventLine<'a>>,
}

#[derive(Serialize)]
struct EventLine<'a> {
    seq: u64,
    at: Rfc3339,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct LetterLine<'a> {
    kind: &'static str,
    id: i64,
    at: Rfc3339,
    source: &'a str,
    reason: &'a str,
    /// In base64: it may be anything.
    body: String,
}

impl<'a> From<&'a DeadLetter> for LetterLine<'a> {
    fn from(letter: &'a DeadLetter) -> Self {
        Self {
            kind: "lifecycle_dead_letter",
            id: letter.id,
            at: Rfc3339(letter.at),
            source: &letter.source,
            reason: &letter.reason,
            body: base64::engine::general_purpose::STANDARD.encode(&letter.body),
        }
    }
}
