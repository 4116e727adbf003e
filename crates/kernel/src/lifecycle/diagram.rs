//! Draws a machine as Mermaid's `stateDiagram-v2`.

use std::fmt::Write as _;

use super::draft::{FAILED, OK};
use super::machine::{Kind, Machine};
use crate::performer::Performer;

impl Machine {
    /// The diagram.
    #[must_use]
    pub fn diagram(&self) -> String {
        let mut lines = vec!["stateDiagram-v2".to_owned()];
        for (state, _) in self.states() {
            let alias = alias(state);
            if alias != state {
                lines.push(format!("    state \"{state}\" as {alias}"));
            }
        }
        lines.push(format!("    [*] --> {}", alias(&self.draft().initial)));
        for (from, kind) in self.states() {
            for to in self.draft().edges.iter().filter(|edge| edge.0 == from).map(|edge| &*edge.1) {
                if to != FAILED {
                    lines.push(self.arrow(from, to));
                }
            }
            if let Kind::Pause(again) = kind {
                lines.push(format!("    {} --> {} : start", alias(from), alias(again)));
            }
            if self.can_fail(from) {
                lines.push(format!("    {} --> {FAILED} : fail", alias(from)));
            }
        }
        for (state, kind) in self.states() {
            if *kind == Kind::Terminal {
                lines.push(format!("    {} --> [*]", alias(state)));
            }
        }
        for (state, action) in &self.draft().actions {
            let done = match &action.performer {
                None => continue,
                Some(Performer::Code) => "code".to_owned(),
                Some(Performer::Call(_)) => "call".to_owned(),
                Some(Performer::Worker { queue }) => format!("worker of {queue}"),
            };
            lines.push(format!("    note right of {} : {done}", alias(state)));
        }
        lines.join("\n") + "\n"
    }

    /// An edge with the results that follow it.
    fn arrow(&self, from: &str, to: &str) -> String {
        let mut line = format!("    {} --> {}", alias(from), alias(to));
        let answers = self.action(from).into_iter().flat_map(|action| &action.next);
        let answers: Vec<&str> = answers
            .filter(|(answer, next)| *next == to && *answer != OK)
            .map(|(answer, _)| &**answer)
            .collect();
        if !answers.is_empty() {
            // Writing to text cannot fail.
            let _ = write!(line, " : {}", answers.join(", "));
        }
        line
    }
}

/// An alias for Mermaid, which accepts only letters, digits and underscores.
fn alias(state: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' { c.to_string() } else { format!("_{:x}_", u32::from(c)) }
    };
    state.chars().map(plain).collect()
}
