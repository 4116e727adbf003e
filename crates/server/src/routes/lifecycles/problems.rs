//! From what went wrong with lifecycles to what is said outside.

use backstitch::kernel::lifecycle::INTERNAL;
use backstitch_api::validate::nearest;
use backstitch_modules::lifecycles::{Error, Refused, Standing};

use crate::app::App;
use crate::problem::{Kind, Problem};

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let said = error.to_string();
        match error {
            Error::Store(why) => Self::of_store(&why),
            Error::Batch(why) => Self::of_store(&why),
            Error::Closed => Self::shutting_down(),
            Error::Problems(problems) => {
                Self::mistakes(problems, "the machine has mistakes: correct them all")
            }
            Error::UnknownMachine(_) => {
                Self::new(Kind::MachineNotFound, format!("{said}; GET /v1/lifecycles lists what there is"))
            }
            Error::UnknownVersion { machine, .. } => {
                Self::new(Kind::MachineNotFound, format!("{said}; GET /v1/lifecycles/{machine} lists them"))
            }
            Error::NothingApplied(_) => Self::new(Kind::NothingApplied, said),
            Error::BuiltIn(_) => Self::new(Kind::NameTaken, said),
            Error::NothingStaged(_) => Self::new(Kind::NothingStaged, said),
            Error::AnotherStaged { staged, .. } => Self::new(Kind::Raced, said).with("staged", &staged),
            Error::ChangedMeanwhile(_) => Self::new(Kind::Raced, said),
            Error::UnknownKey { .. } => Self::new(Kind::LifecycleNotFound, said),
            Error::MovedOn { .. } => Self::new(Kind::StaleForm, said),
            Error::Refused { why, .. } => refused(why, said),
            Error::Invalid { field, why } => Self::field(field, why),
            Error::Work(error) => error.into(),
            _ => {
                tracing::error!(%said, "lifecycles cannot be used");
                Self::internal()
            }
        }
    }
}

fn refused(why: Refused, said: String) -> Problem {
    let nothing_leads = |from: &str, to: &str, instead: &[String]| {
        let problem = Problem::new(Kind::NoSuchEdge, said.clone());
        problem.with("from", from).with("to", to).with("instead", instead)
    };
    match why {
        Refused::Ended { state } => Problem::new(Kind::LifecycleEnded, said).with("state", &*state),
        Refused::Abandoned { state } => {
            Problem::new(Kind::LifecycleEnded, said).with("state", &*state).with("abandoned", &true)
        }
        Refused::NotPaused { state } => Problem::new(Kind::LifecycleNotPaused, said).with("state", &*state),
        Refused::NoEdge { from, to, instead } => nothing_leads(&from, &to, &instead),
        Refused::SameState { state } => nothing_leads(&state, &state, &[]),
        Refused::WaitsForStart { from, to } => nothing_leads(&from, &to, &[]),
        Refused::CannotFail { from } => nothing_leads(&from, "failed", &[]),
        Refused::UnknownState(_) => Problem::field("to", said),
        Refused::UnknownErrorKind(_) => Problem::field("error_kind", said),
        Refused::NeverStarted => Problem::new(Kind::LifecycleNotFound, said),
        Refused::Late { .. } | Refused::LeasedBefore { .. } => Problem::new(Kind::StaleLease, said),
    }
}

/// The same with what was probably meant, where a name is unknown.
pub(crate) async fn told<T>(app: &App, outcome: Result<T, Error>) -> Result<T, Problem> {
    match outcome {
        Ok(value) => Ok(value),
        Err(error) => Err(match hint(app, &error).await {
            Some(problem) => problem,
            None => error.into(),
        }),
    }
}

async fn hint(app: &App, error: &Error) -> Option<Problem> {
    let machines = &app.lifecycles.parts.machines;
    let known = async |standing: &Standing| machines.machine(&standing.machine, standing.version).await.ok();
    match error {
        Error::UnknownMachine(name) => {
            let all = machines.list().await.ok()?;
            let meant = nearest(name, all.iter().map(|machine| &*machine.name))?;
            let detail = format!("there is no machine `{name}`: did you mean `{meant}`?");
            Some(Problem::new(Kind::MachineNotFound, detail).with("nearest", meant))
        }
        Error::Refused { why: Refused::UnknownState(name), standing: Some(standing) } => {
            let machine = known(standing).await?;
            let states: Vec<&str> = machine.states().map(|(state, _)| state).collect();
            Some(Problem::field("to", format!("{error}: {}", meant(name, &states))))
        }
        Error::Refused { why: Refused::UnknownErrorKind(name), standing: Some(standing) } => {
            let machine = known(standing).await?;
            let mut kinds: Vec<&str> = machine.draft().error_kinds.iter().map(String::as_str).collect();
            if !kinds.contains(&INTERNAL) {
                kinds.push(INTERNAL);
            }
            Some(Problem::field("error_kind", format!("{error}: {}", meant(name, &kinds))))
        }
        _ => None,
    }
}

/// What to write instead.
pub(super) fn meant(written: &str, known: &[&str]) -> String {
    let all = known.join(", ");
    match nearest(written, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? There are {all}"),
        None => format!("use one of {all}"),
    }
}
