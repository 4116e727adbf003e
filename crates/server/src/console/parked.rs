//! Items that the database rejected, and how they are tried again.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::store::parked::{ParkedFilter, ParkedItem};

use super::address::{address, escaped};
use super::done::Done;
use super::form::Form;
use super::page::{Frame, Section, page};
use super::parts::{Id, When};
use super::visitor::Visitor;
use crate::app::App;
use crate::audit::said;
use crate::http::{ParkedInPath, Query};
use crate::parked::{self, ParkedId};
use crate::problem::Problem;
use crate::routes::parked_page;

const LIMIT: usize = 50;

#[derive(Template)]
#[template(path = "parked.html")]
struct List {
    frame: Frame,
    area: String,
    reason: String,
    is_filtered: bool,
    rows: Vec<Row>,
    next: Option<String>,
}

struct Row {
    id: String,
    /// Where its forms are sent.
    place: String,
    effect: &'static str,
    reason: String,
    attempts: u32,
    parked: When,
    next_try: When,
    may_have_conflict: bool,
}

/// Parked items, by area and item.
pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    let after = query.read("cursor", ParkedId::parse, "use the address of the page before")?;
    let text = |text: Option<String>| text.filter(|text| !text.is_empty());
    let filter = ParkedFilter {
        area: text(query.text("area")),
        reason: text(query.text("reason")),
        after: after.map(|ParkedId { area, item }| (area, item)),
        ..ParkedFilter::default()
    };
    query.finish("area, reason or cursor")?;
    let (found, next) = parked_page(&app, &filter, LIMIT).await?;
    let frame = Frame::new(&app, visitor, Section::Doctor, "Parked items").after(done).live("/live");
    let (area, reason) = (filter.area.as_deref(), filter.reason.as_deref());
    let next = next.map(|next| {
        let cursor = next.to_string();
        address("/parked", &[("area", area), ("reason", reason), ("cursor", Some(&cursor))])
    });
    Ok(page(&List {
        rows: found.iter().map(|parked| Row::of(&frame, parked)).collect(),
        is_filtered: area.is_some() || reason.is_some(),
        area: filter.area.clone().unwrap_or_default(),
        reason: filter.reason.clone().unwrap_or_default(),
        next,
        frame,
    }))
}

/// Tries one again.
pub(super) async fn retry(
    State(app): State<App>,
    ParkedInPath(id): ParkedInPath,
    _form: Form,
) -> Result<Response, Problem> {
    parked::retry(&app, &id).await?;
    Ok(Done::TriedAgain.and_back_to("/parked"))
}

/// Tries all again that the page lists by its filters, on its other pages too.
pub(super) async fn retry_all(State(app): State<App>, form: Form) -> Result<Response, Problem> {
    // As they are, spaces too: the list takes them so.
    let given = |name| Some(form.text(name)).filter(|text| !text.is_empty());
    let (area, reason) = (given("area"), given("reason"));
    let place = address("/parked", &[("area", area), ("reason", reason)]);
    let (_, what) = parked::retry_all(&app, area.map(str::to_owned), reason.map(str::to_owned)).await?;
    Ok(said(Done::TriedAgain.and_back_to(&place), what))
}

/// Removes the row that is in the way of one, and tries it again.
pub(super) async fn remove_conflict(
    State(app): State<App>,
    ParkedInPath(id): ParkedInPath,
    _form: Form,
) -> Result<Response, Problem> {
    let removed = parked::remove_conflict(&app, &id).await?;
    let done = if removed.retried { Done::ConflictRemoved } else { Done::ConflictRemovedOnly };
    Ok(said(done.and_back_to("/parked"), parked::removed_words(&removed)))
}

impl Row {
    fn of(frame: &Frame, parked: &ParkedItem) -> Self {
        let id = ParkedId::of(parked).to_string();
        Self {
            place: format!("/parked/{}", escaped(&id)),
            id,
            effect: parked::effect(&parked.area),
            reason: parked.reason.clone(),
            attempts: parked.attempts,
            parked: frame.when(parked.parked_at),
            next_try: frame.when(parked.retry_at),
            may_have_conflict: parked::may_have_conflict(&parked.area),
        }
    }
}
