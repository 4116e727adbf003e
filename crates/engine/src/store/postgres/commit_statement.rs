//! The statement that writes a batch, assembled of the parts that the batch needs. The server sets up each part of a
//! statement for every call, also for no rows.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use super::sql;
use crate::store::SchemaName;

/// The first line of every statement, by which it is found among those that the server runs.
const TITLE: &str = "-- A batch of decisions";

const NOTHING_LOCKED: &str = sql!(sagas::commit_nothing_locked);
const LOCKED: &str = sql!(sagas::commit_locked);
const NOTHING_CLAIMED: &str = sql!(sagas::commit_nothing_claimed);
const CLAIMED: &str = sql!(sagas::commit_claimed);
const GATE: &str = sql!(sagas::commit_gate);
const MORE_EVENTS: &str = sql!(sagas::commit_more_events);
const CHANGED_ROWS: &str = sql!(sagas::commit_changed_rows);
const NEW_ROWS: &str = sql!(sagas::commit_new_rows);
const NEW_ATTRIBUTES: &str = sql!(sagas::commit_new_attributes);
const CONSUMED: &str = sql!(sagas::commit_consumed);
const WITHDRAWN_JOBS: &str = sql!(sagas::commit_withdrawn_jobs);
const NEW_JOBS: &str = sql!(sagas::commit_new_jobs);
const NEW_MESSAGES: &str = sql!(sagas::commit_new_messages);
const REFUSED: &str = sql!(sagas::commit_refused);

/// What a batch has rows of, besides first events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "one for each part of the statement")]
pub(super) struct Shape {
    pub(super) claims: bool,
    pub(super) more_events: bool,
    pub(super) changed_rows: bool,
    pub(super) new_rows: bool,
    pub(super) attributes: bool,
    pub(super) consumed: bool,
    pub(super) withdrawn_jobs: bool,
    pub(super) jobs: bool,
    pub(super) messages: bool,
}

impl Shape {
    fn parts(self) -> Vec<&'static str> {
        let mut parts = vec![
            if self.changed_rows { LOCKED } else { NOTHING_LOCKED },
            if self.claims { CLAIMED } else { NOTHING_CLAIMED },
            GATE,
        ];
        let optional = [
            (self.more_events, MORE_EVENTS),
            (self.changed_rows, CHANGED_ROWS),
            (self.new_rows, NEW_ROWS),
            (self.attributes, NEW_ATTRIBUTES),
            (self.consumed, CONSUMED),
            (self.withdrawn_jobs, WITHDRAWN_JOBS),
            (self.jobs, NEW_JOBS),
            (self.messages, NEW_MESSAGES),
        ];
        parts.extend(optional.into_iter().filter_map(|(has_rows, part)| has_rows.then_some(part)));
        parts
    }
}

/// A statement, and which of all parameters it takes.
#[derive(Debug)]
pub(super) struct CommitStatement {
    pub(super) sql: String,
    /// Places in the list of all parameters, in the order in which this statement numbers them.
    pub(super) parameters: Vec<usize>,
}

impl CommitStatement {
    fn assemble(schema: &SchemaName, shape: Shape) -> Self {
        let whole = schema.qualify(&format!("with\n{}\n{REFUSED}", shape.parts().join(",\n")));
        let mut statement = Self { sql: format!("{TITLE}\n"), parameters: Vec::new() };
        let mut pieces = whole.split('$');
        statement.sql.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = piece.split_at(digits);
            let number = statement.number(number.parse().unwrap_or_default());
            let _ = write!(statement.sql, "${number}{rest}");
        }
        statement
    }

    /// The number in this statement of a parameter that the parts number so.
    fn number(&mut self, in_parts: usize) -> usize {
        let place = in_parts.saturating_sub(1);
        let known = self.parameters.iter().position(|it| *it == place);
        1 + known.unwrap_or_else(|| {
            self.parameters.push(place);
            self.parameters.len() - 1
        })
    }
}

/// The statements of one schema, each assembled when it is needed first.
#[derive(Debug)]
pub(super) struct CommitStatements {
    schema: SchemaName,
    assembled: Mutex<HashMap<Shape, Arc<CommitStatement>>>,
}

impl CommitStatements {
    pub(super) fn of(schema: &SchemaName) -> Self {
        Self { schema: schema.clone(), assembled: Mutex::default() }
    }

    /// The statement for batches of this shape.
    pub(super) fn for_shape(&self, shape: Shape) -> Arc<CommitStatement> {
        let mut assembled = self.assembled.lock().unwrap_or_else(PoisonError::into_inner);
        let assemble = || Arc::new(CommitStatement::assemble(&self.schema, shape));
        assembled.entry(shape).or_insert_with(assemble).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Shape = Shape {
        claims: true,
        more_events: true,
        changed_rows: true,
        new_rows: true,
        attributes: true,
        consumed: true,
        withdrawn_jobs: true,
        jobs: true,
        messages: true,
    };

    fn statement(shape: Shape) -> CommitStatement {
        CommitStatement::assemble(&SchemaName::default(), shape)
    }

    #[test]
    fn whole_statement_takes_every_parameter_once() {
        let mut parameters = statement(ALL).parameters;
        parameters.sort_unstable();
        assert_eq!(parameters, (0..60).collect::<Vec<_>>());
    }

    #[test]
    fn parameters_are_numbered_from_one_without_gaps() {
        let CommitStatement { sql, parameters } = statement(Shape::default());
        assert_eq!(parameters.len(), 9, "columns of first events");
        assert!(sql.contains("$9::") && !sql.contains("$10") && !sql.contains("$schema"), "{sql}");
    }
}
