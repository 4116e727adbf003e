//! A definition as it is written down, before anybody has looked whether it makes sense.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::definition::{Compensation, Definition, Step};
use crate::id::StepId;
use crate::payload::Payload;
use crate::retry::{Backoff, Retry};
use crate::time::text;

/// How long one attempt of an action may take unless its step says otherwise.
pub const DEFAULT_STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// How long one attempt of a compensation may take unless its step says otherwise.
pub const DEFAULT_COMPENSATION_TIMEOUT: Duration = Duration::from_secs(120);
/// The most steps a definition may have.
pub const MAX_STEPS: usize = 500;
/// The longest name or id, in bytes.
pub const MAX_ID_LEN: usize = 128;
/// The longest title, in bytes.
pub const MAX_TITLE_LEN: usize = 512;
/// The largest metadata, in bytes of JSON.
pub const MAX_METADATA_LEN: usize = 16 * 1024;
/// The most retries a policy may ask for.
pub const MAX_RETRIES: u32 = 1_000;
/// The longest timeout or wait.
pub const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 3600);

/// How an action is retried unless its step says otherwise: twice, 5 s apart.
#[must_use]
pub fn default_retry() -> Retry {
    Retry::fixed(2, Duration::from_secs(5))
}

/// How a compensation is retried unless its step says otherwise: five times, from 1 s up to a minute apart.
#[must_use]
pub fn default_compensation_retry() -> Retry {
    Retry::exponential(5, Duration::from_secs(1)).with_cap(Duration::from_secs(60))
}

/// A definition before its check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// The name it is started by.
    pub name: String,
    /// Its version.
    #[serde(default = "one")]
    pub version: u32,
    /// What people read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whatever its author wants to keep with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Payload>,
    /// Whether the other compensations still run after one failed for good.
    #[serde(default)]
    pub continue_on_compensation_failure: bool,
    /// How many compensations may be in progress at once.
    #[serde(default = "one_at_a_time")]
    pub compensation_concurrency: usize,
    /// Whether something is to be called when a saga succeeded.
    #[serde(default)]
    pub on_success: bool,
    /// Whether something is to be called when a saga was rolled back or its rollback failed.
    #[serde(default)]
    pub on_failure: bool,
    /// The steps, in the order they run unless they say otherwise.
    pub steps: Vec<DraftStep>,
}

/// A step before its check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftStep {
    /// Its id, unique in its definition.
    pub id: String,
    /// What people read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The steps that must have succeeded before; `None` means the step before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<String>>,
    /// How long one attempt may take.
    #[serde(default = "default_step_timeout", with = "text")]
    pub timeout: Duration,
    /// How often it is tried again.
    #[serde(default = "default_retry")]
    pub retry: Retry,
    /// How it is undone; none when it has nothing to undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate: Option<DraftCompensation>,
    /// How many attempts of it an engine runs at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// A compensation before its check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftCompensation {
    /// How long one attempt may take.
    #[serde(default = "default_compensation_timeout", with = "text")]
    pub timeout: Duration,
    /// How often it is tried again.
    #[serde(default = "default_compensation_retry")]
    pub retry: Retry,
}

impl Default for DraftCompensation {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_COMPENSATION_TIMEOUT,
            retry: default_compensation_retry(),
        }
    }
}

fn one() -> u32 {
    1
}

fn one_at_a_time() -> usize {
    1
}

fn default_step_timeout() -> Duration {
    DEFAULT_STEP_TIMEOUT
}

fn default_compensation_timeout() -> Duration {
    DEFAULT_COMPENSATION_TIMEOUT
}

/// One mistake in a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where it is, such as `steps[2].timeout`.
    pub place: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// Every mistake in a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the definition has {} mistake(s)", self.0.len())?;
        for problem in &self.0 {
            write!(f, "; {}: {}", problem.place, problem.message)?;
        }
        Ok(())
    }
}

impl Draft {
    /// An empty definition of this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: 1,
            title: None,
            metadata: None,
            continue_on_compensation_failure: false,
            compensation_concurrency: 1,
            on_success: false,
            on_failure: false,
            steps: Vec::new(),
        }
    }

    /// Checks the whole definition and works out its order.
    ///
    /// # Errors
    /// All mistakes at once, each with its place.
    pub fn check(self) -> Result<Definition, Problems> {
        let mut check = Check::default();
        check.id("name", &self.name);
        check.title("title", self.title.as_deref());
        if self.version == 0 {
            check.problem("version", "versions count from 1");
        }
        if self
            .metadata
            .as_ref()
            .is_some_and(|metadata| metadata.len() > MAX_METADATA_LEN)
        {
            check.problem("metadata", format!("is larger than {MAX_METADATA_LEN} bytes"));
        }
        if self.compensation_concurrency == 0 {
            check.problem(
                "compensation_concurrency",
                "is 0: nothing could be undone; use 1 or more",
            );
        }
        if self.steps.is_empty() {
            check.problem("steps", "is empty: a saga needs at least one step");
        }
        if self.steps.len() > MAX_STEPS {
            check.problem(
                "steps",
                format!("has {} steps; the limit is {MAX_STEPS}", self.steps.len()),
            );
        }
        for (position, step) in self.steps.iter().enumerate() {
            check.step(&format!("steps[{position}]"), step);
        }
        let parents = check.dependencies(&self.steps);
        check.cycles(&self.steps, &parents);
        if check.problems.is_empty() {
            Ok(self.assemble(parents))
        } else {
            Err(Problems(check.problems))
        }
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
                timeout: step.timeout,
                retry: step.retry.clone(),
                compensation: step.compensate.as_ref().map(|undo| Compensation {
                    timeout: undo.timeout,
                    retry: undo.retry.clone(),
                }),
                limited: step.concurrency.is_some(),
            })
            .collect();
        let index = steps
            .iter()
            .enumerate()
            .map(|(position, step)| (step.id.clone(), position))
            .collect();
        let fingerprint = fingerprint(&self, &steps);
        Definition {
            draft: self,
            steps,
            index,
            fingerprint,
        }
    }
}

#[derive(Default)]
struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn problem(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem {
            place: place.into(),
            message: message.into(),
        });
    }

    fn id(&mut self, place: &str, id: &str) {
        if id.is_empty() {
            self.problem(place, "is empty");
        } else if id.len() > MAX_ID_LEN {
            self.problem(
                place,
                format!("is {} bytes long; the limit is {MAX_ID_LEN}", id.len()),
            );
        } else if let Some(odd) = id
            .chars()
            .find(|c| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.'))
        {
            self.problem(
                place,
                format!("contains {odd:?}: use letters, digits, `-`, `_` and `.`"),
            );
        }
    }

    fn title(&mut self, place: &str, title: Option<&str>) {
        if title.is_some_and(|title| title.len() > MAX_TITLE_LEN) {
            self.problem(place, format!("is longer than {MAX_TITLE_LEN} bytes"));
        }
    }

    fn step(&mut self, place: &str, step: &DraftStep) {
        self.id(&format!("{place}.id"), &step.id);
        self.title(&format!("{place}.title"), step.title.as_deref());
        self.timeout(&format!("{place}.timeout"), step.timeout);
        self.retry(&format!("{place}.retry"), &step.retry);
        if step.concurrency == Some(0) {
            self.problem(
                format!("{place}.concurrency"),
                "is 0: the step could never run; use 1 or more",
            );
        }
        if let Some(undo) = &step.compensate {
            self.timeout(&format!("{place}.compensate.timeout"), undo.timeout);
            self.retry(&format!("{place}.compensate.retry"), &undo.retry);
        }
    }

    fn timeout(&mut self, place: &str, timeout: Duration) {
        if timeout.is_zero() {
            self.problem(place, "is zero: every attempt would time out at once");
        } else if timeout > MAX_DURATION {
            self.problem(place, "is longer than 366 days");
        }
    }

    fn retry(&mut self, place: &str, retry: &Retry) {
        if retry.count > MAX_RETRIES {
            self.problem(
                format!("{place}.count"),
                format!("is {}; the limit is {MAX_RETRIES}", retry.count),
            );
        }
        let longest = match &retry.backoff {
            Backoff::Fixed(delay) => *delay,
            Backoff::Exponential { base, cap } => {
                if base > cap {
                    self.problem(format!("{place}.delay"), "is longer than max_delay");
                }
                *cap
            }
            Backoff::List(waits) => {
                if waits.is_empty() && retry.count > 0 {
                    self.problem(format!("{place}.delays"), "is empty: give one wait at least");
                }
                waits.iter().max().copied().unwrap_or_default()
            }
        };
        if longest > MAX_DURATION {
            self.problem(place, "waits longer than 366 days");
        }
    }

    /// Resolves `depends_on` to positions; what cannot be resolved is reported and left out.
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
            // Every step left has a parent that is left, so the walk up must meet itself.
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
            let mut names: Vec<_> = ring
                .iter()
                .rev()
                .map(|&at| format!("`{}`", steps[at].id))
                .collect();
            if let Some(first) = names.first().cloned() {
                names.push(first);
            }
            self.problem(
                "steps",
                format!("depend on each other in a circle: {}", names.join(" → ")),
            );
            left.retain(|at| !walk.contains(at));
            // What only hangs on the ring just reported is no circle of its own.
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

/// The steps that can never start because they depend on a circle or are part of one.
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

/// For every step all that come after it, directly or not.
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

/// FNV-1a over everything that gives a log its meaning; stable across versions and machines.
fn fingerprint(draft: &Draft, steps: &[Step]) -> u64 {
    let shape: BTreeMap<&str, (Vec<&str>, bool)> = steps
        .iter()
        .map(|step| {
            let parents = step.depends_on.iter().map(|&at| steps[at].id.as_str()).collect();
            (step.id.as_str(), (parents, step.compensation.is_some()))
        })
        .collect();
    let text = format!(
        "{}/{}/{}/{shape:?}",
        draft.name, draft.continue_on_compensation_failure, draft.compensation_concurrency
    );
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
