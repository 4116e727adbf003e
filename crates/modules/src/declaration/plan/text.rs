//! A plan as the terminal shows it.

use std::fmt;

use backstitch::StepId;

use super::{Plan, Unwinding};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Forward")?;
        for (nth, stage) in self.forward.iter().enumerate() {
            let together = if stage.len() > 1 { "  (at the same time)" } else { "" };
            writeln!(f, "  {}. {}{together}", nth + 1, listed(stage))?;
        }
        writeln!(f, "\nWhen a step fails")?;
        if self.rollbacks.is_empty() {
            return writeln!(f, "  not shown: there are too many steps");
        }
        let width = self.rollbacks.iter().map(|rollback| rollback.step.as_str().chars().count()).max();
        let width = width.unwrap_or_default();
        for rollback in &self.rollbacks {
            let name = rollback.step.as_str();
            writeln!(f, "  {name:width$}  says no     {}", rollback.said_no)?;
            writeln!(f, "  {:width$}  in doubt    {}", "", rollback.in_doubt)?;
        }
        Ok(())
    }
}

impl fmt::Display for Unwinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.undone.is_empty() {
            f.write_str("nothing is undone")?;
        } else {
            let stages: Vec<String> = self.undone.iter().map(|stage| listed(stage)).collect();
            write!(f, "undo {}", stages.join(", then "))?;
        }
        if !self.nothing_to_undo.is_empty() {
            write!(f, "; {} cannot be undone", listed(&self.nothing_to_undo))?;
        }
        Ok(())
    }
}

fn listed(steps: &[StepId]) -> String {
    let names: Vec<&str> = steps.iter().map(StepId::as_str).collect();
    names.join(" + ")
}
