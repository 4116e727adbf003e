//! Who looks, of all the workers that wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Looks at the same time: more would only wait for the database.
const AT_ONCE: usize = 4;

/// All who wait are woken by what is offered, and most of them in vain. Few look at once; and whoever is still waiting for its
/// turn when one that began to look later finds nothing knows that there is nothing.
pub(super) struct Turns {
    looks: Semaphore,
    in_vain: Mutex<Option<Look>>,
}

#[derive(Clone, Copy)]
struct Look {
    /// What had been offered by then.
    offered: u64,
    at: Instant,
}

/// The right to look.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    look: Look,
    _one_of_few: Option<SemaphorePermit<'a>>,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { looks: Semaphore::new(AT_ONCE), in_vain: Mutex::default() }
    }

    /// A turn, unless there is nothing to be found; `offered` says how much has been offered so far.
    pub(super) async fn take(&self, offered: impl Fn() -> u64) -> Option<Turn<'_>> {
        let came = Instant::now();
        let one_of_few = self.looks.acquire().await.ok();
        let look = Look { offered: offered(), at: Instant::now() };
        let told = |before: &Look| before.offered == look.offered && before.at > came;
        let is_told = self.in_vain().as_ref().is_some_and(told);
        (!is_told).then_some(Turn { turns: self, look, _one_of_few: one_of_few })
    }

    fn in_vain(&self) -> MutexGuard<'_, Option<Look>> {
        self.in_vain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Nothing was found.
    pub(super) fn was_in_vain(self) {
        *self.turns.in_vain() = Some(self.look);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: std::time::Duration = std::time::Duration::from_millis(1);

    /// So many who look.
    async fn all_looking(turns: &Turns) -> Vec<Turn<'_>> {
        let mut looking = Vec::new();
        for _ in 0..AT_ONCE {
            looking.push(turns.take(|| 7).await.unwrap());
        }
        looking
    }

    #[tokio::test(start_paused = true)]
    async fn few_look_at_once_and_those_behind_them_know_what_is_found_by_one_that_began_after_they_came() {
        let turns = Turns::new();
        let mut looking = all_looking(&turns).await;
        tokio::time::advance(SOME).await;
        let (mut second, mut third) = (std::pin::pin!(turns.take(|| 7)), std::pin::pin!(turns.take(|| 7)));
        assert!(futures::poll!(second.as_mut()).is_pending() && futures::poll!(third.as_mut()).is_pending());
        tokio::time::advance(SOME).await;
        looking.remove(0).was_in_vain();
        let second = second.await.expect("the one before it began too early to know");
        second.was_in_vain();
        assert!(third.await.is_none());
        assert!(turns.take(|| 7).await.is_some(), "whoever comes now looks");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_offered_meanwhile_is_looked_for() {
        let turns = Turns::new();
        let mut looking = all_looking(&turns).await;
        let mut behind = std::pin::pin!(turns.take(|| 8));
        assert!(futures::poll!(behind.as_mut()).is_pending());
        looking.remove(0).was_in_vain();
        assert!(behind.await.is_some());
    }
}
