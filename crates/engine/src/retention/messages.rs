//! Messages that were settled long ago, and keys of messages that are gone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::area::{Area, CandidatePage, Line, Prunable};
use super::lines::{KeyLine, MessageLine, line};
use super::pruning::PAGE;
use super::removal::NotPruned;
use crate::outbox::Retention;
use crate::store::outbox::Status;
use crate::store::parked::{KEY_RETENTION, MESSAGE_RETENTION};
use crate::store::retention::{Bulk, KeyName, OldKey};
use crate::store::{self, Store};

struct SettledMessages {
    store: Arc<dyn Store>,
    status: Status,
    age: Duration,
    besides: Option<&'static str>,
}

struct OldKeys {
    store: Arc<dyn Store>,
    age: Duration,
}

/// The areas of messages and keys at these ages.
pub(super) fn areas(store: &Arc<dyn Store>, ages: &Retention) -> Vec<Area> {
    let settled = |(status, age): (Status, Option<Duration>)| {
        let (store, besides) = (store.clone(), ages.besides);
        Some(Area::new(SettledMessages { store, status, age: age?, besides }))
    };
    let keys = ages.keys.map(|age| Area::new(OldKeys { store: store.clone(), age }));
    let statuses = [(Status::Succeeded, ages.sent), (Status::Aborted, ages.aborted)];
    statuses.into_iter().filter_map(settled).chain(keys).collect()
}

#[async_trait]
impl Prunable for SettledMessages {
    type Item = i64;
    type Place = i64;

    const PARKED_IN: &'static str = MESSAGE_RETENTION;
    const ITEM: &'static str = "message";
    const ITEMS: &'static str = "messages";

    fn age(&self) -> Duration {
        self.age
    }

    async fn page(&self, after: Option<i64>) -> Result<CandidatePage<i64, i64>, NotPruned> {
        let page = self.store.old_messages(self.status, self.age, self.besides, after, PAGE).await?;
        let items = page.old.iter().map(|message| (message.id, Bulk { rows: 1, bytes: message.bytes }));
        Ok(CandidatePage::before(page.next, items.collect()))
    }

    async fn lines(&self, messages: Vec<i64>) -> Result<Vec<Line<i64>>, NotPruned> {
        let mut lines = Vec::with_capacity(messages.len());
        for id in messages {
            match self.store.message(id).await {
                Ok(Some(kept)) => lines.push((id, line(&MessageLine::from(&kept)))),
                Ok(None) => {}
                Err(error) => lines.push((id, Err(error.into()))),
            }
        }
        Ok(lines)
    }

    async fn remove(&self, messages: Vec<i64>) -> Result<Vec<(&'static str, u64)>, NotPruned> {
        Ok(vec![(Self::ITEMS, self.store.remove_messages(&messages).await?)])
    }
}

/// A key with its row, which was read with it.
#[derive(Clone)]
struct ReadKey(Arc<OldKey>);

impl fmt::Display for ReadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.name.fmt(f)
    }
}

#[async_trait]
impl Prunable for OldKeys {
    type Item = ReadKey;
    type Place = KeyName;

    const PARKED_IN: &'static str = KEY_RETENTION;
    const ITEM: &'static str = "key";
    const ITEMS: &'static str = "keys";

    fn age(&self) -> Duration {
        self.age
    }

    async fn page(&self, after: Option<KeyName>) -> Result<CandidatePage<ReadKey, KeyName>, NotPruned> {
        let page = self.store.old_keys(self.age, after.as_ref(), PAGE).await?;
        let items = page.old.into_iter().map(|key| (ReadKey(Arc::new(key)), Bulk { rows: 1, bytes: 0 }));
        Ok(CandidatePage::before(page.next, items.collect()))
    }

    async fn lines(&self, keys: Vec<ReadKey>) -> Result<Vec<Line<ReadKey>>, NotPruned> {
        let line = |key: ReadKey| {
            let line = match &key.0.kept {
                Ok(row) => line(&KeyLine::from(row)),
                Err(why) => Err(store::Error::from(why.clone()).into()),
            };
            (key, line)
        };
        Ok(keys.into_iter().map(line).collect())
    }

    async fn remove(&self, keys: Vec<ReadKey>) -> Result<Vec<(&'static str, u64)>, NotPruned> {
        let names: Vec<KeyName> = keys.iter().map(|key| key.0.name.clone()).collect();
        Ok(vec![(Self::ITEMS, self.store.remove_keys(&names).await?)])
    }
}
