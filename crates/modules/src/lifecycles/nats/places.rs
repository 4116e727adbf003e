//! Where those stand that somebody waits for, as this process hears of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::lifecycles::Happened;

/// A state, and the number of the event that led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) state: String,
}

/// One ear for all who wait, each of whom is told of its own key only.
#[derive(Default)]
pub(super) struct Places {
    waited_for: Mutex<HashMap<String, watch::Sender<Option<Place>>>>,
}

impl Places {
    /// Hears of this key from now on.
    pub(super) fn watch(self: &Arc<Self>, key: &str) -> Watching {
        let news = self.waited_for().entry(key.to_owned()).or_default().subscribe();
        Watching { places: self.clone(), key: key.to_owned(), news: Some(news) }
    }

    pub(super) fn tell(&self, happened: &Happened) {
        if let (Some(state), Some(waiting)) =
            (happened.recorded.event.state(), self.waited_for().get(&*happened.key))
        {
            waiting.send_replace(Some(Place { seq: happened.recorded.seq, state: state.to_owned() }));
        }
    }

    fn waited_for(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Option<Place>>>> {
        self.waited_for.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits.
pub(super) struct Watching {
    places: Arc<Places>,
    key: String,
    /// There until the end.
    news: Option<watch::Receiver<Option<Place>>>,
}

impl Watching {
    /// The newest place that was not seen yet, once there is one.
    pub(super) async fn next(&mut self) -> Place {
        loop {
            let Some(news) = &mut self.news else { return std::future::pending().await };
            if news.changed().await.is_err() {
                return std::future::pending().await;
            }
            let place = news.borrow_and_update().clone();
            if let Some(place) = place {
                return place;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut waited_for = self.places.waited_for();
        self.news = None;
        if waited_for.get(&self.key).is_some_and(|sender| sender.receiver_count() == 0) {
            waited_for.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use backstitch::kernel::lifecycle::{Event, Recorded};
    use backstitch::{SagaId, Timestamp};

    use super::*;

    fn reached(key: &str, seq: u64, state: &str) -> Happened {
        let event =
            Event::Transitioned { from: "a".into(), to: state.into(), attempt: 1, data: None, error: None };
        let recorded = Recorded { seq, at: Timestamp::from_micros(0), event };
        Happened { id: SagaId(uuid::Uuid::nil()), machine: "m".into(), key: key.into(), recorded }
    }

    #[tokio::test]
    async fn whoever_waits_hears_the_newest_of_its_key_and_is_forgotten_when_it_goes() {
        let places = Arc::new(Places::default());
        let (mut one, mut other) = (places.watch("k"), places.watch("k"));
        places.tell(&reached("elsewhere", 9, "c"));
        places.tell(&reached("k", 2, "b"));
        places.tell(&reached("k", 3, "c"));
        let newest = Place { seq: 3, state: "c".to_owned() };
        assert_eq!((one.next().await, other.next().await), (newest.clone(), newest));
        drop(one);
        assert_eq!(places.waited_for().len(), 1);
        drop(other);
        assert!(places.waited_for().is_empty());
    }
}
