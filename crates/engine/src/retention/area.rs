//! Areas of what is removed once it is old enough.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::fitting::fitting;
use super::removal::{NotPruned, Removal};
use crate::store::retention::Bulk;

/// Items of one kind that are removed at one age.
#[async_trait]
pub trait Prunable: Send + Sync + 'static {
    /// An item, with what is needed to export and remove it. Its text is the name under which it is parked.
    type Item: Clone + Display + Send + Sync;
    /// Where a page ended.
    type Place: Clone + Send + Sync;

    /// The area in which items are parked that the database rejects.
    const PARKED_IN: &'static str;
    /// What people call one item: `saga`.
    const ITEM: &'static str;
    /// What reports and metrics call many: `sagas`.
    const ITEMS: &'static str;

    /// How long an item is kept.
    fn age(&self) -> Duration;

    /// The next page of items that are old enough, from the oldest on.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn page(
        &self,
        after: Option<Self::Place>,
    ) -> Result<CandidatePage<Self::Item, Self::Place>, NotPruned>;

    /// The documents of these items, or why one cannot be read: it stays then, as do items that are missing here.
    ///
    /// # Errors
    /// When none can be read.
    async fn lines(&self, items: Vec<Self::Item>) -> Result<Vec<Line<Self::Item>>, NotPruned>;

    /// Removes these items, or those that are still old enough, as one transaction. Returns how many rows of each kind
    /// are gone; [`Self::ITEMS`] is among the kinds.
    ///
    /// # Errors
    /// When none is removed.
    async fn remove(&self, items: Vec<Self::Item>) -> Result<Vec<(&'static str, u64)>, NotPruned>;
}

/// An item and its document.
pub type Line<T> = (T, Result<String, NotPruned>);

/// A page of items that are old enough.
#[derive(Debug)]
pub struct CandidatePage<T, P> {
    /// The items, and how much goes with each.
    pub items: Vec<(T, Bulk)>,
    /// Where the next page begins; without it, at the beginning.
    pub next: Option<P>,
    /// Whether this walk has another page. After the last one a walk begins where `next` says.
    pub more: bool,
}

impl<T, P> CandidatePage<T, P> {
    /// A page of a walk that ends where nothing follows, and then begins anew.
    #[must_use]
    pub fn before(next: Option<P>, items: Vec<(T, Bulk)>) -> Self {
        Self { items, more: next.is_some(), next }
    }
}

/// A [`Prunable`] and how far its walk got.
#[derive(Clone)]
pub struct Area(Arc<dyn Walk>);

impl Area {
    /// An area whose walk has not begun.
    #[must_use]
    pub fn new(prunable: impl Prunable) -> Self {
        Self(Arc::new(WalkOf { prunable, progress: Mutex::default() }))
    }

    pub(super) fn age(&self) -> Duration {
        self.0.age()
    }

    /// Exports and removes the next batch. Returns whether there may be more.
    pub(super) async fn prune_batch(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        self.0.prune_batch(removal).await
    }
}

#[async_trait]
trait Walk: Send + Sync {
    fn age(&self) -> Duration;
    async fn prune_batch(&self, removal: &Removal<'_>) -> Result<bool, NotPruned>;
}

/// Items are gone through from the oldest on, again and again: what began long ago may have ended just now, and what is in
/// the way today may not be tomorrow. The place is remembered, so that no look begins with items that stay, and no item
/// that stays is in the way of later ones.
struct WalkOf<P: Prunable> {
    prunable: P,
    progress: Mutex<Progress<P::Item, P::Place>>,
}

struct Progress<T, P> {
    /// Where this page began.
    after: Option<P>,
    /// What is left of this page.
    left: Vec<(T, Bulk)>,
    next: Option<P>,
    more: bool,
    /// Items of this page that went.
    removed: u64,
    /// Whether an item of this walk stayed that was old enough.
    has_left_items: bool,
}

impl<T, P> Default for Progress<T, P> {
    fn default() -> Self {
        Self { after: None, left: Vec::new(), next: None, more: false, removed: 0, has_left_items: false }
    }
}

#[async_trait]
impl<P: Prunable> Walk for WalkOf<P> {
    fn age(&self) -> Duration {
        self.prunable.age()
    }

    async fn prune_batch(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let progress = &mut *self.progress.lock().await;
        if progress.left.is_empty() {
            let page = self.prunable.page(progress.after.clone()).await?;
            (progress.left, progress.next, progress.more) = (page.items, page.next, page.more);
            progress.removed = 0;
        }
        let together = fitting(progress.left.iter().map(|(_, bulk)| *bulk));
        let batch: Vec<P::Item> = progress.left.drain(..together).map(|(item, _)| item).collect();
        let tried = batch.len() as u64;
        let removed = removal.remove(&self.prunable, batch).await.inspect_err(|_| {
            // The page is read again.
            progress.left.clear();
        })?;
        progress.removed += removed;
        progress.has_left_items |= removed < tried;
        Ok(progress.go_on())
    }
}

impl<T, P> Progress<T, P> {
    /// Goes to the next page once this one is done. Returns whether the walk goes on.
    fn go_on(&mut self) -> bool {
        if !self.left.is_empty() {
            return true;
        }
        self.after = self.next.take();
        // A walk without places reads the same page again, unless something went.
        if self.more && (self.after.is_some() || self.removed > 0) {
            return true;
        }
        if std::mem::take(&mut self.has_left_items) {
            self.after = None;
        }
        false
    }
}
