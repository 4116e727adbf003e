//! Asking where things stand.

use std::collections::BTreeMap;

use backstitch::kernel::lifecycle::{Machine, Recorded, codec};
use backstitch::store;
use backstitch::{Payload, SagaId, Timestamp};

use super::Lifecycles;
use super::base::Base;
use super::error::Error;
use super::standing::{COLUMNS, Standing};
use crate::question::{Record, Statement, Value, statement};

const LOG: Statement = statement!("lifecycles/log");
const RESULTS: Statement = statement!("lifecycles/results");
const COUNTS: Statement = statement!("lifecycles/counts");
const COUNTS_UP_TO: Statement = statement!("lifecycles/counts_up_to");
const ABANDONED: Statement = statement!("lifecycles/abandoned");

/// What a list is narrowed down to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only in this state.
    pub state: Option<String>,
    /// Only with this correlation id.
    pub correlation_id: Option<String>,
}

/// A page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What is on it.
    pub items: Vec<Standing>,
    /// What to ask for the next one with; none on the last.
    pub next: Option<SagaId>,
}

/// How many instances of a machine stand where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The state.
    pub state: String,
    /// How many.
    pub count: u64,
}

/// One that has been in its state for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Which.
    pub standing: Standing,
    /// Since when.
    pub since: Timestamp,
}

impl Lifecycles {
    /// Where one stands.
    ///
    /// # Errors
    /// When there is no such machine, or nothing of this key.
    pub async fn get(&self, machine: &str, key: &str) -> Result<Standing, Error> {
        if let Some(standing) = find(&self.base, machine, key).await? {
            return Ok(standing);
        }
        self.machines.declared(machine).await?;
        Err(Error::UnknownKey { machine: machine.to_owned(), key: key.to_owned() })
    }

    /// Up to `limit` events of one after number `after`.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn log(&self, id: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        Ok(log(&self.base, id, after, limit).await?)
    }

    /// Instances of a machine, newest first, found by index.
    ///
    /// # Errors
    /// When there is no such machine.
    pub async fn list(
        &self,
        machine: &str,
        filter: &Filter,
        before: Option<SagaId>,
        limit: usize,
    ) -> Result<Page, Error> {
        self.machines.declared(machine).await?;
        let mut asked = vec!["machine = $1".to_owned()];
        let mut values: Vec<Value> = vec![machine.into()];
        let mut ask = |condition: &str, value: Value| {
            values.push(value);
            asked.push(format!("{condition} ${}", values.len()));
        };
        if let Some(state) = &filter.state {
            ask("state =", state.as_str().into());
        }
        if let Some(correlation_id) = &filter.correlation_id {
            ask("correlation_id =", correlation_id.as_str().into());
        }
        if let Some(before) = before {
            ask("id <", before.into());
        }
        let sql = format!(
            "select {COLUMNS} from lifecycles where {} order by id desc limit {}",
            asked.join(" and "),
            limit.saturating_add(1)
        );
        let rows = self.base.read_text(sql, values).await?;
        let mut items = rows.iter().map(Standing::read).collect::<Result<Vec<_>, _>>()?;
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|last| last.id);
        Ok(Page { items, next })
    }

    /// How many of a machine stand where. This counts all of them.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn counts(&self, machine: &str) -> Result<Vec<Count>, Error> {
        Ok(counted(&self.base.read(COUNTS, vec![machine.into()]).await?)?)
    }

    /// How many of a machine stand where, in every state that any of its versions has; no more than `most` of each are
    /// counted.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn counts_up_to(&self, machine: &str, most: usize) -> Result<Vec<Count>, Error> {
        Ok(counted(&self.base.read(COUNTS_UP_TO, vec![machine.into(), most.into()]).await?)?)
    }

    /// How many of a machine were abandoned, by the pause state they stay in; no more than `most` are counted.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn abandoned_up_to(&self, machine: &str, most: usize) -> Result<Vec<Count>, Error> {
        Ok(counted(&self.base.read(ABANDONED, vec![machine.into(), most.into()]).await?)?)
    }

    /// The queue whose workers it waits for: it has a job there that is due, and no worker has leased it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn waits_for_worker<'m>(
        &self,
        standing: &Standing,
        machine: &'m Machine,
    ) -> Result<Option<&'m str>, Error> {
        let Some(queue) = standing.instance.unleased_queue(machine).filter(|_| !standing.ended) else {
            return Ok(None);
        };
        let due = self.base.store().has_due_job(standing.id).await?;
        Ok(Some(queue).filter(|_| due))
    }

    /// The one that has this id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn with_id(&self, id: SagaId) -> Result<Option<Standing>, Error> {
        let sql = format!("select {COLUMNS} from lifecycles where id = $1");
        let rows = self.base.read_text(sql, vec![id.into()]).await?;
        Ok(rows.first().map(Standing::read).transpose()?)
    }

    /// Up to `limit` of all machines that have this correlation id, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn correlated(&self, id: &str, limit: usize) -> Result<Vec<Standing>, Error> {
        let sql = format!(
            "select {COLUMNS} from lifecycles where correlation_id = $1 order by id desc limit {limit}"
        );
        let rows = self.base.read_text(sql, vec![id.into()]).await?;
        Ok(rows.iter().map(Standing::read).collect::<Result<_, _>>()?)
    }

    /// Up to `limit` that have been in their state for too long, the longest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn stuck(&self, limit: usize) -> Result<Vec<Stuck>, Error> {
        let found = reached(&self.base, "stuck_at", self.base.clock_in_sql(), limit).await?;
        let stuck = |standing: Standing| {
            let since = standing.stuck_at.unwrap_or(standing.instance.entered_at);
            Stuck { standing, since }
        };
        Ok(found.into_iter().map(stuck).collect())
    }

    /// Up to `limit` whose action somebody should have looked after by this time, be it to perform it or because whoever did
    /// was not heard of again, the longest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn overdue(&self, since: Timestamp, limit: usize) -> Result<Vec<Standing>, Error> {
        Ok(reached(&self.base, "due_at", ("$1", vec![since.into()]), limit).await?)
    }

    /// How many have been in their state for too long.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_stuck(&self) -> Result<u64, Error> {
        let (now, values) = self.base.clock_in_sql();
        let sql = format!("select count(*) from lifecycles where stuck_at <= {now}");
        let rows = self.base.read_text(sql, values).await?;
        Ok(rows.first().map(|row| row.integer(0)).transpose()?.unwrap_or_default().unsigned_abs())
    }
}

fn counted(rows: &[Record]) -> Result<Vec<Count>, store::Error> {
    rows.iter().map(|row| Ok(Count { state: row.text(0)?, count: row.integer(1)?.unsigned_abs() })).collect()
}

/// Up to `limit` of which a time has come that an index is kept of, the longest past first.
async fn reached(
    base: &Base,
    column: &str,
    (by, values): (&str, Vec<Value>),
    limit: usize,
) -> Result<Vec<Standing>, store::Error> {
    let sql =
        format!("select {COLUMNS} from lifecycles where {column} <= {by} order by {column} limit {limit}");
    let rows = base.read_text(sql, values).await?;
    rows.iter().map(Standing::read).collect()
}

pub(super) async fn find(base: &Base, machine: &str, key: &str) -> Result<Option<Standing>, store::Error> {
    let sql = format!("select {COLUMNS} from lifecycles where machine = $1 and key = $2");
    let rows = base.read_text(sql, vec![machine.into(), key.into()]).await?;
    rows.first().map(Standing::read).transpose()
}

pub(super) async fn log(
    base: &Base,
    id: SagaId,
    after: u64,
    limit: usize,
) -> Result<Vec<Recorded>, store::Error> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let rows = base.read(LOG, vec![id.into(), after.into(), limit.into()]).await?;
    rows.iter().map(|row| recorded(id, row)).collect()
}

/// What came of the states that were left, by name: the newest of each, as it was written.
pub(super) async fn results(base: &Base, id: SagaId) -> Result<BTreeMap<String, Payload>, store::Error> {
    #[derive(serde::Deserialize)]
    struct Left {
        from: String,
        data: Option<Payload>,
    }
    let mut results = BTreeMap::new();
    for row in base.read(RESULTS, vec![id.into()]).await? {
        let left: Left = serde_json::from_str(&row.text(0)?)
            .map_err(|why| store::Corrupt::of("saga_events", "data", id, &why))?;
        results.extend(left.data.map(|data| (left.from, data)));
    }
    Ok(results)
}

fn recorded(id: SagaId, row: &Record) -> Result<Recorded, store::Error> {
    read(id, row).map_err(|why| match why {
        store::Error::Refused(why) => store::Corrupt::of("saga_events", "data", id, &why).into(),
        other => other,
    })
}

fn read(id: SagaId, row: &Record) -> Result<Recorded, store::Error> {
    let (kind, state) = (row.text(2)?, row.optional_text(3)?);
    let attempt = row.optional_integer(4)?.and_then(|attempt| u32::try_from(attempt).ok());
    let data = row.optional_text(5)?;
    let event = codec::event(&kind, state.as_deref(), attempt, data.as_deref())
        .map_err(|why| store::Corrupt::of("saga_events", "data", id, &why))?;
    Ok(Recorded { seq: row.count(0)?.into(), at: row.time(1)?, event })
}
