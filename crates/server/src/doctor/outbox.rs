//! Messages that do not get out.

use std::time::Duration;

use backstitch::store::outbox::{ALERTS, Waiting};

use super::check::Check;
use super::finding::{Finding, LOOKED_AT};
use super::words::ago;

/// What is known about them.
pub(super) struct Facts {
    /// Topics with messages to send.
    pub(super) topics: Vec<Topic>,
    /// How long ago the oldest message was written that is not out.
    pub(super) oldest: Option<Duration>,
    /// Messages that were given up in the last hour, newest first, by topic.
    pub(super) aborted: Vec<(i64, String)>,
}

/// A topic with messages to send.
pub(super) struct Topic {
    pub(super) waiting: Waiting,
    /// Whether its messages go anywhere from here.
    pub(super) routed: bool,
}

pub(super) fn judge(facts: &Facts, stuck_after: Duration) -> Vec<Finding> {
    let mut found = Vec::new();
    for Topic { waiting: Waiting { topic, late, .. }, routed } in &facts.topics {
        if !routed {
            found.push(Check::Outbox.error(
                Some(topic.clone()),
                "messages of this topic wait and go nowhere from this node: no route is configured for it".to_owned(),
                format!("add `[outbox.topics.\"{topic}\"]` to the configuration and restart, see docs/outbox.md"),
            ));
        } else if *late > stuck_after {
            found.push(Check::Outbox.warning(
                Some(topic.clone()),
                format!("its first message has been due for {} and nobody has sent it", ago(*late)),
                format!(
                    "`GET /v1/outbox?topic={topic}` shows what waits; raise `concurrency` of \
                     `[outbox.topics.\"{topic}\"]`, or see why its receiver is slow"
                ),
            ));
        }
    }
    if let Some(oldest) = facts.oldest.filter(|oldest| *oldest > stuck_after) {
        found.push(Check::Outbox.warning(
            None,
            format!("the oldest message that is not out was written {} ago", ago(oldest)),
            "`GET /v1/outbox?status=failed` and `?status=pending` show what waits and why the last send failed: see to the \
             receivers"
                .to_owned(),
        ));
    }
    found.extend(given_up(&facts.aborted));
    found
}

/// What was given up, a finding for each topic.
fn given_up(aborted: &[(i64, String)]) -> Vec<Finding> {
    let mut topics: Vec<&str> = aborted.iter().map(|(_, topic)| topic.as_str()).collect();
    topics.sort_unstable();
    topics.dedup();
    let finding = |topic: &str| {
        let mut of_topic = aborted.iter().filter(|(_, of)| of == topic);
        let newest = of_topic.next().map_or(0, |(id, _)| *id);
        let count = of_topic.count() + 1;
        let at_least = if aborted.len() >= LOOKED_AT { "at least " } else { "" };
        Check::DeadLetters.warning(
            Some(topic.to_owned()),
            format!("{at_least}{count} messages of this topic were given up in the last hour"),
            format!(
                "`GET /v1/outbox?status=aborted&topic={topic}` shows why; once the receiver works, send them again: POST \
                 /v1/outbox/{newest}/retry"
            ),
        )
    };
    // An alert is never given up; one that says so was changed by hand.
    topics.into_iter().filter(|topic| *topic != ALERTS).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    const LIMIT: Duration = Duration::from_secs(600);

    fn topic(name: &str, late: u64, routed: bool) -> Topic {
        let late = Duration::from_secs(late);
        Topic { waiting: Waiting { topic: name.to_owned(), due_in: Duration::ZERO, late }, routed }
    }

    fn facts() -> Facts {
        Facts { topics: Vec::new(), oldest: None, aborted: Vec::new() }
    }

    #[test]
    fn messages_that_are_on_their_way_are_not_worth_a_word() {
        assert_eq!(judge(&facts(), LIMIT), []);
        let busy = Facts { topics: vec![topic("orders", 600, true)], oldest: Some(LIMIT), ..facts() };
        assert_eq!(judge(&busy, LIMIT), []);
    }

    #[test]
    fn a_topic_without_a_route_is_an_error_at_once() {
        let found = judge(&Facts { topics: vec![topic("orders", 0, false)], ..facts() }, LIMIT);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!((finding.check, finding.severity), (Check::Outbox, Severity::Error));
        assert_eq!(finding.subject.as_deref(), Some("orders"));
        assert!(finding.action.contains("[outbox.topics.\"orders\"]"), "{finding:?}");
    }

    #[test]
    fn a_topic_that_is_late_and_an_old_message_are_warnings() {
        let old = Some(Duration::from_secs(601));
        let found = judge(&Facts { topics: vec![topic("orders", 601, true)], oldest: old, ..facts() }, LIMIT);
        let told: Vec<_> = found.iter().map(|it| (it.severity, it.subject.as_deref())).collect();
        assert_eq!(told, [(Severity::Warning, Some("orders")), (Severity::Warning, None)]);
        assert!(found.iter().all(|it| it.message.contains("10m 1s")), "{found:?}");
    }

    #[test]
    fn messages_that_were_given_up_are_counted_by_topic() {
        let given_up = |topic: &str, id| (id, topic.to_owned());
        let aborted = vec![given_up("orders", 9), given_up("mail", 8), given_up("orders", 7)];
        let found = judge(&Facts { aborted, ..facts() }, LIMIT);
        let told: Vec<_> = found.iter().map(|it| (it.check, it.subject.as_deref())).collect();
        assert_eq!(told, [(Check::DeadLetters, Some("mail")), (Check::DeadLetters, Some("orders"))]);
        assert!(found[1].message.starts_with("2 messages"), "{found:?}");
        assert!(found[1].action.contains("/v1/outbox/9/retry"), "{found:?}");
        let many = (0..).take(LOOKED_AT).map(|id| given_up("orders", id)).collect();
        let found = judge(&Facts { aborted: many, ..facts() }, LIMIT);
        assert!(found[0].message.starts_with("at least 100 messages"), "{found:?}");
    }
}
