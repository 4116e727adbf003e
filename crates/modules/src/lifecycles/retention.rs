//! Removes what ended long ago with its log, and requests that nobody could make sense of.
//!
//! What is removed is forgotten: the same key begins anew.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::kernel::lifecycle::codec;
use backstitch::retention::{NotPruned, Pruner, Removal, fitting};
use backstitch::store::retention::Bulk;
use backstitch::{Payload, Rfc3339, SagaId, Timestamp, store};
use base64::Engine as _;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::Lifecycles;
use super::base::{Base, Side};
use super::dead_letters::{DeadLetter, read};
use super::looking::log;
use super::parked::{LETTER_RETENTION, RETENTION};
use super::standing::{COLUMNS, Standing};
use crate::question::{Record, Statement, Value, answered, borrowed, chosen, on_file, statement};
use crate::removal::{before, line, misread};

const ENDS: Statement = statement!("lifecycles/ends");
const OLD: Statement = statement!("lifecycles/old");
const REMOVE: Statement = statement!("lifecycles/remove");
const REMOVE_LOG: Statement = statement!("lifecycles/remove_log");
const REMOVE_JOBS: Statement = statement!("lifecycles/remove_jobs");
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
    /// What removes instances and dead letters at these ages, for [`Engine::prune_with`](backstitch::Engine::prune_with).
    #[must_use]
    pub fn retention(&self, ages: Ages) -> Arc<dyn Pruner> {
        Arc::new(Scheduled {
            base: self.base.clone(),
            ages,
            walk: Mutex::default(),
            reached: Mutex::default(),
        })
    }
}

struct Scheduled {
    base: Arc<Base>,
    ages: Ages,
    walk: Mutex<Walk>,
    /// The last dead letter that was looked at.
    reached: Mutex<i64>,
}

/// Where the next look goes on: what is left of the ends to be looked at, and how far the first of them was.
#[derive(Default)]
struct Walk {
    ends: Vec<(String, String)>,
    after: Option<SagaId>,
    begun: bool,
}

#[async_trait]
impl Pruner for Scheduled {
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let letters = match self.ages.dead_letters {
            Some(age) => self.prune_letters(before(self.base.now(), age), removal).await,
            None => Ok(false),
        };
        let ended = match self.ages.ended {
            Some(age) => self.prune_ended(before(self.base.now(), age), removal).await,
            None => Ok(false),
        };
        // What is in the way of the one kind is in the way of the other only if it is in everybody's.
        let (letters, ended) = (letters?, ended?);
        Ok(letters || ended)
    }

    fn shortest(&self) -> Option<Duration> {
        [self.ages.ended, self.ages.dead_letters].into_iter().flatten().min()
    }
}

impl Scheduled {
    /// One page of one state that is an end, and on to the next state after its last page.
    async fn prune_ended(&self, before: Timestamp, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let mut walk = self.walk.lock().await;
        if !walk.begun {
            let rows = self.base.read(ENDS, Vec::new()).await?;
            let ends = rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?)));
            *walk = Walk { ends: ends.collect::<Result<_, store::Error>>()?, after: None, begun: true };
        }
        let Some((machine, state)) = walk.ends.last().cloned() else {
            walk.begun = false;
            return Ok(false);
        };
        let after = walk.after.unwrap_or(SagaId(uuid::Uuid::nil()));
        let values: Vec<Value> = vec![machine.into(), state.into(), before.into(), after.into(), PAGE.into()];
        let page = self.base.read(OLD, values).await?;
        let mut old = Vec::new();
        for row in &page {
            if row.flag(1)? {
                old.push(row.id(0)?);
            }
        }
        let bulks: HashMap<SagaId, Bulk> = self.base.store().bulk_of_sagas(&old).await?.into_iter().collect();
        let mut left = &old[..];
        while !left.is_empty() {
            let bulk = |id| bulks.get(id).copied().unwrap_or_default();
            let (together, others) = left.split_at(fitting(left.iter().map(bulk)));
            self.remove(together, before, removal).await?;
            left = others;
        }
        match page.last() {
            Some(last) if page.len() == PAGE && !last.flag(2)? => walk.after = Some(last.id(0)?),
            _ => {
                walk.ends.pop();
                walk.after = None;
            }
        }
        walk.begun = !walk.ends.is_empty();
        Ok(walk.begun)
    }

    async fn remove(
        &self,
        old: &[SagaId],
        before: Timestamp,
        removal: &Removal<'_>,
    ) -> Result<(), NotPruned> {
        let export = |old: Vec<SagaId>| async move {
            let mut read = Vec::with_capacity(old.len());
            for id in old {
                read.extend(self.exported(id).await.transpose().map(|line| (id, line)));
            }
            let (going, lines) = removal.readable("lifecycle", read)?;
            removal.export("lifecycles", lines).await?;
            Ok(going)
        };
        let remove = |going: Vec<SagaId>| async move { Ok(remove(&self.base, &going, before).await?) };
        for gone in removal.isolated(RETENTION, "lifecycle", old.to_vec(), export, remove).await? {
            removal.removed("lifecycles", gone.instances);
            removal.removed("lifecycle_events", gone.events);
            removal.removed("jobs", gone.jobs);
        }
        Ok(())
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

    /// The oldest that are kept come first, and the first that is not old enough ends it: the next walk begins anew.
    async fn prune_letters(&self, before: Timestamp, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let mut reached = self.reached.lock().await;
        let rows = self.base.read(OLD_LETTERS, vec![(*reached).into(), before.into(), PAGE.into()]).await?;
        let mut old = Vec::with_capacity(rows.len());
        for row in &rows {
            if row.flag(5)? {
                old.push((row.integer(0)?, row));
            }
        }
        let ids: Vec<i64> = old.iter().map(|(id, _)| *id).collect();
        let next = ids.last().copied().filter(|_| ids.len() == PAGE);
        let export = |free: Vec<i64>| async move {
            let exported = |row: &Record| line(&LetterLine::from(&read(row).map_err(misread)?));
            let free: HashSet<i64> = free.into_iter().collect();
            let free = old.into_iter().filter(|(id, _)| free.contains(id));
            let lines: Vec<_> = free.map(|(id, row)| (id, exported(row))).collect();
            let (going, lines) = removal.readable("lifecycle dead letter", lines)?;
            removal.export("lifecycle_dead_letters", lines).await?;
            Ok(going)
        };
        let remove = |going: Vec<i64>| async move {
            Ok(self.base.change(REMOVE_LETTERS, vec![chosen(&going)]).await?.len() as u64)
        };
        let gone = removal.isolated(LETTER_RETENTION, "lifecycle dead letter", ids, export, remove).await?;
        removal.removed("lifecycle_dead_letters", gone.into_iter().sum());
        *reached = next.unwrap_or_default();
        Ok(next.is_some())
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
                    jobs: on_file(transaction, REMOVE_JOBS.sqlite, &values)?.len() as u64,
                })
            };
            file.write_product(change).await
        }
        Side::Postgres(_, acting) => {
            let unit = acting.begin().await?;
            let values = [Value::from(listed(old)), before.into()];
            let removed = answered(&unit.query(REMOVE.postgres, &borrowed(&values)).await?)?;
            let values = [Value::from(listed(&ids(&removed)?))];
            let gone = Gone {
                instances: removed.len() as u64,
                events: unit.query(REMOVE_LOG.postgres, &borrowed(&values)).await?.len() as u64,
                jobs: unit.query(REMOVE_JOBS.postgres, &borrowed(&values)).await?.len() as u64,
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
