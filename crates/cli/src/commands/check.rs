//! `backstitch check`: validates a saga or a lifecycle and shows its plans. Needs no server and no database.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use backstitch::kernel::lifecycle::{Kind as StateKind, Machine};
use backstitch::{Problem, Problems};
use backstitch_modules::declaration::{Declaration, Format, Kind, Plan};
use backstitch_modules::lifecycles::{Draft, declaration as machine};
use serde_json::{Value, json};

use super::declared::format_of;
use super::{Failure, on_one_line};
use crate::cli::in_file;
use crate::cli::output::{note, print};

/// The file to check.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A saga (with `steps`) or a lifecycle (with `states`): JSON if its name ends in .json, otherwise YAML; `-` is
    /// standard input.
    file: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Prints a saga's plans, or a lifecycle's diagram.
///
/// # Errors
/// When the file cannot be read, or is invalid.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let shown =
        if args.is_standard_input() { "the input".to_owned() } else { args.file.display().to_string() };
    let bytes = in_file(&args.file)?;
    let (kind, checked) = check(&bytes, format_of(&args.file));
    let kind = kind.map(word);
    match checked {
        Ok(found) if args.json => Ok(print(&format!("{}\n", found.as_json(kind)))?),
        Ok(found) => Ok(print(&found.to_string())?),
        Err(Problems(problems)) => {
            if args.json {
                print(&format!("{}\n", json!({ "kind": kind, "problems": problems })))?;
            } else {
                for problem in &problems {
                    note(format_args!("{}", on_one_line(problem)));
                }
            }
            let mistakes = if problems.len() == 1 { "mistake" } else { "mistakes" };
            Err(format!("{shown} has {} {mistakes}", problems.len()).into())
        }
    }
}

impl Args {
    fn is_standard_input(&self) -> bool {
        self.file.as_os_str() == "-"
    }
}

/// A valid document.
enum Found {
    Saga { name: String, plan: Plan },
    Lifecycle(Box<Machine>),
}

fn check(bytes: &[u8], format: Format) -> (Option<Kind>, Result<Found, Problems>) {
    let kind = match Kind::of(bytes, format) {
        Ok(kind) => kind,
        Err(broken) => return (None, Err(broken)),
    };
    let found = match kind {
        Some(Kind::Saga) => saga(bytes, format),
        Some(Kind::Lifecycle) => machine::read(bytes, format)
            .and_then(Draft::check)
            .map(|machine| Found::Lifecycle(Box::new(machine))),
        None => Err(Problems(vec![Problem {
            place: "the definition".to_owned(),
            message: "is neither a saga, which has `steps`, nor a lifecycle, which has `states`".to_owned(),
        }])),
    };
    (kind, found)
}

fn saga(bytes: &[u8], format: Format) -> Result<Found, Problems> {
    let definition = Declaration::read(bytes, format)?.check()?;
    Ok(Found::Saga { name: definition.draft().name.clone(), plan: Plan::of(&definition) })
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Saga => "saga",
        Kind::Lifecycle => "lifecycle",
    }
}

impl Found {
    fn as_json(&self, kind: Option<&str>) -> Value {
        match self {
            Self::Saga { name, plan } => json!({ "kind": kind, "name": name, "plan": plan }),
            Self::Lifecycle(machine) => {
                json!({ "kind": kind, "name": machine.name(), "diagram": machine.diagram() })
            }
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saga { name, plan } => write!(f, "Saga {name}\n\n{plan}"),
            Self::Lifecycle(machine) => write!(f, "{}\n{}", summary(machine), machine.diagram()),
        }
    }
}

fn summary(machine: &Machine) -> String {
    let draft = machine.draft();
    let of_kind = |those: fn(&StateKind) -> bool| {
        let states = machine.states().filter(|(_, kind)| those(kind)).map(|(state, _)| state);
        states.collect::<Vec<_>>().join(", ")
    };
    let can_fail: Vec<&str> =
        machine.states().map(|(state, _)| state).filter(|state| machine.can_fail(state)).collect();
    let performed = draft.actions.iter().filter(|(_, action)| action.performer.is_some());
    let performed: Vec<&str> = performed.map(|(state, _)| state.as_str()).collect();
    let mut text = format!("Lifecycle {}\n", machine.name());
    for (what, states) in [
        ("begins in", draft.initial.clone()),
        ("acts in", performed.join(", ")),
        ("waits in", of_kind(|kind| matches!(kind, StateKind::Pause(_)))),
        ("can fail in", can_fail.join(", ")),
        ("ends in", of_kind(|kind| *kind == StateKind::Terminal)),
        ("tells on", machine.topic("STATE")),
    ] {
        if !states.is_empty() {
            // Writing to text cannot fail.
            let _ = writeln!(text, "  {what:11}  {states}");
        }
    }
    text
}
