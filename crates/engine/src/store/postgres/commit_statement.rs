//! The statement that writes a batch, assembled of the parts that the batch needs. The server sets up each part of a
//! statement for every call, so the statement with all parts takes seven times as long for one event as the one with the
//! parts for it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The parts of the statement by their names.
static PARTS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let named = include_str!("commit.sql").split("-- name: ").skip(1);
    named.filter_map(|part| part.split_once('\n')).map(|(name, text)| (name, text.trim_end())).collect()
});

/// The first line of every statement, by which it is found among those that the server runs.
const TITLE: &str = "-- A batch of decisions";

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
    fn parts(self) -> impl Iterator<Item = &'static str> {
        let always = |name| Some(name);
        let of = |has_rows: bool, name| has_rows.then_some(name);
        let or = |has_rows: bool, name, nothing| Some(if has_rows { name } else { nothing });
        let parts = [
            or(self.changed_rows, "locked", "nothing_locked"),
            or(self.claims, "claimed", "nothing_claimed"),
            always("gate"),
            of(self.more_events, "more_events"),
            of(self.changed_rows, "changed_rows"),
            of(self.new_rows, "new_rows"),
            of(self.attributes, "new_attributes"),
            of(self.consumed, "consumed"),
            of(self.withdrawn_jobs, "withdrawn_jobs"),
            of(self.jobs, "new_jobs"),
            of(self.messages, "new_messages"),
        ];
        parts.into_iter().flatten()
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
    /// The statement for batches of this shape.
    pub(super) fn of(shape: Shape) -> Arc<Self> {
        static ASSEMBLED: LazyLock<Mutex<HashMap<Shape, Arc<CommitStatement>>>> =
            LazyLock::new(Mutex::default);
        let mut assembled = ASSEMBLED.lock().unwrap_or_else(PoisonError::into_inner);
        assembled.entry(shape).or_insert_with(|| Arc::new(Self::assemble(shape))).clone()
    }

    fn assemble(shape: Shape) -> Self {
        let text = |name| PARTS.get(name).copied().unwrap_or_default();
        let parts: Vec<&str> = shape.parts().map(text).collect();
        let whole = format!("with\n{}\n{}", parts.join(",\n"), text("refused"));
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

    #[test]
    fn every_part_of_the_file_is_used() {
        let used: Vec<&str> = ALL.parts().chain(Shape::default().parts()).chain(["refused"]).collect();
        assert!(used.iter().all(|name| PARTS.contains_key(name)), "{used:?}");
        assert!(PARTS.keys().all(|name| used.contains(name)), "{:?}", PARTS.keys());
    }

    #[test]
    fn whole_statement_takes_every_parameter_once() {
        let mut parameters = CommitStatement::of(ALL).parameters.clone();
        parameters.sort_unstable();
        assert_eq!(parameters, (0..60).collect::<Vec<_>>());
    }

    #[test]
    fn parameters_are_numbered_from_one_without_gaps() {
        let statement = CommitStatement::of(Shape::default());
        assert_eq!(statement.parameters.len(), 9, "columns of first events");
        assert!(statement.sql.contains("$9::") && !statement.sql.contains("$10"), "{}", statement.sql);
    }
}
