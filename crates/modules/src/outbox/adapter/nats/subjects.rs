//! What messages are published to.

use std::borrow::Cow;

use backstitch::outbox::TopicPattern;
use backstitch::sink::Undelivered;
use backstitch_api::validate::quoted;

use crate::outgoing::nats::{belongs_to_the_broker, has_good_tokens};

/// The subjects of the topics that share a setting.
pub(super) struct Subjects {
    base: String,
    /// The topics whose own parts are added to the base.
    pattern: Option<TopicPattern>,
}

impl Subjects {
    /// By the setting `subject`; or what is wrong with it. Where it is left out, the topics of a pattern are subjects
    /// themselves.
    pub(super) fn new(written: Option<&str>, pattern: Option<&TopicPattern>) -> Result<Self, String> {
        let base = written
            .or_else(|| pattern.map(TopicPattern::prefix))
            .ok_or("subject is missing: only settings of several topics, like `sites.*`, may leave it out")?;
        match unfit(base) {
            Some(why) => Err(format!("subject: {why}")),
            None => Ok(Self { base: base.to_owned(), pattern: pattern.cloned() }),
        }
    }

    /// The subject of a topic. Whoever publishes names the topic, and not every name can be a part of a subject.
    pub(super) fn of(&self, topic: &str) -> Result<Cow<'_, str>, Undelivered> {
        let Some(rest) = self.pattern.as_ref().and_then(|pattern| pattern.rest_of(topic)) else {
            return Ok(Cow::Borrowed(&self.base));
        };
        let subject = format!("{}.{rest}", self.base);
        match unfit(&subject) {
            Some(why) => Err(Undelivered::new("bad_subject", why)),
            None => Ok(Cow::Owned(subject)),
        }
    }
}

fn unfit(subject: &str) -> Option<String> {
    if !has_good_tokens(subject) || subject.contains(['*', '>']) {
        let subject = quoted(subject);
        return Some(format!(
            "`{subject}` is no subject to publish to: write it like orders.placed, without * and >"
        ));
    }
    belongs_to_the_broker(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(written: Option<&str>, name: &str) -> Result<Subjects, String> {
        Subjects::new(written, TopicPattern::read(name).unwrap().as_ref())
    }

    #[test]
    fn what_a_pattern_leaves_of_a_topic_is_added_to_the_subject() {
        for (written, name, topic, subject) in [
            (Some("placed"), "orders", "orders", "placed"),
            (Some("sites"), "sites.provisioning.*", "sites.provisioning.live", "sites.live"),
            (Some("all.sites"), "sites.*", "sites.provisioning.live", "all.sites.provisioning.live"),
            (None, "sites.*", "sites.provisioning.live", "sites.provisioning.live"),
        ] {
            assert_eq!(subjects(written, name).unwrap().of(topic).unwrap(), subject);
        }
    }

    #[test]
    fn a_topic_that_makes_no_subject_is_not_published() {
        let sites = subjects(Some("sites"), "sites.*").unwrap();
        for topic in ["sites.a b", "sites.a\r\nPUB x 0", "sites.>", "sites.*", "sites.a..b", "sites.a."] {
            assert_eq!(sites.of(topic).unwrap_err().code, "bad_subject", "{topic:?}");
        }
    }

    #[test]
    fn a_subject_may_be_left_out_only_where_the_topics_can_be_subjects_themselves() {
        for (written, name, complaint) in [
            (None, "orders", "subject is missing"),
            (None, "$sites.*", "begin with $"),
            (None, "si>tes.*", "no subject to publish to"),
            (Some("sites.*"), "sites.*", "no subject to publish to"),
        ] {
            let refused = subjects(written, name).err().unwrap();
            assert!(refused.contains(complaint), "{refused}");
        }
    }
}
