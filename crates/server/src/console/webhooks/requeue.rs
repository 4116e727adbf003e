//! Sends what was given up after all: one, or all that match, once it was shown how many they are.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::{SagaId, Timestamp};
use backstitch_modules::webhooks::{Requeueable, Which};

use super::dead_letters::{Fields, KNOWN};
use super::delivery_place;
use crate::app::App;
use crate::audit::{filtered, said};
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::outcomes::{Once, Outcome, Taken};
use crate::console::page::{Frame, Section, page};
use crate::console::visitor::Visitor;
use crate::http::{DeadLetterInPath, Query};
use crate::problem::Problem;

/// Dead letters that one form is about. More are done by sending it again.
const MOST: usize = 1000;

const TITLE: &str = "Many dead letters at once";

#[derive(Template)]
#[template(path = "webhooks/requeue.html")]
struct Preview {
    frame: Frame,
    once: SagaId,
    fields: Fields,
    back: String,
    found: Requeueable,
}

#[derive(Template)]
#[template(path = "webhooks/requeued.html")]
struct Page<'a> {
    frame: Frame,
    back: String,
    report: &'a Report,
}

/// What came of it.
#[derive(Default)]
pub(in crate::console) struct Report {
    fields: Fields,
    requeued: usize,
    /// What matches and can be sent still.
    left: Requeueable,
}

/// Sends one of them.
pub(in crate::console) async fn one(
    State(app): State<App>,
    DeadLetterInPath(id): DeadLetterInPath,
) -> Result<Response, Problem> {
    let requeued = app.webhooks.parts.dead_letters.requeue(id).await?;
    Ok(Done::Requeued.and_back_to(&delivery_place(requeued.delivery)))
}

/// How many it would be.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let fields = Fields { waiting: true, ..Fields::asked(&mut query) };
    query.finish(KNOWN)?;
    let found = app.webhooks.parts.dead_letters.requeueable(&fields.which()?, MOST).await?;
    let frame = Frame::new(&app, visitor, Section::Webhooks, TITLE);
    let (once, back) = (app.engine.ids().next(frame.now), back(&fields));
    Ok(page(&Preview { frame, once, fields, back, found }))
}

/// Sends them: those that were shown, and none that was given up since.
pub(in crate::console) async fn many(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let once = match Once::take(&app, &form, &visitor)? {
        Taken::Now(once) => once,
        Taken::Before(answer) => return Ok(answer),
    };
    let fields = Fields::carried(&form);
    let expected = "send the form from its page";
    let seen: usize = form.read("seen", |text| text.parse().ok(), expected)?;
    let up_to: i64 = form.read("up_to", |text| text.parse().ok(), expected)?;
    let given_up: i64 = form.read("given_up", |text| text.parse().ok(), expected)?;
    let all = fields.which()?;
    let until = Timestamp::from_micros(given_up.saturating_add(1));
    let until = all.until.map_or(until, |asked| asked.min(until));
    let shown = Which { until: Some(until), up_to: Some(up_to), ..all.clone() };
    let letters = &app.webhooks.parts.dead_letters;
    let (mut requeued, mut after) = (0, None);
    while requeued < seen {
        let done = letters.requeue_matching(&shown, seen - requeued, after).await?;
        requeued += done.requeued;
        match done.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let left = letters.requeueable(&all, MOST).await?;
    let filter = filtered(fields.pairs());
    let what = format!("requeue: {requeued} of {seen} dead letters{filter}");
    Ok(said(once.came_to(Outcome::DeadLetters(Report { fields, requeued, left })), what))
}

/// What came of it, on a page.
pub(in crate::console) fn shown(app: &App, visitor: Visitor, report: &Report) -> Response {
    let frame = Frame::new(app, visitor, Section::Webhooks, TITLE);
    page(&Page { frame, back: back(&report.fields), report })
}

fn back(fields: &Fields) -> String {
    fields.address("/webhooks/dead-letters", None)
}
