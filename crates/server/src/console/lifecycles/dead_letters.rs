//! Requests that nobody could make sense of.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::lifecycles::DeadLetter;

use crate::app::App;
use crate::console::address::address;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::When;
use crate::console::visitor::Visitor;
use crate::http::Query;
use crate::problem::Problem;

const LIMIT: usize = 20;
/// Bytes of a request that are shown.
const SHOWN: usize = 4096;

#[derive(Template)]
#[template(path = "lifecycles/dead_letters.html")]
struct List {
    frame: Frame,
    rows: Vec<Row>,
    next: Option<String>,
}

struct Row {
    id: i64,
    at: When,
    source: String,
    reason: String,
    body: String,
    size: usize,
}

/// Newest first.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let before = query.number("cursor", 1, i64::MAX)?;
    query.finish("cursor")?;
    let mut letters = app.lifecycles.parts.dead_letters(before, LIMIT + 1).await?;
    let more = letters.len() > LIMIT;
    letters.truncate(LIMIT);
    let next = letters.last().filter(|_| more).map(|last| last.id.to_string());
    let frame = Frame::new(&app, visitor, Section::Lifecycles, "Requests that nobody understood");
    let row = |letter: DeadLetter| Row {
        id: letter.id,
        at: frame.when(letter.at),
        source: letter.source,
        reason: letter.reason,
        body: String::from_utf8_lossy(&letter.body[..letter.body.len().min(SHOWN)]).into_owned(),
        size: letter.body.len(),
    };
    Ok(page(&List {
        rows: letters.into_iter().map(row).collect(),
        next: next.map(|next| address("/lifecycle-dead-letters", &[("cursor", Some(&next))])),
        frame,
    }))
}
