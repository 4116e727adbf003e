//! Messages that were settled long ago, and keys of messages that are gone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::fitting;
use super::lines::{KeyLine, MessageLine, line};
use super::pruning::{BATCH, NotPruned, Pruner, Removal};
use crate::outbox::Retention;
use crate::store::outbox::Status;
use crate::store::retention::Bulk;
use crate::store::{self, Store};

struct Settled {
    store: Arc<dyn Store>,
    status: Status,
    age: Duration,
    besides: Option<&'static str>,
}

struct Keys {
    store: Arc<dyn Store>,
    age: Duration,
}

/// What removes messages and keys at these ages.
pub(super) fn pruners(store: &Arc<dyn Store>, ages: &Retention) -> Vec<Arc<dyn Pruner>> {
    let settled = |(status, age): (Status, Option<Duration>)| {
        let (store, besides) = (store.clone(), ages.besides);
        age.map(|age| Arc::new(Settled { store, status, age, besides }) as Arc<dyn Pruner>)
    };
    let keys = ages.keys.map(|age| Arc::new(Keys { store: store.clone(), age }) as Arc<dyn Pruner>);
    let kinds = [(Status::Succeeded, ages.sent), (Status::Aborted, ages.aborted)];
    kinds.into_iter().filter_map(settled).chain(keys).collect()
}

#[async_trait]
impl Pruner for Settled {
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let old = self.store.old_messages(self.status, self.age, self.besides, BATCH).await?;
        let together = fitting(old.iter().map(|message| Bulk { rows: 1, bytes: message.bytes }));
        let mut going: Vec<i64> = old.iter().take(together).map(|message| message.id).collect();
        if removal.exports() {
            let mut lines = Vec::with_capacity(going.len());
            let mut readable = Vec::with_capacity(going.len());
            for id in going {
                match self.store.message(id).await {
                    Ok(Some(kept)) => {
                        lines.push(line(&MessageLine::from(&kept))?);
                        readable.push(id);
                    }
                    Ok(None) => {}
                    Err(error @ store::Error::Corrupt(_)) => {
                        removal.passed_over(&format_args!("message {id}"), &error.into());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            removal.export("messages", lines).await?;
            going = readable;
        }
        if going.is_empty() {
            return Ok(false);
        }
        let removed = self.store.remove_messages(&going).await?;
        removal.removed("messages", removed);
        Ok(removed > 0 && (together < old.len() || old.len() == BATCH))
    }

    fn shortest(&self) -> Option<Duration> {
        Some(self.age)
    }
}

#[async_trait]
impl Pruner for Keys {
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let old = self.store.old_keys(self.age, BATCH).await?;
        if old.is_empty() {
            return Ok(false);
        }
        if removal.exports() {
            let lines = old.iter().map(|key| line(&KeyLine::from(key)));
            removal.export("keys", lines.collect::<Result<_, _>>()?).await?;
        }
        let removed = self.store.remove_keys(&old).await?;
        removal.removed("keys", removed);
        Ok(removed > 0 && old.len() == BATCH)
    }

    fn shortest(&self) -> Option<Duration> {
        Some(self.age)
    }
}
