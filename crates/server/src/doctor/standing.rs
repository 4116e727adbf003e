//! Sagas that do not get on, and rollbacks that wait for a person.

use std::time::Duration;

use backstitch::store::nodes::Known;
use backstitch::{FullLimit, LimitScope, SagaId, StalledSaga, Summary, Timestamp};

use super::check::Check;
use super::finding::Finding;
use super::words::ago;

/// What is known about them.
pub(super) struct Facts {
    pub(super) now: Timestamp,
    /// Those that have been active for too long with nothing due.
    pub(super) stuck: Vec<Summary>,
    /// Those that this node has and cannot drive.
    pub(super) stalled: Vec<StalledSaga>,
    /// Hosts and steps for whose room attempts have waited for too long on this node.
    pub(super) full: Vec<FullLimit>,
    /// The definitions that this node has. What waits for another one is a finding of its own.
    pub(super) runnable: Vec<Known>,
    /// Whether other nodes may have more.
    pub(super) shared: bool,
    /// Those whose rollback failed.
    pub(super) failed: Vec<FailedRollback>,
}

/// A rollback that could not be finished.
pub(super) struct FailedRollback {
    pub(super) saga: SagaId,
    pub(super) definition: String,
    /// When it failed.
    pub(super) at: Timestamp,
    /// The steps that could not be undone, each with its reason.
    pub(super) steps: Vec<(String, Option<String>)>,
}

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let moves = |saga: &&Summary| saga.owner.is_some() || saga.wake_at.is_some();
    // Another node may have what this one lacks, and run it: then it is here that it is told.
    let runs = |saga: &&Summary| {
        let is_of = |known: &Known| *known.name == *saga.definition && known.version == saga.version;
        facts.runnable.iter().any(is_of) || (facts.shared && saga.owner.is_some())
    };
    // What cannot be driven is told with its reason.
    let driven = |saga: &&Summary| facts.stalled.iter().all(|stalled| stalled.saga != saga.id);
    let stuck = facts.stuck.iter().filter(moves).filter(runs).filter(driven);
    let stuck = stuck.map(|saga| slow(saga, facts.now.since(saga.updated_at)));
    let failed = facts.failed.iter().map(|failed| waits_for_a_person(failed, facts.now.since(failed.at)));
    let stalled = facts.stalled.iter().map(|it| undrivable(it, facts.now.since(it.since)));
    let full = facts.full.iter().map(|it| blocked(it, facts.now.since(it.since)));
    stalled.chain(full).chain(stuck).chain(failed).collect()
}

fn blocked(full: &FullLimit, since: Duration) -> Finding {
    let (scope, waiting) = (&full.scope, full.waiting);
    if *scope == LimitScope::Slots {
        return no_slot(full, since);
    }
    let attempts = if waiting == 1 { "1 attempt waits" } else { &format!("{waiting} attempts wait") };
    let action = match scope {
        LimitScope::Host(_) => {
            "see whether the host answers, and how fast: every call to it that hangs keeps its place until the step's \
             timeout; shorter timeouts, a faster host or a higher `calls.per_host` let more through"
        }
        LimitScope::Step { .. } | LimitScope::Slots => {
            "see whether the step's service answers, or raise the step's `concurrency`"
        }
    };
    Check::StuckSagas.warning(
        Some(scope.to_string()),
        format!("{attempts} for room at {scope}, the first one for {}", ago(since)),
        action.to_owned(),
    )
}

/// Names what holds the slots: what waits for one has room where it goes.
fn no_slot(full: &FullLimit, since: Duration) -> Finding {
    let (waiting, since) = (full.waiting, ago(since));
    let sagas = if waiting == 1 { "1 saga waits" } else { &format!("{waiting} sagas wait") };
    let (subject, holder, action) = match &full.held_by {
        Some(held_by) => (
            held_by.to_string(),
            format!("calls or attempts of {held_by} hold most of them"),
            format!(
                "see whether {held_by} answers, and how fast: each attempt that hangs keeps its slot until the step's timeout; \
                 shorter timeouts or a higher `sagas.max_active` let more through"
            ),
        ),
        None => (
            full.scope.to_string(),
            "attempts of steps without a `concurrency` hold most of them".to_owned(),
            "raise `sagas.max_active`, add a node, or give slow steps shorter timeouts or a `concurrency`"
                .to_owned(),
        ),
    };
    Check::StuckSagas.warning(
        Some(subject),
        format!("{sagas} for a slot of `sagas.max_active`, the first one for {since}: {holder}"),
        action,
    )
}

fn undrivable(stalled: &StalledSaga, since: Duration) -> Finding {
    let StalledSaga { saga, why, .. } = stalled;
    Check::StuckSagas.error(
        Some(saga.to_string()),
        format!("this node owns the saga and has not been able to drive it for {}: {why}", ago(since)),
        format!(
            "it is tried again every few seconds, and nothing of it is lost: where its definition is missing or another one, start \
             the program that has it; where its rows cannot be read, restore a backup; otherwise the server's log says more. \
             `backstitch show {saga}` (GET /v1/sagas/{saga}) is good again once it can be read"
        ),
    )
}

fn slow(saga: &Summary, since: Duration) -> Finding {
    let (id, definition, status) = (saga.id, &saga.definition, saga.status.as_str());
    Check::StuckSagas.warning(
        Some(id.to_string()),
        format!("the saga of `{definition}` has been {status} for {} with nothing due", ago(since)),
        format!(
            "`backstitch show {id}` (GET /v1/sagas/{id}) tells what it waits for: where that is room, raise sagas.max_active or \
             the step's own limit, or add a node; `backstitch cancel {id}` rolls it back"
        ),
    )
}

fn waits_for_a_person(failed: &FailedRollback, since: Duration) -> Finding {
    let FailedRollback { saga, definition, steps, .. } = failed;
    let named: Vec<String> = steps
        .iter()
        .map(|(step, why)| match why {
            Some(why) => format!("`{step}` ({why})"),
            None => format!("`{step}`"),
        })
        .collect();
    let which = if named.is_empty() { "a step".to_owned() } else { named.join(", ") };
    let step = steps.first().map_or("STEP", |(step, _)| step);
    Check::FailedRollbacks.warning(
        Some(saga.to_string()),
        format!("{which} of the saga of `{definition}` could not be undone; it has waited for {}", ago(since)),
        format!(
            "see to the service and run `backstitch resolve {saga} {step} retry --note …`; with `done` where it was undone \
             by hand, with `skip` where it is to stay as it is (POST /v1/sagas/{saga}/steps/{step}/resolve)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use backstitch::Status;

    use super::*;
    use crate::doctor::finding::Severity;

    fn saga(number: u128, owner: Option<i64>, wake_at: Option<i64>) -> Summary {
        Summary {
            id: SagaId(uuid::Uuid::from_u128(number)),
            definition: "deploy".into(),
            version: 1,
            status: Status::Compensating,
            paused: false,
            failed_step: None,
            stuck: None,
            owner,
            wake_at: wake_at.map(Timestamp::from_micros),
            correlation_id: None,
            created_at: Timestamp::from_micros(0),
            updated_at: Timestamp::from_micros(0),
        }
    }

    fn facts() -> Facts {
        Facts {
            now: Timestamp::from_micros(720_000_000),
            stuck: Vec::new(),
            stalled: Vec::new(),
            full: Vec::new(),
            runnable: vec![Known { name: "deploy".into(), version: 1 }],
            shared: false,
            failed: Vec::new(),
        }
    }

    #[test]
    fn a_saga_that_does_not_get_on_is_told_with_what_it_does_and_for_how_long() {
        let found = judge(&Facts { stuck: vec![saga(1, Some(3), None), saga(2, None, Some(1))], ..facts() });
        let [first, second] = &found[..] else { panic!("{found:?}") };
        assert_eq!((first.check, first.severity), (Check::StuckSagas, Severity::Warning));
        assert!(first.message.contains("has been compensating for 12m"), "{first:?}");
        assert!(second.action.contains(&format!("backstitch cancel {}", saga(2, None, None).id)));
    }

    #[test]
    fn finding_names_the_full_host_and_how_many_wait() {
        let scope = LimitScope::Host("payment:80".into());
        let since = Timestamp::from_micros(60_000_000);
        let full = FullLimit { scope, waiting: 300, since, held_by: None };
        let found = judge(&Facts { full: vec![full], ..facts() });
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.check, only.severity), (Check::StuckSagas, Severity::Warning));
        assert_eq!(only.subject.as_deref(), Some("host `payment:80`"));
        assert_eq!(only.message, "300 attempts wait for room at host `payment:80`, the first one for 11m");
    }

    #[test]
    fn finding_names_what_holds_the_slots() {
        let held_by = Some(LimitScope::Host("hung:80".into()));
        for (held_by, subject) in [(held_by, "host `hung:80`"), (None, "run slots")] {
            let since = Timestamp::from_micros(60_000_000);
            let full = FullLimit { scope: LimitScope::Slots, waiting: 1, since, held_by };
            let found = judge(&Facts { full: vec![full], ..facts() });
            let [only] = &found[..] else { panic!("{found:?}") };
            assert_eq!(only.subject.as_deref(), Some(subject));
            assert!(only.message.starts_with("1 saga waits for a slot of `sagas.max_active`"), "{only:?}");
        }
    }

    #[test]
    fn a_saga_that_this_node_has_and_cannot_drive_is_an_error_told_once_with_its_reason() {
        let ill = saga(1, Some(3), None);
        let since = Timestamp::from_micros(60_000_000);
        let stalled = StalledSaga { saga: ill.id, why: "its log is torn".to_owned(), since };
        let found = judge(&Facts { stuck: vec![ill.clone()], stalled: vec![stalled], ..facts() });
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.check, only.severity), (Check::StuckSagas, Severity::Error));
        assert_eq!(only.subject, Some(ill.id.to_string()));
        assert!(only.message.ends_with("for 11m: its log is torn"), "{only:?}");
    }

    #[test]
    fn what_another_check_tells_is_not_told_twice() {
        for (owner, wake_at, shared, told) in
            [(Some(3), None, false, 0), (None, Some(1), true, 0), (Some(3), None, true, 1)]
        {
            let (stuck, runnable) = (vec![saga(1, owner, wake_at)], Vec::new());
            let of_another_definition = Facts { stuck, runnable, shared, ..facts() };
            assert_eq!(judge(&of_another_definition).len(), told, "{owner:?} {wake_at:?} {shared}");
        }
        assert_eq!(judge(&Facts { stuck: vec![saga(1, None, None)], ..facts() }), [], "it is unattended");
        assert_eq!(judge(&facts()), []);
    }

    #[test]
    fn a_failed_rollback_is_told_with_its_steps_and_the_command() {
        let failed = |steps: &[(&str, Option<&str>)]| FailedRollback {
            saga: SagaId(uuid::Uuid::from_u128(5)),
            definition: "deploy".to_owned(),
            at: Timestamp::from_micros(0),
            steps: steps.iter().map(|(step, why)| ((*step).to_owned(), why.map(str::to_owned))).collect(),
        };
        let several = failed(&[("charge", Some("the bank is closed")), ("reserve", None)]);
        let found = judge(&Facts { failed: vec![several, failed(&[])], ..facts() });
        let [first, second] = &found[..] else { panic!("{found:?}") };
        assert_eq!((first.check, first.severity), (Check::FailedRollbacks, Severity::Warning));
        assert!(first.message.starts_with("`charge` (the bank is closed), `reserve` of"), "{first:?}");
        assert!(first.action.contains(" charge retry --note"), "{first:?}");
        assert!(second.message.starts_with("a step of") && second.action.contains(" STEP retry"));
    }
}
