//! Who asked for which change, when, from where, and what they were answered.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::address::address;
use super::page::{Frame, Section, page};
use super::parts::{Mood, State as Shown, When};
use super::visitor::Visitor;
use crate::app::App;
use crate::audit::{self, Recorded};
use crate::http::Query;
use crate::problem::Problem;

const LIMIT: i64 = 100;

#[derive(Template)]
#[template(path = "audit.html")]
struct List {
    frame: Frame,
    rows: Vec<Row>,
    next: Option<String>,
}

struct Row {
    id: i64,
    at: When,
    who: String,
    role: String,
    peer: String,
    what: String,
    /// Where the path does not say it.
    more: String,
    answer: Shown,
}

/// Newest first.
pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let before = query.number("cursor", 1, i64::MAX)?.unwrap_or(i64::MAX);
    query.finish("cursor")?;
    let of_store = |why| Problem::of_store(&why);
    let mut found = audit::list(&app.engine, before, LIMIT + 1).await.map_err(of_store)?;
    let limit = usize::try_from(LIMIT).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| last.id.to_string());
    let frame = Frame::new(&app, visitor, Section::Audit, "Audit");
    Ok(page(&List {
        rows: found.into_iter().map(|recorded| Row::of(&frame, recorded)).collect(),
        next: next.map(|next| address("/audit", &[("cursor", Some(&next))])),
        frame,
    }))
}

impl Row {
    fn of(frame: &Frame, recorded: Recorded) -> Self {
        let answer = match recorded.status {
            Some(status @ 100..400) => Shown::new(status, "✓", Mood::Good),
            Some(status) => Shown::new(status, "✕", Mood::Bad),
            None => Shown::new("not recorded", "?", Mood::Waiting),
        };
        let who = match (recorded.key_name, recorded.key_id) {
            (Some(name), Some(id)) => format!("{name} (key {id})"),
            (name, _) => name.unwrap_or_default(),
        };
        Self {
            id: recorded.id,
            at: frame.when(recorded.at),
            who,
            role: recorded.role,
            peer: recorded.peer.unwrap_or_default(),
            what: format!("{} {}", recorded.method, recorded.path),
            more: recorded.what.unwrap_or_default(),
            answer,
        }
    }
}
