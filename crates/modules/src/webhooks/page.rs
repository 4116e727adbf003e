//! Lists, a page at a time, and what they leave out.

use super::statement::Value;

/// A page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// What to ask for the next one with; none on the last.
    pub next: Option<i64>,
}

/// How many are asked for, so that it is known whether there is another page.
pub(super) fn beyond(limit: usize) -> usize {
    limit.saturating_add(1)
}

impl<T> Page<T> {
    /// A page of what was found when [one more](beyond) was asked for.
    pub(super) fn of(mut items: Vec<T>, limit: usize, number: impl Fn(&T) -> i64) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(number);
        Self { items, next }
    }
}

/// Conditions as far as they are asked for, so that each question is planned for what it asks. Placeholders are numbered
/// in the order they stand, which both dialects read alike.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) sqlite: String,
    pub(super) postgres: String,
    pub(super) values: Vec<Value>,
}

impl Conditions {
    /// Adds `condition`, in which `?` stands for the value.
    pub(super) fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.and_in_two(condition, condition, value);
    }

    /// The same where the dialects differ.
    pub(super) fn and_in_two(&mut self, sqlite: &str, postgres: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        let place = format!("${}", self.values.len());
        self.add(&sqlite.replace('?', &place), &postgres.replace('?', &place));
    }

    /// Adds a condition that is about no value.
    pub(super) fn and_that(&mut self, condition: &str) {
        self.add(condition, condition);
    }

    fn add(&mut self, sqlite: &str, postgres: &str) {
        for (text, condition) in [(&mut self.sqlite, sqlite), (&mut self.postgres, postgres)] {
            text.push_str(if text.is_empty() { "where " } else { " and " });
            text.push_str(condition);
        }
    }

    /// A question with these conditions and what comes after them, in both dialects.
    pub(super) fn after(
        mut self,
        sqlite: &str,
        postgres: &str,
        order: &str,
        limit: usize,
    ) -> (String, String, Vec<Value>) {
        self.values.push(limit.into());
        let place = self.values.len();
        let whole = |select: &str, conditions: &str| format!("{select} {conditions} {order} limit ${place}");
        (whole(sqlite, &self.sqlite), whole(postgres, &self.postgres), self.values)
    }
}
