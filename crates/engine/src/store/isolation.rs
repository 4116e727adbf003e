//! Isolates the items of a batch that the database rejects, so that the others are written.

use std::fmt::Display;

use super::Error;

/// An error that can be about one item of a batch.
pub trait Isolable {
    /// Whether an item of the batch is to blame: nothing of the batch was written, and the others can be.
    fn is_about_an_item(&self) -> bool;
}

impl Isolable for Error {
    fn is_about_an_item(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }
}

/// What became of items that were written together.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<R, E> {
    /// They were written.
    Written(R),
    /// This item alone was rejected.
    Rejected(E),
    /// The store failed as a whole; what was written is unknown.
    Failed(E),
    /// The store had failed before.
    NotTried,
}

/// Items of a batch that were written, or not, together.
#[derive(Debug, PartialEq, Eq)]
pub struct Part<T, R, E> {
    /// In the order of the batch.
    pub items: Vec<T>,
    /// What became of them.
    pub outcome: Outcome<R, E>,
}

/// Writes a batch as one. If an item of it is rejected, writes it in halves, until each rejected item stands alone. Stops at
/// the first error that is about no item. The parts are in the order of the batch.
pub async fn isolate<T, R, E, W, F>(items: Vec<T>, write: W) -> Vec<Part<T, R, E>>
where
    T: Clone,
    E: Isolable,
    W: Fn(Vec<T>) -> F,
    F: Future<Output = Result<R, E>>,
{
    isolate_and_park(items, write, |_, _| std::future::ready(Ok(()))).await
}

/// The same. Each rejected item is parked before the next part is written: a crash in between loses nothing.
async fn isolate_and_park<T, R, E, W, F, P, G>(items: Vec<T>, write: W, park: P) -> Vec<Part<T, R, E>>
where
    T: Clone,
    E: Isolable,
    W: Fn(Vec<T>) -> F,
    F: Future<Output = Result<R, E>>,
    P: Fn(&T, &E) -> G,
    G: Future<Output = Result<(), E>>,
{
    let mut parts = Vec::new();
    let mut left = vec![items];
    let mut failed = false;
    while let Some(mut items) = left.pop() {
        if items.is_empty() {
            continue;
        }
        if failed {
            parts.push(Part { items, outcome: Outcome::NotTried });
            continue;
        }
        let outcome = match write(items.clone()).await {
            Ok(written) => Ok(Outcome::Written(written)),
            Err(error) if error.is_about_an_item() => {
                if items.len() > 1 {
                    let second = items.split_off(items.len() / 2);
                    left.extend([second, items]);
                    continue;
                }
                park(&items[0], &error).await.map(|()| Outcome::Rejected(error))
            }
            Err(error) => Err(error),
        };
        failed = outcome.is_err();
        parts.push(Part { items, outcome: outcome.unwrap_or_else(Outcome::Failed) });
    }
    parts
}

/// Writes a batch that picks its own items, by `write(None)`. If one of them is rejected, looks up those that it would pick, and
/// has them written in halves. Each rejected item is parked before the next part is written.
///
/// # Errors
/// When the batch cannot be written for a reason that is no item's.
pub async fn isolate_picked<T, R, E, C, W, F, P, G>(
    candidates: impl FnOnce() -> C,
    write: W,
    park: P,
) -> Result<PickedBatch<R, E>, E>
where
    T: Clone,
    E: Isolable + Display,
    C: Future<Output = Result<Vec<T>, E>>,
    W: Fn(Option<Vec<T>>) -> F,
    F: Future<Output = Result<R, E>>,
    P: Fn(T, String) -> G,
    G: Future<Output = Result<(), E>>,
{
    match write(None).await {
        Ok(written) => {
            Ok(PickedBatch { written: vec![written], parked: 0, is_isolated: false, failed: None })
        }
        // Boxed: it is rare, and would make the future of every batch larger.
        Err(error) if error.is_about_an_item() => {
            let candidates = Box::pin(candidates()).await?;
            let park = |item: &T, error: &E| park(item.clone(), error.to_string());
            let parts = Box::pin(isolate_and_park(candidates, |items| write(Some(items)), park)).await;
            let Isolated { written, rejected, failed } = parts.into();
            Ok(PickedBatch { written, parked: rejected.len(), is_isolated: true, failed })
        }
        Err(error) => Err(error),
    }
}

/// What became of a batch that picked its own items.
#[derive(Debug)]
pub struct PickedBatch<R, E> {
    /// What the writes of its parts gave.
    pub written: Vec<R>,
    /// How many items were rejected, and parked.
    pub parked: usize,
    /// Whether items were looked up, and written apart from the others.
    pub is_isolated: bool,
    /// Why the rest was not written, where there is one.
    pub failed: Option<E>,
}

/// What became of a batch as a whole.
#[derive(Debug)]
pub struct Isolated<T, R, E> {
    /// What the writes of its parts gave.
    pub written: Vec<R>,
    /// The items that were rejected.
    pub rejected: Vec<(T, E)>,
    /// Why the rest was not written, where there is one.
    pub failed: Option<E>,
}

impl<T, R, E> From<Vec<Part<T, R, E>>> for Isolated<T, R, E> {
    fn from(parts: Vec<Part<T, R, E>>) -> Self {
        let mut isolated = Self { written: Vec::new(), rejected: Vec::new(), failed: None };
        for Part { items, outcome } in parts {
            match outcome {
                Outcome::Written(written) => isolated.written.push(written),
                Outcome::Rejected(error) => {
                    isolated.rejected.extend(items.into_iter().next().map(|item| (item, error)));
                }
                Outcome::Failed(error) => isolated.failed = Some(error),
                Outcome::NotTried => {}
            }
        }
        isolated
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Rejects these items, and fails as a whole at a batch that has the second.
    fn written(
        rejected: &[u32],
        down: Option<u32>,
        items: Vec<u32>,
    ) -> std::future::Ready<Result<Vec<u32>, Error>> {
        std::future::ready(if down.is_some_and(|down| items.contains(&down)) {
            Err(Error::Unavailable("no connection".to_owned()))
        } else if items.iter().any(|item| rejected.contains(item)) {
            Err(Error::Rejected("duplicate key".to_owned()))
        } else {
            Ok(items)
        })
    }

    #[tokio::test]
    async fn rejected_items_stand_alone_and_others_are_written() {
        let calls = Mutex::new(0);
        let write = |items| {
            *calls.lock().unwrap() += 1;
            written(&[3, 200], None, items)
        };
        let isolated = Isolated::from(isolate((0..512).collect(), write).await);
        let written: Vec<u32> = isolated.written.into_iter().flatten().collect();
        let healthy: Vec<u32> = (0..512).filter(|item| ![3, 200].contains(item)).collect();
        assert_eq!(written, healthy, "each once, in order");
        let rejected: Vec<u32> = isolated.rejected.iter().map(|(item, _)| *item).collect();
        assert_eq!(rejected, [3, 200]);
        assert!(isolated.failed.is_none());
        assert!(*calls.lock().unwrap() < 50, "in halves, and not one by one");
    }

    #[tokio::test]
    async fn each_rejected_item_is_parked_before_the_next_write() {
        let done = Mutex::new(Vec::new());
        let write = |only: Option<Vec<u32>>| {
            let items = only.unwrap_or_else(|| vec![1, 2, 3, 4]);
            let result = written(&[1, 4], None, items).into_inner();
            let said = result.as_ref().map_or("rejected".to_owned(), |items| format!("wrote {items:?}"));
            done.lock().unwrap().push(said);
            result
        };
        let write = |only| std::future::ready(write(only));
        let park = |item: u32, _| {
            done.lock().unwrap().push(format!("parked {item}"));
            std::future::ready(Ok(()))
        };
        let candidates = || std::future::ready(Ok(vec![1, 2, 3, 4]));
        let batch = isolate_picked(candidates, write, park).await.unwrap();
        assert_eq!((batch.written.len(), batch.parked), (2, 2));
        let done = done.into_inner().unwrap();
        let first = done.iter().position(|it| it == "parked 1").expect("it is parked");
        assert_eq!(&done[first..=first + 1], ["parked 1", "wrote [2]"], "{done:?}");
        assert_eq!(done.last().unwrap(), "parked 4", "{done:?}");
    }

    #[tokio::test]
    async fn item_that_cannot_be_parked_ends_its_batch() {
        let candidates = || std::future::ready(Ok(vec![1, 2]));
        let write = |only: Option<Vec<u32>>| written(&[1], None, only.unwrap_or_else(|| vec![1, 2]));
        let park = |_, _| std::future::ready(Err(Error::Unavailable("no connection".to_owned())));
        let batch = isolate_picked(candidates, write, park).await.unwrap();
        assert!(batch.written.is_empty() && batch.parked == 0);
        assert!(matches!(batch.failed, Some(Error::Unavailable(_))));
    }

    #[tokio::test]
    async fn a_healthy_batch_is_written_once() {
        let parts = isolate(vec![1, 2, 3], |items| written(&[], None, items)).await;
        assert_eq!(parts.len(), 1);
        assert!(matches!(&parts[0].outcome, Outcome::Written(items) if *items == [1, 2, 3]));
    }

    #[tokio::test]
    async fn a_store_that_is_away_rejects_nothing() {
        let isolated = Isolated::from(isolate(vec![1, 2, 3], |items| written(&[2], Some(1), items)).await);
        assert!(isolated.written.is_empty() && isolated.rejected.is_empty());
        assert!(matches!(isolated.failed, Some(Error::Unavailable(_))));

        let parts = isolate(vec![1, 2, 3, 4], |items| written(&[1], Some(3), items)).await;
        assert!(matches!(parts[0].outcome, Outcome::Failed(_)), "the store is down for the whole batch");
    }

    #[tokio::test]
    async fn what_was_written_before_the_store_failed_counts() {
        // The store goes away with the second half.
        let write = |items: Vec<u32>| async move {
            match &items[..] {
                [1, 2, 3, 4] => Err(Error::Rejected("duplicate key".to_owned())),
                [1, ..] => Ok(items),
                _ => Err(Error::Unavailable("no connection".to_owned())),
            }
        };
        let isolated = Isolated::from(isolate(vec![1, 2, 3, 4], write).await);
        assert_eq!(isolated.written, [vec![1, 2]]);
        assert!(isolated.rejected.is_empty() && isolated.failed.is_some());
    }
}
