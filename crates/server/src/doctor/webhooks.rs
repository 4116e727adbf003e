//! Webhooks that do not arrive.

use std::time::Duration;

use backstitch::{SchemaName, Timestamp};
use backstitch_api::time::rfc3339;
use backstitch_modules::webhooks::{Backlog, COUNTED, Growth, Pause};

use super::check::Check;
use super::finding::Finding;
use super::words::ago;

/// What is known about them.
pub(super) struct Facts {
    pub(super) now: Timestamp,
    /// How many were given up in the last hour and in the hour before, by subscription.
    pub(super) growth: Vec<Growth>,
    /// How many that were given up nobody has requeued.
    pub(super) unrequeued: u64,
    /// Subscriptions that are disabled while deliveries wait for them.
    pub(super) backlogs: Vec<Backlog>,
    /// How long the delivery has been due that has waited longest.
    pub(super) oldest: Option<Duration>,
    /// The subscription that it waits for, where that is paused.
    pub(super) paused: Option<(i64, Pause)>,
    /// Whether this server can send any.
    pub(super) sends: bool,
    /// Database roles of the parts that our user may not take.
    pub(super) missing_roles: Vec<String>,
    /// The schema of the database that the server works in.
    pub(super) schema: SchemaName,
}

pub(super) fn judge(facts: &Facts, stuck_after: Duration) -> Vec<Finding> {
    // Once all of them were sent again there is nothing left to do about them.
    let left = facts.unrequeued > 0;
    let grows = facts.growth.iter().filter(|growth| left && growth.lately > growth.before);
    let mut found: Vec<Finding> = grows.map(|growth| grown(growth, facts.unrequeued)).collect();
    found.extend(facts.backlogs.iter().map(|backlog| disabled(backlog, facts.now)));
    found.extend(facts.oldest.filter(|oldest| *oldest > stuck_after).map(|oldest| late(oldest, facts)));
    if !facts.missing_roles.is_empty() {
        found.push(unseparated(&facts.missing_roles, &facts.schema));
    }
    found
}

fn unseparated(roles: &[String], schema: &SchemaName) -> Finding {
    let create: Vec<String> = roles.iter().map(|role| format!("create role {role} nologin;")).collect();
    Check::Webhooks.warning(
        Some("database roles".to_owned()),
        format!(
            "the database user may not take the roles {}: these parts of webhooks run with all rights of that user",
            roles.join(", ")
        ),
        format!(
            "as a superuser, create those that are missing ({}), grant them to the user (`grant {} to USER`), call \
             `select {schema}.grant_webhook_roles()` as the owner of the tables, and restart",
            create.join(" "),
            roles.join(", ")
        ),
    )
}

fn grown(growth: &Growth, unrequeued: u64) -> Finding {
    let Growth { subscription_id: id, lately, before } = growth;
    let all = if unrequeued >= COUNTED { format!("{unrequeued} or more") } else { unrequeued.to_string() };
    Check::DeadLetters.warning(
        Some(format!("subscription {id}")),
        format!(
            "{lately} webhooks to it were given up in the last hour, after {before} in the hour before; {all} of all \
             subscriptions are not requeued"
        ),
        format!(
            "`GET /v1/webhooks/dead-letters?subscription_id={id}` shows why; once the endpoint works, send them again: \
             `backstitch dead-letters requeue ID`, or all of them with POST /v1/webhooks/dead-letters/requeue"
        ),
    )
}

fn disabled(backlog: &Backlog, now: Timestamp) -> Finding {
    let Backlog { subscription_id: id, disabled_at, reason, waiting } = backlog;
    let many = if *waiting >= 1_000 { " or more" } else { "" };
    Check::Webhooks.error(
        Some(format!("subscription {id}")),
        format!(
            "it has been disabled for {} ({reason}) and {waiting}{many} deliveries wait for it",
            ago(now.since(*disabled_at))
        ),
        format!(
            "enable it: PATCH /v1/webhooks/subscriptions/{id} with {{\"enabled\": true}}; or give up what waits: DELETE \
             /v1/webhooks/subscriptions/{id}"
        ),
    )
}

fn late(oldest: Duration, facts: &Facts) -> Finding {
    let message = format!("a webhook has been due for {} and has not arrived", ago(oldest));
    if let Some((id, Pause { until, reason })) = &facts.paused {
        return Check::Webhooks.warning(
            None,
            format!("{message}; paused: subscription {id} until {} ({reason})", rfc3339(*until)),
            format!(
                "see to the endpoint of subscription {id}; it is tried again when the pause ends, or at once after a change of \
                 the subscription; `GET /v1/webhooks/deliveries?status=InProgress` shows what else waits"
            ),
        );
    }
    if facts.sends {
        return Check::Webhooks.warning(
            None,
            message,
            "`GET /v1/webhooks/deliveries?status=PendingRetry` and `?status=InProgress` show whose they are: see to that \
             endpoint, or raise webhooks.concurrency"
                .to_owned(),
        );
    }
    Check::Webhooks.error(
        None,
        message,
        "this server sends none: set `secret`, which signing secrets are encrypted with, and webhooks.concurrency above 0, \
         or run a worker for the queue `webhooks`"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    const LIMIT: Duration = Duration::from_secs(600);

    fn facts() -> Facts {
        Facts {
            now: Timestamp::from_micros(60_000_000),
            growth: Vec::new(),
            unrequeued: 0,
            backlogs: Vec::new(),
            oldest: None,
            paused: None,
            sends: true,
            missing_roles: Vec::new(),
            schema: SchemaName::default(),
        }
    }

    #[test]
    fn missing_roles_are_a_warning_that_names_them() {
        let roles = ["backstitch_ingest", "backstitch_worker"].map(str::to_owned).to_vec();
        let found = judge(&Facts { missing_roles: roles, ..facts() }, LIMIT);
        assert_eq!((found[0].check, found[0].severity), (Check::Webhooks, Severity::Warning));
        assert!(found[0].message.contains("backstitch_ingest, backstitch_worker"), "{found:?}");
        assert!(found[0].action.contains("backstitch.grant_webhook_roles()"), "{found:?}");
    }

    fn growth(lately: u64, before: u64) -> Growth {
        Growth { subscription_id: 4, lately, before }
    }

    #[test]
    fn webhooks_that_arrive_are_not_worth_a_word() {
        assert_eq!(judge(&facts(), LIMIT), []);
        assert_eq!(judge(&Facts { oldest: Some(LIMIT), sends: false, ..facts() }, LIMIT), []);
    }

    #[test]
    fn only_what_grows_is_told() {
        for (lately, before, grows) in
            [(0, 0, false), (3, 3, false), (2, 9, false), (1, 0, true), (4, 3, true)]
        {
            let growth = vec![growth(lately, before)];
            let found = judge(&Facts { growth: growth.clone(), unrequeued: 1, ..facts() }, LIMIT);
            assert_eq!(found.len(), usize::from(grows), "{lately} after {before}");
            let sent_again = Facts { growth, unrequeued: 0, ..facts() };
            assert_eq!(judge(&sent_again, LIMIT), [], "all were sent again");
        }
        let found = judge(&Facts { growth: vec![growth(4, 3)], unrequeued: 10_000, ..facts() }, LIMIT);
        assert_eq!((found[0].check, found[0].severity), (Check::DeadLetters, Severity::Warning));
        assert_eq!(found[0].subject.as_deref(), Some("subscription 4"));
        assert!(found[0].message.contains("4 webhooks") && found[0].message.contains("10000 or more"));
    }

    #[test]
    fn a_disabled_subscription_with_a_backlog_is_an_error() {
        let backlog = |waiting| Backlog {
            subscription_id: 4,
            disabled_at: Timestamp::from_micros(0),
            reason: "the endpoint answered 410 Gone".to_owned(),
            waiting,
        };
        let found = judge(&Facts { backlogs: vec![backlog(3), backlog(1_000)], ..facts() }, LIMIT);
        assert_eq!((found[0].check, found[0].severity), (Check::Webhooks, Severity::Error));
        assert!(found[0].message.contains("for 1m (the endpoint answered 410 Gone) and 3 deliveries"));
        assert!(found[1].message.contains("1000 or more deliveries"), "{found:?}");
    }

    #[test]
    fn late_webhook_of_paused_subscription_names_the_pause() {
        let reason = "circuit breaker open after 10 failures in a row".to_owned();
        let pause = Pause { until: Timestamp::from_micros(90_000_000), reason };
        let paused = Facts { paused: Some((4, pause)), ..facts() };
        assert_eq!(judge(&paused, LIMIT), [], "a pause alone is no finding");
        let found = judge(&Facts { oldest: Some(Duration::from_secs(601)), ..paused }, LIMIT);
        assert_eq!((found.len(), found[0].check, found[0].severity), (1, Check::Webhooks, Severity::Warning));
        let named = "paused: subscription 4 until 1970-01-01T00:01:30.000000Z (circuit breaker open after 10 failures in a row)";
        assert!(found[0].message.ends_with(named), "{found:?}");
    }

    #[test]
    fn a_late_webhook_is_a_warning_and_an_error_where_nothing_is_sent() {
        for (sends, severity) in [(true, Severity::Warning), (false, Severity::Error)] {
            let late = Some(Duration::from_secs(601));
            let found = judge(&Facts { oldest: late, sends, ..facts() }, LIMIT);
            assert_eq!((found[0].check, found[0].severity), (Check::Webhooks, severity));
        }
    }
}
