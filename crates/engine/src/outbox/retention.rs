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
    /// Keys: for so long a repeated request is known. Not shorter than the others.
    pub keys: Option<Duration>,
    /// A topic whose messages somebody else removes, when nobody needs them any more.
    pub besides: Option<&'static str>,
}

impl Retention {
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        let longest = self.sent.max(self.aborted);
        (self.keys.is_some() && self.keys < longest)
            .then_some("retention.keys must not be shorter than retention.sent and retention.aborted")
    }
}
