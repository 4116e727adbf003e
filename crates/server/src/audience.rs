//! Who listens to everything. Events are sorted once for all, so that ten thousand listeners who want something else cost
//! nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::broadcast::{Receiver, Sender};

/// How far a listener may fall behind, in events. It is cut then: what it missed is in the logs.
const BEHIND: usize = 512;

/// Different wishes at once: each has room of its own for those who fall behind.
const WISHES: usize = 1000;

/// What a listener wants to hear.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    /// Only of sagas of this definition.
    pub(crate) definition: Option<Arc<str>>,
    /// Only events of this type.
    pub(crate) name: Option<Cow<'static, str>>,
}

/// The listeners, by what they want to hear.
#[derive(Default)]
pub(crate) struct Audience(Mutex<HashMap<Wish, Sender<Bytes>>>);

impl Audience {
    /// Everything like this from now on; `None` when too many others have wishes of their own.
    pub(crate) fn listen(&self, wish: Wish) -> Option<Receiver<Bytes>> {
        let mut listening = self.listening();
        if let Some(told) = listening.get(&wish) {
            return Some(told.subscribe());
        }
        // Now and then, those whose last listener has left.
        if listening.len().is_power_of_two() || listening.len() >= WISHES {
            listening.retain(|_, told| told.receiver_count() > 0);
        }
        if listening.len() >= WISHES {
            return None;
        }
        let (tell, told) = tokio::sync::broadcast::channel(BEHIND);
        listening.insert(wish, tell);
        Some(told)
    }

    /// Ends every listener's stream, because something was missed.
    pub(crate) fn dismiss(&self) {
        self.listening().clear();
    }

    /// Tells an event to whoever wants to hear it; it is put into words only if there is somebody, and once.
    pub(crate) fn tell(
        &self,
        definition: &Arc<str>,
        name: &'static str,
        words: impl FnOnce() -> Option<Bytes>,
    ) {
        let listening = self.listening();
        if listening.is_empty() {
            return;
        }
        let definition = || Some(definition.clone());
        let name = || Some(Cow::Borrowed(name));
        let wishes = [(definition(), name()), (definition(), None), (None, name()), (None, None)];
        let wanted = wishes.into_iter().filter_map(|(definition, name)| {
            listening.get(&Wish { definition, name }).filter(|told| told.receiver_count() > 0)
        });
        let wanted: Vec<_> = wanted.collect();
        if wanted.is_empty() {
            return;
        }
        let Some(words) = words() else { return };
        for told in wanted {
            // Fails only when the last listener has just left.
            let _ = told.send(words.clone());
        }
    }

    fn listening(&self) -> MutexGuard<'_, HashMap<Wish, Sender<Bytes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    fn wish(definition: Option<&str>, name: Option<&'static str>) -> Wish {
        Wish { definition: definition.map(Arc::from), name: name.map(Cow::Borrowed) }
    }

    fn tell(audience: &Audience, definition: &str, name: &'static str) {
        let words = || Some(Bytes::from(format!("{definition} {name}")));
        audience.tell(&definition.into(), name, words);
    }

    fn heard(listener: &mut Receiver<Bytes>) -> Vec<String> {
        std::iter::from_fn(|| listener.try_recv().ok())
            .map(|words| String::from_utf8_lossy(&words).into_owned())
            .collect()
    }

    #[test]
    fn everybody_hears_what_they_want_and_nothing_else() {
        let audience = Audience::default();
        let mut all = audience.listen(wish(None, None)).unwrap();
        let mut starts = audience.listen(wish(None, Some("saga.started"))).unwrap();
        let mut orders = audience.listen(wish(Some("orders"), None)).unwrap();
        let mut failed_orders = audience.listen(wish(Some("orders"), Some("saga.failed"))).unwrap();
        tell(&audience, "orders", "saga.started");
        tell(&audience, "other", "saga.failed");
        assert_eq!(heard(&mut all), ["orders saga.started", "other saga.failed"]);
        assert_eq!(heard(&mut starts), ["orders saga.started"]);
        assert_eq!(heard(&mut orders), ["orders saga.started"]);
        assert_eq!(heard(&mut failed_orders), Vec::<String>::new());
    }

    #[test]
    fn without_a_listener_nothing_is_put_into_words() {
        let audience = Audience::default();
        drop(audience.listen(wish(None, None)));
        let _other = audience.listen(wish(Some("other"), None));
        audience.tell(&"orders".into(), "saga.started", || panic!("nobody wants to hear this"));
    }

    #[test]
    fn a_listener_who_falls_too_far_behind_is_told_so() {
        let audience = Audience::default();
        let mut slow = audience.listen(wish(None, None)).unwrap();
        for _ in 0..=BEHIND {
            tell(&audience, "orders", "saga.started");
        }
        assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(1)));
    }

    #[test]
    fn wishes_that_nobody_has_any_more_are_forgotten() {
        let audience = Audience::default();
        let kept = audience.listen(wish(Some("kept"), None)).unwrap();
        for number in 0..1000 {
            drop(audience.listen(wish(Some(&number.to_string()), None)));
        }
        assert!(audience.listening().len() <= 2, "{}", audience.listening().len());
        assert!(audience.listening().contains_key(&wish(Some("kept"), None)));
        drop(kept);
    }

    #[test]
    fn there_are_not_more_wishes_than_there_is_room_for() {
        let audience = Audience::default();
        let mut listeners: Vec<_> = (0..WISHES)
            .map(|number| audience.listen(wish(Some(&number.to_string()), None)).unwrap())
            .collect();
        assert!(audience.listen(wish(Some("one more"), None)).is_none());
        assert!(audience.listen(wish(Some("7"), None)).is_some(), "nobody's but this one's");
        listeners.pop();
        assert!(audience.listen(wish(Some("one more"), None)).is_some());
    }

    #[test]
    fn whoever_may_have_missed_something_is_told_no_more() {
        let audience = Audience::default();
        let mut listener = audience.listen(wish(None, None)).unwrap();
        audience.dismiss();
        assert_eq!(listener.try_recv(), Err(TryRecvError::Closed));
    }
}
