//! Lists, a page at a time, and what they leave out.

use crate::question::Value;

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

/// Rows that are looked at for one answer at most. Not everything that can be asked for has an index of its own: what an index
/// finds is gone through in its order, and whoever asks goes on from there.
pub(super) const LOOKED_AT: usize = 10_000;
/// Rows looked at together where not all of them may be wanted.
const AT_ONCE: usize = 500;

/// A page of a list that is being put together from rows of which not all may be wanted.
pub(super) struct Search<T> {
    found: Vec<T>,
    limit: usize,
    looked_at: usize,
    /// Where to look next.
    pub(super) before: i64,
    /// How many rows to look at there.
    pub(super) at_once: usize,
}

impl<T> Search<T> {
    pub(super) fn new(limit: usize, before: Option<i64>, asked: &Conditions) -> Self {
        let page = beyond(limit);
        Self {
            found: Vec::new(),
            limit,
            looked_at: 0,
            before: before.unwrap_or(i64::MAX),
            at_once: if asked.wanted.is_empty() { page } else { page.max(AT_ONCE) },
        }
    }

    /// Takes the rows that were found there, each with whether it is wanted; the page, once it is known.
    pub(super) fn take(&mut self, rows: Vec<(T, bool)>, number: impl Fn(&T) -> i64) -> Option<Page<T>> {
        let is_last = rows.len() < self.at_once;
        self.looked_at += rows.len();
        for (row, is_wanted) in rows {
            self.before = number(&row);
            if is_wanted {
                self.found.push(row);
            }
            if self.found.len() > self.limit {
                return Some(Page::of(std::mem::take(&mut self.found), self.limit, number));
            }
        }
        let next = if is_last { None } else { Some(self.before) };
        (is_last || self.looked_at >= LOOKED_AT)
            .then(|| Page { items: std::mem::take(&mut self.found), next })
    }
}

/// What is asked for, so that each question is planned for what it asks: what an index finds, and which of that is wanted.
#[derive(Clone, Default)]
pub(super) struct Conditions {
    found: String,
    wanted: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Of what the others find, only this; `?` stands for the value.
    pub(super) fn find(&mut self, condition: &str, value: impl Into<Value>) {
        let condition = self.with(condition, value);
        and(&mut self.found, &condition);
    }

    /// Of what is found, only this is wanted. It is said of the columns that are read.
    pub(super) fn want(&mut self, condition: &str, value: impl Into<Value>) {
        let condition = self.with(condition, value);
        self.want_that(&condition);
    }

    /// The same about no value.
    pub(super) fn want_that(&mut self, condition: &str) {
        and(&mut self.wanted, condition);
    }

    fn with(&mut self, condition: &str, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        condition.replace('?', &format!("${}", self.values.len()))
    }

    /// The question that this begins in each dialect, for so many of what is found in this order, and whether each is wanted.
    pub(super) fn texts(&self, sqlite: &str, postgres: &str, order: &str) -> [String; 2] {
        // A file would number `$1` by where it stands.
        [self.text(sqlite, order).replace('$', "?"), self.text(postgres, order)]
    }

    fn text(&self, select: &str, order: &str) -> String {
        let Self { found, wanted, values } = self;
        let wanted = if wanted.is_empty() { "true" } else { wanted };
        let limit = values.len() + 1;
        format!(
            "select found.*, coalesce({wanted}, false) \
             from ({select} where {found} order by {order} limit ${limit}) as found order by {order}"
        )
    }

    /// What it is asked with.
    pub(super) fn values(self, limit: usize) -> Vec<Value> {
        let mut values = self.values;
        values.push(limit.into());
        values
    }
}

fn and(text: &mut String, condition: &str) {
    if !text.is_empty() {
        text.push_str(" and ");
    }
    text.push_str(condition);
}
