//! Lists, a page at a time.

use backstitch_modules::webhooks;
use serde::Serialize;

use crate::http::Query;
use crate::problem::Problem;

const LIMIT: usize = 50;
pub(super) const MOST: usize = 500;

/// A page of a list, newest first. It may be short, or empty, and another one follow.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Page<T> {
    items: Vec<T>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    next_cursor: Option<i64>,
}

impl<T> Page<T> {
    pub(super) fn of<K>(page: webhooks::Page<K>, shown: impl FnMut(K) -> T) -> Self {
        Self { items: page.items.into_iter().map(shown).collect(), next_cursor: page.next }
    }
}

/// Which page is asked for.
pub(super) struct Asked {
    pub(super) limit: usize,
    pub(super) before: Option<i64>,
}

impl Asked {
    pub(super) fn read(query: &mut Query) -> Result<Self, Problem> {
        Ok(Self {
            limit: query.number("limit", 1, MOST)?.unwrap_or(LIMIT),
            before: query.read("cursor", positive, "use the next_cursor of the page before")?,
        })
    }
}

/// The number of something, in a parameter.
pub(super) fn number(query: &mut Query, name: &str) -> Result<Option<i64>, Problem> {
    query.read(name, positive, "use a number, as the lists have it")
}

fn positive(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| *number > 0)
}
