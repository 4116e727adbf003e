//! Lifecycles that do not get on, and requests that nobody understood.

use std::time::Duration;

use backstitch::Timestamp;

use super::check::Check;
use super::finding::Finding;
use super::words::ago;

/// What is known about them.
pub(super) struct Facts {
    pub(super) now: Timestamp,
    /// Those that have been in their state for longer than their machine allows.
    pub(super) stuck: Vec<Course>,
    /// Those whose action somebody should have looked after long ago.
    pub(super) overdue: Vec<Course>,
    /// Whether this server performs actions.
    pub(super) drives: bool,
    /// When the newest requests came that nobody understood.
    pub(super) dead_letters: Vec<Timestamp>,
}

/// One of them.
pub(super) struct Course {
    pub(super) machine: String,
    pub(super) key: String,
    pub(super) state: String,
    /// Since when it has been as it is found.
    pub(super) since: Timestamp,
    /// Whether somebody looks after it now, or will.
    pub(super) is_due: bool,
    /// Who performs its action, or did.
    pub(super) holder: Option<String>,
}

/// How far back dead letters are compared.
const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let stuck = facts.stuck.iter().map(|course| stuck(course, facts.now));
    let overdue = facts.overdue.iter().map(|course| overdue(course, facts.now, facts.drives));
    stuck.chain(overdue).chain(grown(&facts.dead_letters, facts.now)).collect()
}

fn stuck(course: &Course, now: Timestamp) -> Finding {
    let Course { machine, key, state, since, is_due, .. } = course;
    let address = format!("/v1/lifecycles/{machine}/{key}");
    let subject = Some(format!("{machine}/{key}"));
    let message =
        format!("for {} it has been in `{state}` longer than its machine allows", ago(now.since(*since)));
    let action = format!(
        "`GET {address}/log` tells what it waits for; lead it on with POST {address}/transition, or end it with POST \
         {address}/fail, in a pause state with POST {address}/abandon"
    );
    if *is_due {
        Check::Lifecycles.warning(subject, message, action)
    } else {
        Check::Lifecycles.error(subject, message, action)
    }
}

fn overdue(course: &Course, now: Timestamp, drives: bool) -> Finding {
    let Course { machine, key, state, since, holder, .. } = course;
    let (subject, since) = (Some(format!("{machine}/{key}")), ago(now.since(*since)));
    let message = match holder {
        Some(holder) => format!(
            "{holder} took the action of `{state}` upon itself and its time was over {since} ago: nobody has taken it over"
        ),
        None => format!(
            "the action of `{state}`, or the end of its pause, has been due for {since} and nobody performs it"
        ),
    };
    if drives {
        let action = "raise lifecycle.concurrency or add a node: this one performs as many actions as it may; the \
                      server's log says if something else keeps it";
        Check::Lifecycles.warning(subject, message, action.to_owned())
    } else {
        let action = "this node performs none: set lifecycle.concurrency above 0, here or on another node";
        Check::Lifecycles.error(subject, message, action.to_owned())
    }
}

fn grown(dead_letters: &[Timestamp], now: Timestamp) -> Option<Finding> {
    let age = |at: &Timestamp| now.since(*at);
    let lately = dead_letters.iter().filter(|at| age(at) < HOUR).count();
    let before = dead_letters.iter().filter(|at| (HOUR..2 * HOUR).contains(&age(at))).count();
    (lately > before).then(|| {
        Check::DeadLetters.warning(
            Some("requests for lifecycles".to_owned()),
            format!(
                "{lately} requests that nobody understood came in the last hour, after {before} in the hour before"
            ),
            "`GET /v1/lifecycle-dead-letters` shows them and what is wrong with each: correct whoever sends them"
                .to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn now() -> Timestamp {
        Timestamp::from_micros(10 * 3_600_000_000)
    }

    fn ago_by(seconds: i64) -> Timestamp {
        Timestamp::from_micros(now().as_micros() - seconds * 1_000_000)
    }

    fn facts() -> Facts {
        Facts { now: now(), stuck: Vec::new(), overdue: Vec::new(), drives: true, dead_letters: Vec::new() }
    }

    fn course(is_due: bool, holder: Option<&str>) -> Course {
        Course {
            machine: "sites".to_owned(),
            key: "s-1".to_owned(),
            state: "building".to_owned(),
            since: ago_by(90),
            is_due,
            holder: holder.map(str::to_owned),
        }
    }

    #[test]
    fn what_waits_for_nobody_is_an_error_and_what_is_looked_after_a_warning() {
        for (is_due, severity) in [(false, Severity::Error), (true, Severity::Warning)] {
            let found = judge(&Facts { stuck: vec![course(is_due, None)], ..facts() });
            assert_eq!((found[0].check, found[0].severity), (Check::Lifecycles, severity));
            assert_eq!(found[0].subject.as_deref(), Some("sites/s-1"));
            assert!(
                found[0].message.starts_with("for 1m 30s") && found[0].action.contains("/sites/s-1/fail")
            );
        }
    }

    #[test]
    fn an_action_that_nobody_performs_is_an_error_where_this_node_performs_none() {
        for (drives, severity) in [(true, Severity::Warning), (false, Severity::Error)] {
            let overdue = vec![course(true, None), course(true, Some("n-1"))];
            let found = judge(&Facts { overdue, drives, ..facts() });
            assert!(found.iter().all(|it| it.check == Check::Lifecycles && it.severity == severity));
            assert!(found[0].message.contains("nobody performs it"), "{found:?}");
            assert!(found[1].message.starts_with("n-1 took"), "{found:?}");
            assert!(found[0].action.contains("lifecycle.concurrency"), "{found:?}");
        }
    }

    #[test]
    fn requests_that_nobody_understood_are_told_while_they_grow() {
        let at = |seconds: &[i64]| seconds.iter().map(|seconds| ago_by(*seconds)).collect();
        for (letters, grows) in [
            (at(&[]), false),
            (at(&[10]), true),
            (at(&[10, 3601]), false),
            (at(&[10, 20, 3601]), true),
            (at(&[3601, 7300]), false),
        ] {
            let found = judge(&Facts { dead_letters: letters, ..facts() });
            assert_eq!(found.len(), usize::from(grows), "{found:?}");
            assert!(found.iter().all(|it| it.check == Check::DeadLetters));
        }
    }
}
