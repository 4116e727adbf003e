//! What happens to sagas, told to the world: each event that is announced becomes a message of the commit that writes it.

use backstitch_kernel::saga::{Event, Recorded};
use backstitch_kernel::{Payload, SagaId};

use crate::event_view::EventView;
use crate::store::outbox::{NewMessage, SAGAS};

/// Which events of sagas are published, to the topic [`SAGAS`].
///
/// A message says what the saga's log says of the event, with the saga and its definition. Its key is the saga's id and
/// the event's number, as in `0197…:4`, and those of one saga arrive in the order of its log.
///
/// ```
/// use backstitch::{Announced, Options};
///
/// let announced = Announced::matching(["saga.*", "step.failed"]).unwrap();
/// let options = Options { announced, ..Options::default() };
/// # let _ = options;
/// assert!(Announced::matching(["saga.finished"]).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// This event.
    Is(String),
    /// Every event whose name begins so.
    Begins(String),
}

/// A pattern that no event matches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no event is called `{pattern}`: write `*`, `saga.*`, `step.*` or one of {}", Event::NAMES.join(", "))]
pub struct NoSuchEvent {
    /// The pattern.
    pub pattern: String,
}

impl Pattern {
    fn read(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(beginning) => Self::Begins(beginning.to_owned()),
            None => Self::Is(text.to_owned()),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Is(this) => this == name,
            Self::Begins(beginning) => name.starts_with(beginning.as_str()),
        }
    }
}

impl Announced {
    /// The events that any of these patterns matches: an event's name, or its beginning and a `*`.
    ///
    /// # Errors
    /// The first pattern that matches no event at all.
    pub fn matching<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, NoSuchEvent> {
        let read = |text: P| {
            let pattern = Pattern::read(text.as_ref());
            let known = Event::NAMES.iter().any(|name| pattern.matches(name));
            known.then_some(pattern).ok_or_else(|| NoSuchEvent { pattern: text.as_ref().to_owned() })
        };
        Ok(Self(patterns.into_iter().map(read).collect::<Result<_, _>>()?))
    }

    /// Every event.
    pub(crate) fn all() -> Self {
        Self(vec![Pattern::Begins(String::new())])
    }

    /// Whether nothing is announced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether events of this name are announced.
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name))
    }

    /// What is to be said of an event, if anything is.
    pub(crate) fn message(&self, saga: SagaId, definition: &str, recorded: &Recorded) -> Option<NewMessage> {
        if !self.includes(recorded.event.name()) {
            return None;
        }
        // Nothing in an event fails to be JSON.
        let payload = Payload::encode(&EventView::among_all(saga, definition, recorded)).ok()?;
        Some(NewMessage {
            topic: SAGAS.to_owned(),
            idempotency_key: format!("{saga}:{}", recorded.seq),
            ordering_key: Some(saga.to_string()),
            payload,
            expires_at: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_its_beginning() {
        for (pattern, included) in
            [("*", 18), ("saga.*", 8), ("step.*", 10), ("step.compensat*", 3), ("saga.succeeded", 1)]
        {
            let announced = Announced::matching([pattern]).unwrap();
            let names = Event::NAMES.iter().filter(|name| announced.includes(name));
            assert_eq!(names.count(), included, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_refused() {
        for pattern in ["saga.suceeded", "saga", "*.failed", "", "sagas.*"] {
            let refused = Announced::matching(["saga.*", pattern]).unwrap_err();
            assert_eq!(refused.pattern, pattern);
            assert!(refused.to_string().contains("saga.succeeded"), "{refused}");
        }
    }

    #[test]
    fn nothing_is_announced_unless_told() {
        assert!(Announced::default().is_empty());
        assert!(!Announced::default().includes("saga.started"));
    }
}
