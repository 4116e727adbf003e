//! Messages to the world.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use backstitch_kernel::idempotency::{self, Digest};
use backstitch_kernel::{Payload, Timestamp, delivery};

use crate::outbox::sink::Undelivered;
use crate::store::outbox::{
    AGED, Ages, Expired, Kept, Listing, NewMessage, Outgoing, Publication, Published, REMOVED, Report,
    Rescued, Retried, Sent, Share, Status, TOO_LATE, Waiting, scope,
};
use crate::store::retention::{Key, KeyName, OldKey, OldKeys, OldMessage, OldMessages};

/// A topic's key.
type Name = (String, String);

#[derive(Default)]
pub(super) struct Outbox {
    messages: BTreeMap<i64, Row>,
    /// The first message of each key.
    keys: HashMap<Name, i64>,
    ledger: HashMap<Name, Entry>,
    /// The highest number so far: none is given twice.
    numbers: i64,
}

struct Row {
    kept: Kept,
    lock: i64,
    /// Whoever wrote it has counted it.
    counted: bool,
    leased_until: Timestamp,
    /// The topics across which its ordering key holds, if more than its own.
    ordering_scope: Option<String>,
}

struct Entry {
    digest: Digest,
    at: Timestamp,
    result: Option<Payload>,
}

fn name(message: &NewMessage) -> Name {
    (message.topic.clone(), message.idempotency_key.clone())
}

impl Outbox {
    /// Writes a message unless its key is there.
    pub(super) fn enqueue(
        &mut self,
        message: &NewMessage,
        digest: Option<Digest>,
        at: Timestamp,
    ) -> Option<i64> {
        if self.keys.contains_key(&name(message)) {
            return None;
        }
        let id = self.write(message.clone(), digest, None, false, at);
        self.keys.insert(name(message), id);
        Some(id)
    }

    fn write(
        &mut self,
        message: NewMessage,
        digest: Option<Digest>,
        retry_of: Option<i64>,
        in_doubt: bool,
        at: Timestamp,
    ) -> i64 {
        self.numbers += 1;
        let id = self.numbers;
        let kept = Kept {
            id,
            message,
            digest,
            status: Status::Pending,
            attempts: 0,
            in_doubt,
            due_at: Some(at),
            locked_by: None,
            locked_at: None,
            retry_of,
            last_error: None,
            result: None,
            created_at: at,
            updated_at: at,
        };
        self.messages
            .insert(id, Row { kept, lock: 0, counted: false, leased_until: at, ordering_scope: None });
        id
    }

    pub(super) fn publish(&mut self, publication: &Publication, at: Timestamp) -> Published {
        let (message, digest) = (&*publication.written(at), &publication.digest);
        if let Some(entry) = self.ledger.get(&name(message)) {
            let id = self.newest(&message.topic, &message.idempotency_key).map_or(REMOVED, |kept| kept.id);
            return match idempotency::judge(Some(&entry.digest), digest) {
                idempotency::Verdict::Conflict => {
                    Published::Conflict { id, digest: entry.digest, at: entry.at }
                }
                idempotency::Verdict::Fresh | idempotency::Verdict::Replay => Published::Replay(id),
            };
        }
        let Some(id) = self.enqueue(message, Some(*digest), at) else {
            return Published::Refused(
                "the engine itself has a message under this key: use another".to_owned(),
            );
        };
        self.ledger.insert(name(message), Entry { digest: *digest, at, result: None });
        if let Some(row) = self.messages.get_mut(&id) {
            row.counted = true;
            row.ordering_scope.clone_from(&publication.ordering_scope);
        }
        Published::Accepted(id)
    }

    pub(super) fn newest(&self, topic: &str, key: &str) -> Option<Kept> {
        let of = |kept: &Kept| kept.message.topic == topic && kept.message.idempotency_key == key;
        self.messages.values().rev().map(|row| &row.kept).find(|kept| of(kept)).map(|kept| self.told(kept))
    }

    pub(super) fn get(&self, id: i64) -> Option<Kept> {
        self.messages.get(&id).map(|row| self.told(&row.kept))
    }

    /// With what the ledger keeps.
    fn told(&self, kept: &Kept) -> Kept {
        let entry = self.ledger.get(&name(&kept.message)).filter(|_| kept.status == Status::Succeeded);
        Kept { result: entry.and_then(|entry| entry.result.clone()), ..kept.clone() }
    }

    pub(super) fn list(&self, listing: &Listing, limit: usize) -> Vec<Kept> {
        let rows = self.messages.values().rev().map(|row| &row.kept);
        let matching = rows.filter(|kept| {
            listing.status.is_none_or(|status| kept.status == status)
                && listing.topic.as_ref().is_none_or(|topic| kept.message.topic == *topic)
                && listing.before.is_none_or(|before| kept.id < before)
        });
        matching.take(limit).map(|kept| self.told(kept)).collect()
    }

    /// Unsent messages that are not behind another one of their ordering key.
    fn sendable(&self) -> Vec<i64> {
        let mut ahead = HashSet::new();
        let unsent = self.messages.iter().filter(|(_, row)| !row.kept.status.is_settled());
        unsent
            .filter(|(_, row)| {
                let message = &row.kept.message;
                let scope = row.ordering_scope.as_ref().unwrap_or(&message.topic);
                message.ordering_key.as_ref().is_none_or(|key| ahead.insert((scope, key)))
            })
            .map(|(id, _)| *id)
            .collect()
    }

    pub(super) fn waiting(&self, now: Timestamp) -> Vec<Waiting> {
        let mut waiting: BTreeMap<&str, Timestamp> = BTreeMap::new();
        let rows = self.sendable().into_iter().filter_map(|id| self.messages.get(&id));
        for (row, due) in rows.filter_map(|row| Some((row, row.kept.due_at?))) {
            let first = waiting.entry(&row.kept.message.topic).or_insert(due);
            *first = due.min(*first);
        }
        let waiting = waiting.into_iter();
        let waiting = waiting.map(|(topic, due)| Waiting {
            topic: topic.to_owned(),
            due_in: due.since(now),
            late: now.since(due),
        });
        waiting.collect()
    }

    pub(super) fn claim(&mut self, share: &Share, sender: &str, now: Timestamp) -> Vec<Outgoing> {
        let mut claimed = Vec::new();
        for id in self.sendable() {
            let Some(row) = self.messages.get_mut(&id) else { continue };
            let kept = &mut row.kept;
            let is_due = kept.due_at.is_some_and(|due| due <= now)
                && kept.message.topic == share.topic
                && kept.message.expires_at.is_none_or(|expiry| expiry > now);
            if claimed.len() == share.limit || !is_due {
                continue;
            }
            row.lock += 1;
            row.leased_until = now.plus(share.lease);
            kept.status = Status::Sending;
            (kept.due_at, kept.locked_at, kept.locked_by) = (None, Some(now), Some(sender.to_owned()));
            kept.updated_at = now;
            claimed.push(Outgoing {
                id,
                lock: row.lock,
                message: kept.message.clone(),
                attempts: kept.attempts,
                in_doubt: kept.in_doubt,
                created_at: kept.created_at,
                uncounted: row.lock == 1 && !row.counted,
            });
        }
        claimed
    }

    pub(super) fn settle(&mut self, sent: &Sent, now: Timestamp) {
        let Some(row) = self.messages.get_mut(&sent.id) else { return };
        if row.lock != sent.lock || row.kept.status != Status::Sending {
            return;
        }
        let kept = &mut row.kept;
        (kept.locked_at, kept.locked_by, kept.updated_at) = (None, None, now);
        let result = match &sent.report {
            Report::GivenBack => {
                kept.status = waiting_status(kept.attempts);
                kept.due_at = Some(now);
                return;
            }
            Report::Retry { after, error } => {
                kept.status = Status::Failed;
                // One that will be too old by then is looked at as soon as it is.
                let due = kept.message.expires_at.into_iter().map(|expiry| expiry.max(now));
                kept.due_at = due.chain([now.plus(*after)]).min();
                kept.last_error = Some(error.clone());
                kept.attempts += 1;
                return;
            }
            Report::Delivered(answer) => {
                kept.status = Status::Succeeded;
                answer.clone()
            }
            Report::Aborted(error) => {
                kept.status = Status::Aborted;
                kept.last_error = Some(error.clone());
                Some(error.as_result())
            }
        };
        kept.attempts += 1;
        if let Some(entry) = self.ledger.get_mut(&name(&kept.message)) {
            entry.result = result;
        }
    }

    pub(super) fn rescue(&mut self, limit: usize, now: Timestamp) -> Rescued {
        let mut rescued = Rescued::default();
        let (mut abandoned, mut expired) = (limit, limit);
        for row in self.messages.values_mut() {
            let kept = &mut row.kept;
            if abandoned > 0 && kept.status == Status::Sending && row.leased_until <= now {
                kept.status = waiting_status(kept.attempts);
                (kept.in_doubt, kept.due_at, kept.locked_at, kept.locked_by) = (true, Some(now), None, None);
                abandoned -= 1;
                rescued.abandoned += 1;
            }
            let is_late = kept.message.expires_at.is_some_and(|expiry| expiry <= now);
            if expired > 0 && is_late && matches!(kept.status, Status::Pending | Status::Failed) {
                let error = Undelivered::new(delivery::EXPIRED, TOO_LATE);
                kept.status = Status::Aborted;
                (kept.due_at, kept.updated_at) = (None, now);
                if let Some(entry) = self.ledger.get_mut(&name(&kept.message)) {
                    entry.result = Some(error.as_result());
                }
                kept.last_error = Some(error);
                expired -= 1;
                rescued.expired.push(Expired {
                    topic: kept.message.topic.clone(),
                    idempotency_key: kept.message.idempotency_key.clone(),
                    attempts: kept.attempts,
                    uncounted: row.lock == 0 && !row.counted,
                });
            }
        }
        rescued
    }

    /// What an unfinished retry stands for is kept, and a retry for as long as what it stands for.
    pub(super) fn old(
        &self,
        status: Status,
        is_old: &dyn Fn(Timestamp) -> bool,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> OldMessages {
        let settled = self.messages.values().map(|row| &row.kept).filter(|kept| {
            kept.status == status && after.is_none_or(|after| kept.id > after) && is_old(kept.created_at)
        });
        let page: Vec<&Kept> = settled.take(limit).collect();
        let next = page.last().filter(|_| page.len() == limit).map(|kept| kept.id);
        let may_go = |kept: &&&Kept| {
            let stands_for_kept = kept.retry_of.is_some_and(|first| self.messages.contains_key(&first));
            let is_meant = besides != Some(&*kept.message.topic);
            is_meant && is_old(kept.updated_at) && !stands_for_kept && !self.is_being_retried(kept.id)
        };
        let shown = |kept: &&Kept| OldMessage { id: kept.id, bytes: kept.message.payload.len() as u64 };
        OldMessages { old: page.iter().filter(may_go).map(shown).collect(), next }
    }

    fn is_being_retried(&self, id: i64) -> bool {
        self.messages.values().any(|row| row.kept.retry_of == Some(id) && !row.kept.status.is_settled())
    }

    pub(super) fn remove(&mut self, ids: &[i64]) -> u64 {
        let mut removed = 0;
        for id in ids {
            let over = self.messages.get(id).is_some_and(|row| row.kept.status.is_settled());
            if over
                && !self.is_being_retried(*id)
                && let Some(row) = self.messages.remove(id)
            {
                removed += 1;
                if row.kept.retry_of.is_none() {
                    self.keys.remove(&name(&row.kept.message));
                }
            }
        }
        removed
    }

    /// Those of messages that are gone.
    pub(super) fn old_keys(
        &self,
        age: Duration,
        after: Option<&KeyName>,
        limit: usize,
        now: Timestamp,
    ) -> OldKeys {
        let kept: HashSet<Name> = self.messages.values().map(|row| name(&row.kept.message)).collect();
        let mut page: Vec<(KeyName, &Name, &Entry)> = self
            .ledger
            .iter()
            .filter(|(_, entry)| is_older(entry.at, age, now))
            .map(|(name, entry)| (key_name(name, entry), name, entry))
            .filter(|(name, ..)| after.is_none_or(|after| name > after))
            .collect();
        page.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        page.truncate(limit);
        let next = page.last().filter(|_| page.len() == limit).map(|(name, ..)| name.clone());
        let gone = page.into_iter().filter(|(_, name, _)| !kept.contains(*name));
        let shown = |(name, _, entry): (KeyName, &Name, &Entry)| {
            let kept = Key {
                scope: name.scope.clone(),
                key: name.key.clone(),
                digest: entry.digest,
                state: if entry.result.is_some() { "succeeded" } else { "accepted" }.to_owned(),
                result: entry.result.clone(),
                at: entry.at,
                saga: None,
            };
            OldKey { name, kept: Ok(kept) }
        };
        OldKeys { old: gone.map(shown).collect(), next }
    }

    pub(super) fn remove_keys(&mut self, keys: &[KeyName]) -> u64 {
        let before = self.ledger.len();
        self.ledger.retain(|name, entry| !keys.contains(&key_name(name, entry)));
        (before - self.ledger.len()) as u64
    }

    pub(super) fn retry(&mut self, id: i64, at: Timestamp) -> Retried {
        let Some(aborted) = self.get(id) else {
            return Retried::Unknown;
        };
        if let Some(earlier) = self.messages.values().find(|row| row.kept.retry_of == Some(id)) {
            return Retried::Replay(earlier.kept.id);
        }
        if aborted.status != Status::Aborted {
            return Retried::NotAborted(aborted.status);
        }
        let name = name(&aborted.message);
        let message = NewMessage { expires_at: None, ..aborted.message };
        let ordering_scope = self.messages.get(&id).and_then(|row| row.ordering_scope.clone());
        let new = self.write(message, aborted.digest, Some(id), aborted.in_doubt, at);
        if let Some(row) = self.messages.get_mut(&new) {
            row.ordering_scope = ordering_scope;
        }
        if let Some(entry) = self.ledger.get_mut(&name) {
            entry.result = None;
        }
        Retried::Accepted(new)
    }

    pub(super) fn ages(&self) -> Ages {
        let unsent = || self.messages.values().map(|row| &row.kept).filter(|kept| !kept.status.is_settled());
        let place = unsent().take(AGED).count() / 20;
        Ages {
            oldest: unsent().map(|kept| kept.created_at).min(),
            old: unsent().nth(place).map(|kept| kept.created_at),
        }
    }
}

fn key_name((topic, key): &Name, entry: &Entry) -> KeyName {
    KeyName { at: entry.at, scope: scope(topic), key: key.clone() }
}

pub(super) fn is_older(at: Timestamp, age: Duration, now: Timestamp) -> bool {
    at.plus(age) < now
}

fn waiting_status(attempts: u32) -> Status {
    if attempts == 0 { Status::Pending } else { Status::Failed }
}
