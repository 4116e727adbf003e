//! Messages that were settled long ago, and keys of messages that are gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::fitting;
use super::lines::{KeyLine, MessageLine, line};
use super::pruning::{BATCH, NotPruned, Pruner, Removal};
use super::walk::Walk;
use crate::outbox::Retention;
use crate::store::outbox::Status;
use crate::store::parked::{KEY_RETENTION, MESSAGE_RETENTION};
use crate::store::retention::{Bulk, KeyName, OldKey};
use crate::store::{self, Store};

struct Settled {
    store: Arc<dyn Store>,
    status: Status,
    age: Duration,
    besides: Option<&'static str>,
    walk: Walk<i64>,
}

struct Keys {
    store: Arc<dyn Store>,
    age: Duration,
    walk: Walk<KeyName>,
}

/// What removes messages and keys at these ages.
pub(super) fn pruners(store: &Arc<dyn Store>, ages: &Retention) -> Vec<Arc<dyn Pruner>> {
    let settled = |(status, age): (Status, Option<Duration>)| {
        let (store, besides, walk) = (store.clone(), ages.besides, Walk::default());
        age.map(|age| Arc::new(Settled { store, status, age, besides, walk }) as Arc<dyn Pruner>)
    };
    let keys = ages.keys.map(|age| {
        let (store, walk) = (store.clone(), Walk::default());
        Arc::new(Keys { store, age, walk }) as Arc<dyn Pruner>
    });
    let kinds = [(Status::Succeeded, ages.sent), (Status::Aborted, ages.aborted)];
    kinds.into_iter().filter_map(settled).chain(keys).collect()
}

impl Settled {
    /// These, once they are exported. What cannot be read stays.
    async fn export(&self, old: Vec<i64>, removal: &Removal<'_>) -> Result<Vec<i64>, NotPruned> {
        let mut read = Vec::with_capacity(old.len());
        for id in old {
            match self.store.message(id).await {
                Ok(Some(kept)) => read.push((id, line(&MessageLine::from(&kept)))),
                Ok(None) => {}
                Err(error) => read.push((id, Err(error.into()))),
            }
        }
        let (going, lines) = removal.readable("message", read)?;
        removal.export("messages", lines).await?;
        Ok(going)
    }
}

#[async_trait]
impl Pruner for Settled {
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let Self { status, age, besides, .. } = *self;
        let page = self.store.old_messages(status, age, besides, self.walk.reached(), BATCH).await?;
        let together = fitting(page.old.iter().map(|message| Bulk { rows: 1, bytes: message.bytes }));
        let old: Vec<i64> = page.old.iter().take(together).map(|message| message.id).collect();
        let next = if together < page.old.len() { old.last().copied() } else { page.next };
        let export = |old: Vec<i64>| self.export(old, removal);
        let remove = |going: Vec<i64>| async move { Ok(self.store.remove_messages(&going).await?) };
        let removed = removal.isolated(MESSAGE_RETENTION, "message", old, export, remove).await?;
        removal.removed("messages", removed.into_iter().sum());
        Ok(self.walk.go_on(next))
    }

    fn shortest(&self) -> Option<Duration> {
        Some(self.age)
    }
}

#[async_trait]
impl Pruner for Keys {
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let after = self.walk.reached();
        let page = self.store.old_keys(self.age, after.as_ref(), BATCH).await?;
        let old: Vec<KeyName> = page.old.iter().map(|key| key.name.clone()).collect();
        let export = |free: Vec<KeyName>| async move {
            let free: BTreeSet<KeyName> = free.into_iter().collect();
            let kept = page.old.into_iter().filter(|key| free.contains(&key.name));
            let read = kept.map(|OldKey { name, kept }| {
                let kept = kept.map_err(|why| store::Error::from(why).into());
                (name, kept.and_then(|key| line(&KeyLine::from(&key))))
            });
            let (going, lines) = removal.readable("key", read)?;
            removal.export("keys", lines).await?;
            Ok(going)
        };
        let remove = |going: Vec<KeyName>| async move { Ok(self.store.remove_keys(&going).await?) };
        let removed = removal.isolated(KEY_RETENTION, "key", old, export, remove).await?;
        removal.removed("keys", removed.into_iter().sum());
        Ok(self.walk.go_on(page.next))
    }

    fn shortest(&self) -> Option<Duration> {
        Some(self.age)
    }
}
