//! Validation: turns a draft into a definition, or lists every error.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::definition::{Compensation, Definition, Step};
use super::draft::{Draft, DraftStep, MAX_METADATA_LEN, MAX_STEPS, Problems};
use super::event::Phase;
use crate::fingerprint::fnv1a;
use crate::id::StepId;
use crate::mistakes::Mistakes;
use crate::performer::Performer;
use crate::retry::Retry;

impl Draft {
    /// Validates the whole definition and computes its order.
    ///
    /// # Errors
    /// All errors together with their paths.
    pub fn check(self) -> Result<Definition, Problems> {
        let mut check = Mistakes::default();
        check.id("name", &self.name);
        check.title("title", self.title.as_deref());
        if self.version == 0 {
            check.problem("version", "versions count from 1");
        }
        if self.metadata.as_ref().is_some_and(|metadata| metadata.len() > MAX_METADATA_LEN) {
            check.problem("metadata", format!("is larger than {MAX_METADATA_LEN} bytes"));
        }
        if self.compensation_concurrency == 0 {
            check.problem("compensation_concurrency", "is 0: nothing could be undone; use 1 or more");
        }
        if self.steps.is_empty() {
            check.problem("steps", "is empty: a saga needs at least one step");
        }
        if self.steps.len() > MAX_STEPS {
            check.problem("steps", format!("has {} steps; the limit is {MAX_STEPS}", self.steps.len()));
        }
        for (position, step) in self.steps.iter().enumerate() {
            check.step(&format!("steps[{position}]"), step);
        }
        let parents = check.dependencies(&self.steps);
        // Finding cycles is slow among very many steps, which are refused anyway.
        if self.steps.len() <= MAX_STEPS {
            check.cycles(&self.steps, &parents);
        }
        check.none()?;
        Ok(self.assemble(parents))
    }

    fn assemble(self, parents: Vec<Vec<usize>>) -> Definition {
        let successors = successors(&parents);
        let steps: Vec<Step> = self
            .steps
            .iter()
            .zip(parents)
            .zip(successors)
            .map(|((step, depends_on), successors)| Step {
                id: StepId::from(step.id.as_str()),
                depends_on,
                successors,
                queue: step.action.queue().map(Into::into),
                queue_timeout: step.queue_timeout,
                timeout: step.timeout,
                retry: step.retry.clone(),
                compensation: step.compensate.as_ref().map(|undo| Compensation {
                    queue: undo.action.queue().map(Into::into),
                    queue_timeout: undo.queue_timeout,
                    timeout: undo.timeout,
                    retry: undo.retry.clone(),
                }),
                limited: step.concurrency.is_some(),
            })
            .collect();
        let index = steps.iter().enumerate().map(|(position, step)| (step.id.clone(), position)).collect();
        let fingerprint = fingerprint(&self, &steps);
        Definition { draft: self, steps, index, fingerprint }
    }
}

impl Mistakes {
    fn step(&mut self, place: &str, step: &DraftStep) {
        self.id(&format!("{place}.id"), &step.id);
        self.title(&format!("{place}.title"), step.title.as_deref());
        self.performer(&format!("{place}.action"), &step.action);
        self.timeout(&format!("{place}.timeout"), step.timeout);
        self.queue_timeout(place, &step.action, step.queue_timeout);
        self.retry_bound(place, &step.action, &step.retry);
        self.retry(&format!("{place}.retry"), &step.retry);
        if step.concurrency == Some(0) {
            self.problem(format!("{place}.concurrency"), "is 0: the step could never run; use 1 or more");
        }
        if step.concurrency.is_some() && step.action.queue().is_some() {
            let message =
                "is for steps performed here: how many a worker does at once is the worker's to say";
            self.problem(format!("{place}.concurrency"), message);
        }
        if let Some(undo) = &step.compensate {
            self.performer(&format!("{place}.compensate"), &undo.action);
            self.timeout(&format!("{place}.compensate.timeout"), undo.timeout);
            self.queue_timeout(&format!("{place}.compensate"), &undo.action, undo.queue_timeout);
            self.retry_bound(&format!("{place}.compensate"), &undo.action, &undo.retry);
            self.retry(&format!("{place}.compensate.retry"), &undo.retry);
        }
    }

    pub(crate) fn queue_timeout(&mut self, place: &str, performer: &Performer, timeout: Option<Duration>) {
        let place = format!("{place}.queue_timeout");
        match timeout {
            None => {}
            Some(_) if performer.queue().is_none() => {
                self.problem(place, "is for workers: nothing else waits in a queue");
            }
            Some(timeout) => self.timeout(&place, timeout),
        }
    }

    /// The time limit counts from the first attempt, so it would include the time in the queue.
    fn retry_bound(&mut self, place: &str, performer: &Performer, retry: &Retry) {
        if retry.within.is_some() && performer.queue().is_some() {
            let message =
                "is not for workers: it would count the time in the queue; use `timeout` and `queue_timeout`";
            self.problem(format!("{place}.retry.within"), message);
        }
    }

    /// Resolves `depends_on` to positions; unknown steps are reported and left out.
    fn dependencies(&mut self, steps: &[DraftStep]) -> Vec<Vec<usize>> {
        let mut positions: HashMap<&str, usize> = HashMap::new();
        for (position, step) in steps.iter().enumerate() {
            if let Some(first) = positions.get(step.id.as_str()) {
                if !step.id.is_empty() {
                    let message = format!("`{}` is already the id of steps[{first}]", step.id);
                    self.problem(format!("steps[{position}].id"), message);
                }
            } else {
                positions.insert(&step.id, position);
            }
        }
        let mut parents = Vec::with_capacity(steps.len());
        for (position, step) in steps.iter().enumerate() {
            let Some(names) = &step.depends_on else {
                parents.push(position.checked_sub(1).into_iter().collect());
                continue;
            };
            let mut known = Vec::with_capacity(names.len());
            for (nth, name) in names.iter().enumerate() {
                let place = || format!("steps[{position}].depends_on[{nth}]");
                match positions.get(name.as_str()) {
                    None => self.problem(place(), format!("there is no step `{name}`")),
                    Some(&parent) if parent == position => {
                        self.problem(place(), format!("`{name}` depends on itself"));
                    }
                    Some(parent) if known.contains(parent) => {
                        self.problem(place(), format!("`{name}` is listed twice"));
                    }
                    Some(&parent) => known.push(parent),
                }
            }
            known.sort_unstable();
            parents.push(known);
        }
        parents
    }

    fn cycles(&mut self, steps: &[DraftStep], parents: &[Vec<usize>]) {
        let mut left = circular(parents);
        while let Some(&first) = left.first() {
            // Every remaining step has a remaining parent, so the walk up must meet itself.
            let mut walk = vec![first];
            let ring = loop {
                let here = walk[walk.len() - 1];
                let Some(&up) = parents[here].iter().find(|parent| left.contains(parent)) else {
                    break walk.as_slice();
                };
                if let Some(start) = walk.iter().position(|&seen| seen == up) {
                    break &walk[start..];
                }
                walk.push(up);
            };
            let mut names: Vec<_> = ring.iter().rev().map(|&at| format!("`{}`", steps[at].id)).collect();
            if let Some(first) = names.first().cloned() {
                names.push(first);
            }
            self.problem("steps", format!("depend on each other in a circle: {}", names.join(" → ")));
            // The path to this cycle may be part of another one.
            left.retain(|at| !ring.contains(at));
            // Steps that only depend on the reported cycle are no cycle themselves.
            loop {
                let before = left.len();
                let still: Vec<usize> = left
                    .iter()
                    .copied()
                    .filter(|&at| parents[at].iter().any(|parent| left.contains(parent)))
                    .collect();
                left = still;
                if left.len() == before {
                    break;
                }
            }
        }
    }
}

/// The steps that can never start because they are in a cycle or depend on one.
fn circular(parents: &[Vec<usize>]) -> Vec<usize> {
    let mut settled = vec![false; parents.len()];
    loop {
        let next: Vec<usize> = (0..parents.len())
            .filter(|&at| !settled[at] && parents[at].iter().all(|&parent| settled[parent]))
            .collect();
        if next.is_empty() {
            return (0..parents.len()).filter(|&at| !settled[at]).collect();
        }
        for at in next {
            settled[at] = true;
        }
    }
}

/// For every step, all that depend on it, directly or not.
fn successors(parents: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); parents.len()];
    for (child, above) in parents.iter().enumerate() {
        for &parent in above {
            children[parent].push(child);
        }
    }
    (0..parents.len())
        .map(|start| {
            let mut seen = vec![false; parents.len()];
            let mut open = children[start].clone();
            while let Some(at) = open.pop() {
                if !std::mem::replace(&mut seen[at], true) {
                    open.extend(&children[at]);
                }
            }
            (0..parents.len()).filter(|&at| seen[at]).collect()
        })
        .collect()
}

/// FNV-1a over everything that gives a log its meaning; equal on every machine and in every version.
fn fingerprint(draft: &Draft, steps: &[Step]) -> u64 {
    // No id contains the separators, and the order of declaration is irrelevant.
    let shape: BTreeSet<String> = steps
        .iter()
        .map(|step| {
            let parents: BTreeSet<&str> = step.depends_on.iter().map(|&at| steps[at].id.as_str()).collect();
            let parents: Vec<&str> = parents.into_iter().collect();
            let outside = [Phase::Do, Phase::Undo].map(|phase| step.outside(phase).is_some());
            let outside = match outside {
                [false, false] => "",
                [true, false] => "/do outside",
                [false, true] => "/undo outside",
                [true, true] => "/both outside",
            };
            format!("/{}<{}:{}{outside}", step.id, parents.join(","), step.compensation.is_some())
        })
        .collect();
    let mut text = format!(
        "{}/{}/{}",
        draft.name, draft.continue_on_compensation_failure, draft.compensation_concurrency
    );
    text.extend(shape);
    fnv1a(&text)
}
