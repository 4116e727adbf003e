//! Exports a batch, removes it, and counts what went.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use super::area::Prunable;
use super::report::Ledger;
use super::{Archive, NotKept};
use crate::store::isolation::{Isolable, Isolated, isolate};
use crate::store::parked::{READ_AT_ONCE, park};
use crate::store::{self, Store};

/// How many reasons a report tells why something is not removed.
const TROUBLES: usize = 5;

/// What is in the way.
#[derive(Debug, thiserror::Error)]
pub enum NotPruned {
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The export.
    #[error("nothing is removed, because it cannot be exported: {0}")]
    Export(String),
    /// A row that makes no sense, which is in no other row's way.
    #[error("{0}")]
    Unreadable(String),
}

impl NotPruned {
    /// Whether it is a single row that cannot be read: the others can go all the same.
    pub(super) fn is_of_one_row(&self) -> bool {
        matches!(self, Self::Store(store::Error::Corrupt(_)) | Self::Unreadable(_))
    }
}

impl Isolable for NotPruned {
    fn is_about_an_item(&self) -> bool {
        self.is_of_one_row() || matches!(self, Self::Store(store::Error::Rejected(_)))
    }
}

impl From<NotKept> for NotPruned {
    fn from(NotKept(why): NotKept) -> Self {
        Self::Export(why)
    }
}

/// One round of removals.
pub(super) struct Removal<'a> {
    store: &'a dyn Store,
    archive: Option<&'a Arc<dyn Archive>>,
    ledger: &'a Ledger,
    /// What is in the way.
    troubles: Mutex<Vec<String>>,
}

impl<'a> Removal<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        archive: Option<&'a Arc<dyn Archive>>,
        ledger: &'a Ledger,
    ) -> Self {
        Self { store, archive, ledger, troubles: Mutex::default() }
    }

    /// Exports those of these items that are not parked, once, and removes as many as can go. The database may reject an
    /// item: it is parked and tried again later. Returns how many items went.
    pub(super) async fn remove<P: Prunable>(
        &self,
        prunable: &P,
        items: Vec<P::Item>,
    ) -> Result<u64, NotPruned> {
        if items.is_empty() {
            return Ok(0);
        }
        let free = self.not_parked(P::PARKED_IN, items).await?;
        let going = self.export(prunable, free).await?;
        let Isolated { written, rejected, failed } =
            isolate(going, |items| prunable.remove(items)).await.into();
        let mut removed = 0;
        for (kind, count) in written.into_iter().flatten() {
            removed += if kind == P::ITEMS { count } else { 0 };
            self.count(kind, count);
        }
        let to_park = rejected.iter().filter(|(_, why)| !why.is_of_one_row());
        let to_park: Vec<_> = to_park.map(|(item, why)| (item, why)).collect();
        park(self.store, P::PARKED_IN, &to_park).await?;
        for (item, why) in &rejected {
            self.stays::<P>(item, why);
        }
        failed.map_or(Ok(removed), Err)
    }

    async fn not_parked<T: Display>(
        &self,
        area: &'static str,
        mut items: Vec<T>,
    ) -> Result<Vec<T>, store::Error> {
        let parked = self.store.parked(Some(area), READ_AT_ONCE).await?;
        let parked: HashSet<String> = parked.into_iter().map(|parked| parked.item).collect();
        if !parked.is_empty() {
            items.retain(|item| !parked.contains(&item.to_string()));
        }
        Ok(items)
    }

    /// Exports these items where that is wanted. Returns those that may go.
    async fn export<P: Prunable>(
        &self,
        prunable: &P,
        items: Vec<P::Item>,
    ) -> Result<Vec<P::Item>, NotPruned> {
        let Some(archive) = self.archive.filter(|_| !items.is_empty()) else { return Ok(items) };
        let (mut going, mut lines) = (Vec::new(), Vec::new());
        for (item, line) in prunable.lines(items).await? {
            match line {
                Ok(line) => {
                    lines.push(line);
                    going.push(item);
                }
                Err(why) if why.is_of_one_row() => self.stays::<P>(&item, &why),
                Err(why) => return Err(why),
            }
        }
        let count = lines.len() as u64;
        if count > 0 {
            archive.keep(lines).await?;
            self.ledger.change(|report| *report.exported.entry(P::ITEMS).or_default() += count);
        }
        Ok(going)
    }

    fn count(&self, kind: &'static str, count: u64) {
        if count > 0 {
            self.ledger.change(|report| *report.removed.entry(kind).or_default() += count);
        }
    }

    fn stays<P: Prunable>(&self, item: &P::Item, why: &NotPruned) {
        self.trouble(format!("{} {item} stays, because {why}", P::ITEM));
    }

    pub(super) fn trouble(&self, trouble: String) {
        tracing::warn!(trouble, "what is over for long is not removed");
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if troubles.len() < TROUBLES {
            troubles.push(trouble);
        }
    }

    pub(super) fn into_troubles(self) -> Vec<String> {
        self.troubles.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
