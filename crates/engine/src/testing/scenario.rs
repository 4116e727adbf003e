//! What can be done to a saga.

use std::fmt;

use backstitch_kernel::StepId;

/// One thing that happens to a saga, and perhaps a crash on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What happens.
    pub plot: Plot,
    /// Where the process dies, if it does.
    pub crash: Option<Crash>,
}

/// What happens to the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plot {
    /// Nothing: all goes well.
    Succeeds,
    /// This step says no, without having been run.
    RefusedAt(StepId),
    /// This step is run, but nobody ever learns what came of it.
    AnswerLostAt(StepId),
}

/// Where the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// At which of its commits, from 1.
    pub commit: u64,
    /// At which side of it.
    pub moment: Moment,
}

/// One side of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// What led to the commit has happened, but is not on disk: it will happen again.
    Before,
    /// The commit is on disk, but nothing has come of it yet.
    After,
}

impl Plot {
    pub(super) fn all(steps: &[StepId]) -> Vec<Self> {
        let refused = steps.iter().cloned().map(Self::RefusedAt);
        let lost = steps.iter().cloned().map(Self::AnswerLostAt);
        std::iter::once(Self::Succeeds).chain(refused).chain(lost).collect()
    }

    /// The step that fails, if one does.
    #[must_use]
    pub fn failing_step(&self) -> Option<&StepId> {
        match self {
            Self::Succeeds => None,
            Self::RefusedAt(step) | Self::AnswerLostAt(step) => Some(step),
        }
    }
}

impl Crash {
    /// Both sides of a commit. Before the first one there is no saga.
    pub(super) fn at(commit: u64) -> impl Iterator<Item = Self> {
        let sides = [Moment::Before, Moment::After].into_iter();
        sides
            .filter(move |side| commit > 1 || *side == Moment::After)
            .map(move |moment| Self { commit, moment })
    }
}

impl Scenario {
    /// All goes well.
    #[must_use]
    pub fn succeeds() -> Self {
        Self { plot: Plot::Succeeds, crash: None }
    }

    /// This step says no.
    #[must_use]
    pub fn refused_at(step: &str) -> Self {
        Self { plot: Plot::RefusedAt(StepId::from(step)), crash: None }
    }

    /// This step is run, but nobody ever learns what came of it.
    #[must_use]
    pub fn answer_lost_at(step: &str) -> Self {
        Self { plot: Plot::AnswerLostAt(StepId::from(step)), crash: None }
    }

    /// The same, and the process dies with this commit not yet on disk.
    #[must_use]
    pub fn dying_before(mut self, commit: u64) -> Self {
        self.crash = Some(Crash { commit, moment: Moment::Before });
        self
    }

    /// The same, and the process dies as soon as this commit is on disk.
    #[must_use]
    pub fn dying_after(mut self, commit: u64) -> Self {
        self.crash = Some(Crash { commit, moment: Moment::After });
        self
    }

    /// How to write it down in a test.
    pub(super) fn in_code(&self) -> String {
        let plot = match &self.plot {
            Plot::Succeeds => "Scenario::succeeds()".to_owned(),
            Plot::RefusedAt(step) => format!("Scenario::refused_at(\"{step}\")"),
            Plot::AnswerLostAt(step) => format!("Scenario::answer_lost_at(\"{step}\")"),
        };
        match self.crash {
            None => plot,
            Some(Crash { commit, moment: Moment::Before }) => format!("{plot}.dying_before({commit})"),
            Some(Crash { commit, moment: Moment::After }) => format!("{plot}.dying_after({commit})"),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.plot {
            Plot::Succeeds => f.write_str("every step succeeds")?,
            Plot::RefusedAt(step) => write!(f, "step `{step}` refuses")?,
            Plot::AnswerLostAt(step) => {
                write!(f, "step `{step}` takes effect but its answer is lost")?;
            }
        }
        match self.crash {
            None => Ok(()),
            Some(Crash { commit, moment: Moment::Before }) => {
                write!(
                    f,
                    " and the process dies before commit {commit}, so that what led to it is done again"
                )
            }
            Some(Crash { commit, moment: Moment::After }) => {
                write!(f, " and the process dies right after commit {commit}")
            }
        }
    }
}
