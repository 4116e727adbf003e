//! The list of sagas.

use std::borrow::Borrow;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::{Status, Summary};

use super::wanted::{KNOWN, Wanted};
use crate::app::App;
use crate::console::done::Done;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{Id, State as Shown};
use crate::console::visitor::Visitor;
use crate::http::Query;
use crate::problem::Problem;

const LIMIT: usize = 50;

#[derive(Template)]
#[template(path = "sagas/list.html")]
struct List {
    frame: Frame,
    wanted: Wanted,
    definitions: Vec<String>,
    items: Vec<Summary>,
    next: Option<String>,
    statuses: [Status; 6],
}

impl List {
    fn is_asked(&self, status: impl Borrow<Status>) -> bool {
        self.wanted.filter.status == Some(*status.borrow())
    }

    fn time(at: Option<&backstitch::Timestamp>) -> String {
        at.map(|at| backstitch_api::time::rfc3339(*at).to_string()).unwrap_or_default()
    }
}

/// Sagas, newest first.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    let wanted = Wanted::asked(&mut query)?;
    let expected = "use the address of the page before";
    let before = query.read("cursor", |text| text.parse().ok(), expected)?;
    query.finish(KNOWN)?;
    let found = wanted.page(&app, before, LIMIT).await?;
    let next = found.next.map(|next| wanted.address("/sagas", &[("cursor", &next.to_string())]));
    let declared = app.engine.declarations().await?;
    let mut frame = Frame::new(&app, visitor, Section::Sagas, "Sagas").after(done);
    if before.is_none() {
        frame = frame.live("/live");
    }
    Ok(page(&List {
        frame,
        wanted,
        definitions: declared.into_iter().map(|it| it.name.to_string()).collect(),
        items: found.items,
        next,
        statuses: Status::ALL,
    }))
}
