//! Sagas that nobody looks after, by what owns them and what they are of.

use std::time::Duration;

use backstitch::Summary;
use backstitch::store::diagnostics::{Owner, Waiting};
use backstitch::store::nodes::{Epoch, Known};

use super::check::Check;
use super::finding::Finding;
use super::words::ago;

/// What is known about them.
pub(super) struct Facts {
    /// Those that nothing will ever move.
    pub(super) adrift: Vec<Summary>,
    /// Those whose owner is gone.
    pub(super) left: Vec<Left>,
    /// Those that are nobody's, by definition.
    pub(super) waiting: Vec<Waiting>,
    /// The definitions that this node has.
    pub(super) runnable: Vec<Known>,
    /// Whether other nodes may have more.
    pub(super) shared: bool,
    /// Sagas that this node runs at once.
    pub(super) max_active: usize,
}

/// Sagas of a definition that a life of a process left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) owner: Owner,
    /// For how long it is known to be gone.
    pub(super) late: Duration,
}

/// What tells one such thing from another.
pub(super) type LeftKey = (String, u32, Epoch);

impl Left {
    pub(super) fn key(owner: &Owner) -> LeftKey {
        (owner.definition.clone(), owner.version, owner.epoch)
    }
}

pub(super) fn judge(facts: &Facts, unclaimed_after: Duration) -> Vec<Finding> {
    let mut found: Vec<Finding> = facts.adrift.iter().map(adrift).collect();
    found.extend(unclaimed(facts, unclaimed_after));
    found.extend(left_behind(facts, unclaimed_after));
    found.extend(definitions(facts, unclaimed_after));
    found
}

fn adrift(saga: &Summary) -> Finding {
    let (id, status, definition) = (saga.id, saga.status, &saga.definition);
    Check::UnattendedSagas.error(
        Some(id.to_string()),
        format!(
            "the saga of `{definition}` is {} and has neither an owner nor a due time nor a job, and is not paused: \
             nothing will ever move it",
            status.as_str()
        ),
        format!(
            "wake it: `backstitch pause {id}`, then `backstitch resume {id}` (POST /v1/sagas/{id}/pause and /resume); or \
             roll it back: `backstitch cancel {id}`. No program of ours leaves one so: look for whoever changed its row"
        ),
    )
}

/// What this node could run is due for long, and nobody takes it.
fn unclaimed(facts: &Facts, unclaimed_after: Duration) -> impl Iterator<Item = Finding> {
    let late = facts.waiting.iter().filter(move |waiting| waiting.late > unclaimed_after);
    late.filter(|waiting| facts.has(&waiting.definition, waiting.version)).map(|waiting| {
        Check::UnattendedSagas.warning(
            Some(named(&waiting.definition, waiting.version)),
            format!("its sagas have been due for {} and no node has taken them up", ago(waiting.late)),
            format!(
                "GET /v1/health tells how many are under way here: where that is sagas.max_active ({}), raise it or add a \
                 node; otherwise the server's log says what keeps it from taking sagas over",
                facts.max_active
            ),
        )
    })
}

/// What this node could run belongs to a process that is gone.
fn left_behind(facts: &Facts, unclaimed_after: Duration) -> impl Iterator<Item = Finding> {
    let late = facts.left.iter().filter(move |left| left.late > unclaimed_after);
    late.filter(|left| facts.has(&left.owner.definition, left.owner.version)).map(|left| {
        let Owner { definition, version, epoch, heard } = &left.owner;
        let node = heard.as_ref().map_or_else(|| format!("life {epoch}"), |heard| heard.node.clone());
        Check::Nodes.warning(
            Some(node.clone()),
            format!(
                "{node} has been gone for {} and still owns sagas of {}",
                ago(left.late),
                named(definition, *version)
            ),
            "the server's log says what keeps this node from taking them over; restart the node if it hangs, or add one"
                .to_owned(),
        )
    })
}

/// What no node seems to have.
fn definitions(facts: &Facts, unclaimed_after: Duration) -> Vec<Finding> {
    let waiting = facts.waiting.iter().map(|it| (it.definition.as_str(), it.version, it.late));
    let left = facts.left.iter().map(|it| (it.owner.definition.as_str(), it.owner.version, it.late));
    let mut lacking: Vec<(&str, u32, Duration)> =
        waiting.chain(left).filter(|(name, version, _)| !facts.has(name, *version)).collect();
    // Each once, with its longest wait.
    lacking.sort_unstable_by(|a, b| (a.0, a.1, b.2).cmp(&(b.0, b.1, a.2)));
    lacking.dedup_by_key(|(name, version, _)| (*name, *version));
    // Where others may have it they take it up in time; where there are no others, nobody will.
    let is_lost = |late: Duration| !facts.shared || late > unclaimed_after;
    let lost = lacking.into_iter().filter(|(.., late)| is_lost(*late));
    lost.map(|(name, version, late)| {
        let why = if facts.shared {
            format!("this node does not have it, and no other has taken up its sagas for {}", ago(late))
        } else {
            "there are live sagas of it, and this node, the only one, does not have it".to_owned()
        };
        Check::Definitions.error(
            Some(named(name, version)),
            why,
            format!(
                "start a node of the program that has version {version} of `{name}`, or register it in this one; GET \
                 /v1/health counts the sagas that wait for it"
            ),
        )
    })
    .collect()
}

impl Facts {
    fn has(&self, definition: &str, version: u32) -> bool {
        self.runnable.iter().any(|known| *known.name == *definition && known.version == version)
    }
}

fn named(definition: &str, version: u32) -> String {
    format!("{definition} v{version}")
}

#[cfg(test)]
mod tests {
    use backstitch::kernel::SagaId;
    use backstitch::store::diagnostics::Heard;
    use backstitch::{Status, Timestamp};

    use super::*;
    use crate::doctor::finding::Severity;

    const LIMIT: Duration = Duration::from_secs(60);
    const LONG: Duration = Duration::from_secs(61);

    fn facts(shared: bool) -> Facts {
        Facts {
            adrift: Vec::new(),
            left: Vec::new(),
            waiting: Vec::new(),
            runnable: vec![Known { name: "deploy".into(), version: 2 }],
            shared,
            max_active: 7,
        }
    }

    fn waiting(definition: &str, version: u32, late: Duration) -> Waiting {
        Waiting { definition: definition.to_owned(), version, late }
    }

    fn left(definition: &str, version: u32, late: Duration) -> Left {
        let heard = Some(Heard { node: "n-1".to_owned(), late });
        Left { owner: Owner { definition: definition.to_owned(), version, epoch: 3, heard }, late }
    }

    fn summary() -> Summary {
        let at = Timestamp::from_micros(0);
        Summary {
            id: SagaId(uuid::Uuid::from_u128(7)),
            definition: "deploy".into(),
            version: 2,
            status: Status::Running,
            paused: false,
            failed_step: None,
            stuck: None,
            owner: None,
            wake_at: None,
            correlation_id: None,
            created_at: at,
            updated_at: at,
        }
    }

    fn told(facts: &Facts) -> Vec<(Check, Severity, String)> {
        let found = judge(facts, LIMIT);
        assert!(found.iter().all(|it| !it.message.is_empty() && !it.action.is_empty()));
        found.into_iter().map(|it| (it.check, it.severity, it.subject.unwrap_or_default())).collect()
    }

    #[test]
    fn nothing_is_said_about_sagas_that_are_looked_after_or_have_just_come_due() {
        for shared in [true, false] {
            let well = Facts {
                waiting: vec![waiting("deploy", 2, LIMIT), waiting("deploy", 2, Duration::ZERO)],
                left: vec![left("deploy", 2, LIMIT)],
                ..facts(shared)
            };
            assert_eq!(told(&well), []);
        }
    }

    #[test]
    fn a_saga_that_nothing_will_move_is_an_error() {
        let ill = Facts { adrift: vec![summary()], ..facts(true) };
        let id = summary().id.to_string();
        assert_eq!(told(&ill), [(Check::UnattendedSagas, Severity::Error, id.clone())]);
        assert!(judge(&ill, LIMIT)[0].action.contains(&format!("backstitch resume {id}")));
    }

    #[test]
    fn what_lies_for_long_though_this_node_could_run_it_is_a_warning() {
        let ill = Facts {
            waiting: vec![waiting("deploy", 2, LONG)],
            left: vec![left("deploy", 2, LONG)],
            ..facts(true)
        };
        assert_eq!(
            told(&ill),
            [
                (Check::UnattendedSagas, Severity::Warning, "deploy v2".to_owned()),
                (Check::Nodes, Severity::Warning, "n-1".to_owned()),
            ]
        );
        assert!(judge(&ill, LIMIT)[0].action.contains("(7)"), "the setting is told");
    }

    #[test]
    fn a_definition_that_nobody_has_is_an_error_once() {
        let ill = |shared, late| Facts {
            waiting: vec![waiting("deploy", 1, Duration::ZERO), waiting("refund", 1, late)],
            left: vec![left("refund", 1, late), left("refund", 1, Duration::ZERO)],
            ..facts(shared)
        };
        let missing = |name: &str| (Check::Definitions, Severity::Error, name.to_owned());
        assert_eq!(told(&ill(true, LONG)), [missing("refund v1")], "others may have the other one");
        assert_eq!(told(&ill(true, LIMIT)), [], "others may have both");
        assert_eq!(told(&ill(false, Duration::ZERO)), [missing("deploy v1"), missing("refund v1")]);
        assert!(judge(&ill(true, LONG), LIMIT)[0].message.contains("for 1m 1s"));
    }
}
