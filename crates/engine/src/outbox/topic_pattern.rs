//! Topics that have one route together: all that stand below a name.

use std::fmt;

/// What a pattern ends in.
const ALL_BELOW: &str = ".*";

/// All topics below a name.
///
/// ```
/// use backstitch::outbox::TopicPattern;
///
/// let sites = TopicPattern::read("sites.*")?.unwrap();
/// assert_eq!(sites.rest_of("sites.eu.live"), Some("eu.live"));
/// assert_eq!(sites.rest_of("sites"), None);
/// assert_eq!(TopicPattern::read("sites")?, None);
/// # Ok::<(), backstitch::outbox::BadTopicPattern>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPattern {
    prefix: String,
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{ALL_BELOW}", self.prefix)
    }
}

/// A `*` that stands where none may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a `*` stands for all topics below a name: write it once, as the last part after that name, like `sites.*`"
)]
pub struct BadTopicPattern;

impl TopicPattern {
    /// The pattern that the name of a route is; `None` if that is one topic's name.
    ///
    /// # Errors
    /// When it is neither.
    pub fn read(name: &str) -> Result<Option<Self>, BadTopicPattern> {
        if !name.contains('*') {
            return Ok(None);
        }
        let prefix = name.strip_suffix(ALL_BELOW).ok_or(BadTopicPattern)?;
        if prefix.contains('*') || prefix.split('.').any(str::is_empty) {
            return Err(BadTopicPattern);
        }
        Ok(Some(Self { prefix: prefix.to_owned() }))
    }

    /// The name that its topics stand below.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What of a topic's name comes after the prefix and a dot; `None` if the topic is not below it.
    #[must_use]
    pub fn rest_of<'topic>(&self, topic: &'topic str) -> Option<&'topic str> {
        topic.strip_prefix(&self.prefix)?.strip_prefix('.').filter(|rest| !rest.is_empty())
    }

    /// Every pattern that a topic is below, as it is written, the longest first.
    pub(super) fn all_above(topic: &str) -> impl Iterator<Item = String> {
        let dots = topic.rmatch_indices('.').map(|(at, _)| at);
        let with_a_rest = dots.filter(|at| at + 1 < topic.len());
        with_a_rest.map(|at| format!("{}{ALL_BELOW}", &topic[..at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_only_at_the_end_below_a_name() {
        for bad in ["*", ".*", "*.*", "a*", "a.b*", "*.a", "a.*.b", "a.*.*", "a..*", ".a.*", "a.**"] {
            assert_eq!(TopicPattern::read(bad), Err(BadTopicPattern), "{bad}");
        }
        for one in ["a", "a.b", "a.", ""] {
            assert_eq!(TopicPattern::read(one), Ok(None), "{one}");
        }
        assert_eq!(TopicPattern::read("a.b.*").unwrap().unwrap().prefix(), "a.b");
    }

    #[test]
    fn the_patterns_above_a_topic_are_those_that_it_has_a_rest_below() {
        for topic in ["a", "a.", "a.b", "a.b.", "a.b.c", "a..b", ".a", ".", "a.*", ""] {
            let above: Vec<String> = TopicPattern::all_above(topic).collect();
            let lengths: Vec<usize> = above.iter().map(String::len).collect();
            assert!(lengths.is_sorted_by(|longer, shorter| longer > shorter), "{above:?}");
            for name in ["a.*", "a.b.*", "a.b.c.*", "b.*"] {
                let pattern = TopicPattern::read(name).unwrap().unwrap();
                let is_above = above.iter().any(|above| above == name);
                assert_eq!(is_above, pattern.rest_of(topic).is_some(), "{name} and {topic}");
            }
        }
    }
}
