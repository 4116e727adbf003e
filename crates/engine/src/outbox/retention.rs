//! How long messages are kept that are over.

use std::time::Duration;

/// How long messages are kept that are over, and the keys of what was published: for ever, unless told.
///
/// What waits or is being sent is never removed, nor is an aborted message while another one that stands for it is on its
/// way. A key is kept at least as long as its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Messages that the other side has.
    pub sent: Option<Duration>,
    /// Messages that were given up.
    pub aborted: Option<Duration>,
    /// Keys: for so long a repeated request is known. Only where messages of both kinds are removed, and not shorter than those
    /// are kept: a key goes after its message.
    pub keys: Option<Duration>,
    /// A topic whose messages somebody else removes, when nobody needs them any more.
    pub besides: Option<&'static str>,
}

impl Retention {
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        let keys = self.keys?;
        let goes_before = |age: Option<Duration>| age.is_some_and(|age| age <= keys);
        (!goes_before(self.sent) || !goes_before(self.aborted)).then_some(
            "retention.messages.keys needs retention.messages.sent and retention.messages.aborted, and must not be \
             shorter than either: a key goes after its message",
        )
    }
}
