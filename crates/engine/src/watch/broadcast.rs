//! Everything that happens in this process, for many subscribers: sorted once by what they want, and encoded once for all who
//! want it, so that ten thousand subscribers of other events cost nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::Gap;

/// Different filters at once: each has a buffer of its own.
const FILTERS: usize = 1000;

/// Which events a subscriber wants; all of them by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFilter {
    /// Only those of this definition or machine.
    pub definition: Option<Arc<str>>,
    /// Only those of this name.
    pub name: Option<Cow<'static, str>>,
}

/// Subscribers by their filter. Each gets `T`, which is what an event is encoded as.
pub struct Broadcast<T> {
    /// How many events a subscriber can be behind.
    buffer: usize,
    channels: Mutex<HashMap<EventFilter, Sender<T>>>,
}

/// The events that one subscriber wants.
pub struct Subscription<T>(Receiver<T>);

impl<T: Clone> Broadcast<T> {
    /// Without subscribers. One that falls behind by more than `buffer` events gets a [`Gap`].
    #[must_use]
    pub fn new(buffer: usize) -> Self {
        Self { buffer, channels: Mutex::default() }
    }

    /// All events of this filter from now on; `None` if there are too many other filters.
    pub fn subscribe(&self, filter: EventFilter) -> Option<Subscription<T>> {
        let mut channels = self.channels();
        if let Some(channel) = channels.get(&filter) {
            return Some(Subscription(channel.subscribe()));
        }
        // Now and then, those whose last subscriber has left.
        if channels.len().is_power_of_two() || channels.len() >= FILTERS {
            channels.retain(|_, channel| channel.receiver_count() > 0);
        }
        if channels.len() >= FILTERS {
            return None;
        }
        let (sender, receiver) = channel(self.buffer);
        channels.insert(filter, sender);
        Some(Subscription(receiver))
    }

    /// All events from now on.
    pub fn subscribe_to_all(&self) -> Subscription<T> {
        let mut channels = self.channels();
        let channel = channels.entry(EventFilter::default()).or_insert_with(|| channel(self.buffer).0);
        Subscription(channel.subscribe())
    }

    /// Sends an event to its subscribers. It is encoded if there is one, and once.
    pub fn publish(&self, definition: &Arc<str>, name: &'static str, encode: impl FnOnce() -> Option<T>) {
        let channels = self.channels();
        if channels.is_empty() {
            return;
        }
        let definition = || Some(definition.clone());
        let name = || Some(Cow::Borrowed(name));
        let filters = [(definition(), name()), (definition(), None), (None, name()), (None, None)];
        let wanted = filters.into_iter().filter_map(|(definition, name)| {
            channels.get(&EventFilter { definition, name }).filter(|channel| channel.receiver_count() > 0)
        });
        let wanted: Vec<_> = wanted.collect();
        if wanted.is_empty() {
            return;
        }
        let Some(encoded) = encode() else { return };
        for channel in wanted {
            // Fails only when the last subscriber has just left.
            let _ = channel.send(encoded.clone());
        }
    }

    /// Ends all subscriptions, because events were missed, and it is unknown of which filter.
    pub fn disconnect_all(&self) {
        self.channels().clear();
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<EventFilter, Sender<T>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Subscription<T> {
    /// The next event, or how many were missed; `None` once it is disconnected.
    pub async fn next(&mut self) -> Option<Result<T, Gap>> {
        match self.0.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(RecvError::Lagged(missed)) => Some(Err(Gap { missed })),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const BUFFER: usize = 4;

    fn filter(definition: Option<&str>, name: Option<&'static str>) -> EventFilter {
        EventFilter { definition: definition.map(Arc::from), name: name.map(Cow::Borrowed) }
    }

    fn publish(broadcast: &Broadcast<String>, definition: &str, name: &'static str) {
        broadcast.publish(&definition.into(), name, || Some(format!("{definition} {name}")));
    }

    fn received(subscription: &mut Subscription<String>) -> Vec<String> {
        let next = || subscription.next().now_or_never()??.ok();
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn subscribers_get_the_events_of_their_filter() {
        let broadcast = Broadcast::new(BUFFER);
        let mut all = broadcast.subscribe(EventFilter::default()).unwrap();
        let mut starts = broadcast.subscribe(filter(None, Some("saga.started"))).unwrap();
        let mut orders = broadcast.subscribe(filter(Some("orders"), None)).unwrap();
        let mut failed_orders = broadcast.subscribe(filter(Some("orders"), Some("saga.failed"))).unwrap();
        publish(&broadcast, "orders", "saga.started");
        publish(&broadcast, "other", "saga.failed");
        assert_eq!(received(&mut all), ["orders saga.started", "other saga.failed"]);
        assert_eq!(received(&mut starts), ["orders saga.started"]);
        assert_eq!(received(&mut orders), ["orders saga.started"]);
        assert_eq!(received(&mut failed_orders), Vec::<String>::new());
    }

    #[test]
    fn event_without_subscribers_is_not_encoded() {
        let broadcast: Broadcast<String> = Broadcast::new(BUFFER);
        drop(broadcast.subscribe(EventFilter::default()));
        let _other = broadcast.subscribe(filter(Some("other"), None));
        broadcast.publish(&"orders".into(), "saga.started", || panic!("there is no subscriber"));
    }

    #[test]
    fn subscriber_that_falls_behind_gets_a_gap() {
        let broadcast = Broadcast::new(BUFFER);
        let mut slow = broadcast.subscribe(EventFilter::default()).unwrap();
        for _ in 0..=BUFFER {
            publish(&broadcast, "orders", "saga.started");
        }
        assert_eq!(slow.next().now_or_never(), Some(Some(Err(Gap { missed: 1 }))));
        assert_eq!(received(&mut slow).len(), BUFFER);
    }

    #[test]
    fn filters_without_subscribers_are_forgotten() {
        let broadcast: Broadcast<String> = Broadcast::new(BUFFER);
        let kept = broadcast.subscribe(filter(Some("kept"), None)).unwrap();
        for number in 0..1000 {
            drop(broadcast.subscribe(filter(Some(&number.to_string()), None)));
        }
        assert!(broadcast.channels().len() <= 2, "{}", broadcast.channels().len());
        assert!(broadcast.channels().contains_key(&filter(Some("kept"), None)));
        drop(kept);
    }

    #[test]
    fn number_of_filters_is_limited() {
        let broadcast: Broadcast<String> = Broadcast::new(BUFFER);
        let mut subscriptions: Vec<_> = (0..FILTERS)
            .map(|number| broadcast.subscribe(filter(Some(&number.to_string()), None)).unwrap())
            .collect();
        assert!(broadcast.subscribe(filter(Some("one more"), None)).is_none());
        assert!(broadcast.subscribe(filter(Some("7"), None)).is_some(), "a filter that is there");
        subscriptions.pop();
        assert!(broadcast.subscribe(filter(Some("one more"), None)).is_some());
    }

    #[test]
    fn disconnected_subscription_ends() {
        let broadcast: Broadcast<String> = Broadcast::new(BUFFER);
        let mut subscription = broadcast.subscribe(EventFilter::default()).unwrap();
        broadcast.disconnect_all();
        assert_eq!(subscription.next().now_or_never(), Some(None));
    }
}
