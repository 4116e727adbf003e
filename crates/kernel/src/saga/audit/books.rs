//! The audit's own state.

use super::super::definition::Definition;
use super::super::event::Phase;
use crate::time::Timestamp;

/// How an action, or the saga, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Succeeded,
    Failed,
    Compensated,
}

/// The state of the obligation to undo a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    #[default]
    Open,
    Undone,
    Stuck,
    LeftAlone,
}

/// The state of an action's or a compensation's attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AttemptStatus {
    #[default]
    Untouched,
    Running,
    /// The node that ran the attempt is gone.
    Cut,
    Waiting(Timestamp),
    Over,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) status: AttemptStatus,
    pub(super) attempts: u32,
    pub(super) failures: u32,
    pub(super) interruptions: u32,
    /// With an outside worker, so adoption does not interrupt it.
    pub(super) is_outside: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct StepBook {
    pub(super) action: Line,
    pub(super) undo: Line,
    pub(super) ending: Option<Ending>,
    pub(super) doubt: bool,
    pub(super) fate: Fate,
}

impl StepBook {
    /// Whether its action has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.action.attempts > 0 && self.ending.is_none()
    }
}

pub(super) struct Books {
    pub(super) steps: Vec<StepBook>,
    /// For every step, all that depend on it, directly or not.
    pub(super) after: Vec<Vec<usize>>,
    pub(super) rolling_back: bool,
    pub(super) ended: Option<Ending>,
}

impl Books {
    pub(super) fn open(definition: &Definition) -> Self {
        let count = definition.steps().len();
        Self {
            steps: vec![StepBook::default(); count],
            after: (0..count).map(|first| after(definition, first)).collect(),
            rolling_back: false,
            ended: None,
        }
    }

    pub(super) fn line(&self, position: usize, phase: Phase) -> &Line {
        match phase {
            Phase::Do => &self.steps[position].action,
            Phase::Undo => &self.steps[position].undo,
        }
    }

    pub(super) fn line_mut(&mut self, position: usize, phase: Phase) -> &mut Line {
        match phase {
            Phase::Do => &mut self.steps[position].action,
            Phase::Undo => &mut self.steps[position].undo,
        }
    }

    pub(super) fn interrupt(&mut self) {
        for step in &mut self.steps {
            // The outcome of an interrupted action is unknown.
            step.doubt |= step.action.status == AttemptStatus::Running && !step.action.is_outside;
            for line in [&mut step.action, &mut step.undo] {
                if line.status == AttemptStatus::Running && !line.is_outside {
                    line.status = AttemptStatus::Cut;
                    line.interruptions += 1;
                }
            }
        }
    }

    pub(super) fn end_action(&mut self, position: usize, ending: Ending) {
        let step = &mut self.steps[position];
        step.action.status = AttemptStatus::Over;
        step.ending = Some(ending);
    }

    pub(super) fn end_compensation(&mut self, position: usize, fate: Fate) {
        let step = &mut self.steps[position];
        step.undo.status = AttemptStatus::Over;
        step.fate = fate;
    }

    /// An operator requested the compensation again, with all its retries.
    pub(super) fn reopen(&mut self, position: usize) {
        let step = &mut self.steps[position];
        step.fate = Fate::Open;
        step.undo.status = AttemptStatus::Untouched;
        step.undo.failures = 0;
        step.undo.interruptions = 0;
    }

    pub(super) fn action_in_flight(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.action.status == AttemptStatus::Running)
    }

    pub(super) fn compensations_in_progress(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| !matches!(step.undo.status, AttemptStatus::Untouched | AttemptStatus::Over))
            .count()
    }
}

fn after(definition: &Definition, first: usize) -> Vec<usize> {
    let mut found = vec![first];
    loop {
        let more: Vec<usize> = definition
            .steps()
            .iter()
            .enumerate()
            .filter(|(position, step)| {
                !found.contains(position) && step.depends_on.iter().any(|parent| found.contains(parent))
            })
            .map(|(position, _)| position)
            .collect();
        if more.is_empty() {
            found.retain(|&position| position != first);
            return found;
        }
        found.extend(more);
    }
}
