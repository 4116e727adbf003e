//! Lists: one page, or all pages.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::{Ask, Error};
use super::output;
use super::session::Session;
use super::table::{Column, plain, table};
use crate::commands::Failure;

/// The part of a list.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Paging {
    /// Page size.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// The next page: the cursor at the end of the previous page.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// All pages.
    #[arg(long, conflicts_with = "cursor")]
    pub(crate) all: bool,
}

/// A list and its display.
pub(crate) struct Listing<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: Vec<(&'a str, String)>,
    pub(crate) columns: &'a [Column],
    /// The message for an empty list.
    pub(crate) nothing: &'a str,
}

/// A page.
pub(crate) struct ListPage {
    pub(crate) text: String,
    /// The items, unchanged.
    pub(crate) raw: Vec<Box<RawValue>>,
    pub(crate) next: Option<String>,
}

#[derive(Deserialize)]
struct Written {
    items: Vec<Box<RawValue>>,
    next_cursor: Value,
}

impl ListPage {
    pub(crate) async fn get(
        session: &Session,
        path: &str,
        query: &[(&str, String)],
        limit: Option<u32>,
        cursor: Option<String>,
    ) -> Result<Self, Error> {
        let mut query = query.to_vec();
        query.extend(limit.map(|limit| ("limit", limit.to_string())));
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let answer = session.ask(Ask::get(path).query(&query)).await?;
        let written: Written = serde_json::from_str(&answer.text)
            .map_err(|why| session.client.stranger(&format!("its list cannot be read: {why}")))?;
        let next = Some(&written.next_cursor).filter(|cursor| !cursor.is_null()).map(plain);
        Ok(Self { text: answer.text, raw: written.items, next })
    }

    pub(crate) fn items(&self) -> Vec<Value> {
        // Each was parsed as JSON before.
        self.raw.iter().map(|raw| serde_json::from_str(raw.get()).unwrap_or_default()).collect()
    }
}

/// Shows a list: as tables, or with `--json` one page per line.
pub(crate) async fn list(session: &Session, listing: Listing<'_>, paging: Paging) -> Result<(), Failure> {
    let Listing { path, query, columns, nothing } = listing;
    let mut cursor = paging.cursor;
    let mut shown = 0;
    loop {
        let page = ListPage::get(session, path, &query, paging.limit, cursor).await?;
        let items = page.items();
        if session.output.json {
            session.output.json(&page.text)?;
        } else if !items.is_empty() {
            let text = table(&items, columns, shown == 0, session.output, session.now());
            output::print(&format!("{text}\n"))?;
        }
        shown += items.len();
        cursor = page.next;
        match &cursor {
            Some(_) if paging.all => {}
            Some(next) => {
                session.output.aside(&format!("there are more: --cursor {next}, or --all"));
                return Ok(());
            }
            None => break,
        }
    }
    if shown == 0 {
        session.output.aside(nothing);
    }
    Ok(())
}

/// Shows a log from its beginning, or after an event: with `--json` one event per line.
pub(crate) async fn log(
    session: &Session,
    path: &str,
    after: Option<u64>,
    limit: Option<u32>,
    columns: &[Column],
) -> Result<(), Failure> {
    let mut cursor = after.map(|after| after.to_string());
    let mut left = limit.unwrap_or(u32::MAX);
    let mut titled = true;
    while left > 0 {
        let page = ListPage::get(session, path, &[], limit.map(|_| left.min(1000)), cursor).await?;
        if session.output.json {
            for event in &page.raw {
                session.output.json(event.get())?;
            }
        } else if !page.raw.is_empty() {
            let text = table(&page.items(), columns, titled, session.output, session.now());
            output::print(&format!("{text}\n"))?;
            titled = false;
        }
        left = left.saturating_sub(u32::try_from(page.raw.len()).unwrap_or(u32::MAX));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}
