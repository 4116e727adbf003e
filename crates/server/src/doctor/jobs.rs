//! Work that was given out and not brought back, or that nobody asks for.

use backstitch::jobs::name_for_workers;
use backstitch::store::diagnostics::Queue;

use super::check::Check;
use super::finding::Finding;
use super::words::ago;
use crate::config::Doctor as Limits;

/// What is known about it.
pub(super) struct Facts {
    /// The lease of each queue that ends, or ended, first.
    pub(super) leased: Vec<Queue>,
    /// The job of each queue that is due first.
    pub(super) pending: Vec<Queue>,
}

pub(super) fn judge(facts: &Facts, limits: &Limits) -> Vec<Finding> {
    let lost = facts.leased.iter().filter(|queue| queue.late > limits.unclaimed_after).map(lost);
    let limit = |queue: &Queue| {
        if name_for_workers(&queue.queue).is_some() { limits.queued_after } else { limits.stuck_after }
    };
    let waits = facts.pending.iter().filter(|queue| queue.late > limit(queue)).map(waits);
    lost.chain(waits).collect()
}

fn lost(queue: &Queue) -> Finding {
    Check::Jobs.error(
        Some(queue.queue.clone()),
        format!(
            "the lease of job {} has been over for {} and nobody has taken it back: that is done by whoever asks for work \
             of this queue, and nobody does",
            queue.job,
            ago(queue.late)
        ),
        remedy(&queue.queue),
    )
}

fn waits(queue: &Queue) -> Finding {
    Check::Jobs.warning(
        Some(queue.queue.clone()),
        format!("job {} has been due for {} and nobody has leased it", queue.job, ago(queue.late)),
        remedy(&queue.queue),
    )
}

/// Who works on a queue depends on what its name begins with.
fn remedy(queue: &str) -> String {
    let worker = |name: &str| {
        format!(
            "start a worker that asks for it: POST /v1/jobs/lease with {{\"queues\": [\"{name}\"]}}; or add more"
        )
    };
    match queue.split_once('/') {
        Some(("hook", name)) => match name.rsplit_once('/') {
            Some((definition, hook @ ("on_success" | "on_failure"))) => {
                format!("start a node that has the definition and version `{definition}` with its `{hook}`")
            }
            _ => format!("start a node that has the definition and version `{name}` with its hooks"),
        },
        Some(("deliver", _)) => {
            "start a node with webhooks.concurrency above 0 and with `secret` set, or a worker for the queue `webhooks`"
                .to_owned()
        }
        _ => worker(name_for_workers(queue).unwrap_or(queue)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::doctor::finding::Severity;

    fn queue(name: &str, seconds: u64) -> Queue {
        Queue { queue: name.to_owned(), job: 7, late: Duration::from_secs(seconds) }
    }

    fn told(leased: Vec<Queue>, pending: Vec<Queue>) -> Vec<Finding> {
        judge(&Facts { leased, pending }, &Limits::default())
    }

    #[test]
    fn work_in_time_is_not_worth_a_word() {
        let leased = vec![queue("work/a", 120), queue("work/b", 0)];
        assert_eq!(told(leased, vec![queue("work/a", 60), queue("hook/deploy/3", 600)]), []);
    }

    #[test]
    fn a_lease_that_is_long_over_is_an_error_and_work_that_waits_a_warning() {
        let found = told(vec![queue("work/mail", 121)], vec![queue("work/mail", 61)]);
        let severities: Vec<_> = found.iter().map(|it| (it.check, it.severity)).collect();
        assert_eq!(severities, [(Check::Jobs, Severity::Error), (Check::Jobs, Severity::Warning)]);
        assert!(found[0].message.contains("job 7 has been over for 2m 1s"), "{found:?}");
        assert!(found[1].message.contains("has been due for 1m 1s"), "{found:?}");
        assert_eq!(told(Vec::new(), vec![queue("hook/deploy/3", 601)]).len(), 1);
        assert_eq!(told(Vec::new(), vec![queue("product/lifecycle/dns", 61)]).len(), 1, "workers take it");
    }

    #[test]
    fn what_to_do_depends_on_who_works_on_the_queue() {
        for (name, word) in [
            ("work/mail", "\"mail\""),
            ("product/lifecycle/dns", "\"dns\""),
            ("hook/deploy/3", "`deploy/3` with its hooks"),
            ("hook/deploy/3/on_failure", "`deploy/3` with its `on_failure`"),
            ("deliver/webhooks", "webhooks.concurrency"),
            ("strange", "\"strange\""),
        ] {
            let found = told(vec![queue(name, 121)], Vec::new());
            assert!(found[0].action.contains(word), "{name}: {found:?}");
        }
    }
}
