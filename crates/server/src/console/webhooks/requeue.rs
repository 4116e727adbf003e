//! Sends what was given up after all: one, or all that match, once it was shown how many they are.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::dead_letters::{Fields, KNOWN};
use super::delivery_place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::page::{Frame, Section, page};
use crate::console::visitor::Visitor;
use crate::http::{DeadLetterInPath, Query};
use crate::problem::{Kind, Problem};

/// Dead letters that one form is about. More are done by sending it again.
const MOST: usize = 1000;

#[derive(Template)]
#[template(path = "webhooks/requeue.html")]
struct Preview {
    frame: Frame,
    fields: Fields,
    back: String,
    count: usize,
    more: bool,
    /// How many were requeued, once they were.
    done: Option<usize>,
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
    let (count, more) = counted(&app, &fields).await?;
    let frame = Frame::new(&app, visitor, Section::Webhooks, "Many dead letters at once");
    let back = fields.address("/webhooks/dead-letters", None);
    Ok(page(&Preview { frame, fields, back, count, more, done: None }))
}

/// Sends them: the oldest that match, and no more than were shown.
pub(in crate::console) async fn many(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let fields = Fields::carried(&form);
    let seen: usize = form.read("seen", |text| text.parse().ok(), "send the form from its page")?;
    let (count, _) = counted(&app, &fields).await?;
    if count > seen {
        let detail = format!(
            "the page showed {seen} dead letters, and {count} match by now: nothing was done; look again and decide anew"
        );
        return Err(Problem::new(Kind::StaleForm, detail));
    }
    let which = fields.which()?;
    let (mut requeued, mut after) = (0, None);
    while requeued < seen {
        let done = app.webhooks.parts.dead_letters.requeue_matching(&which, seen - requeued, after).await?;
        requeued += done.requeued;
        match done.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let (count, more) = counted(&app, &fields).await?;
    let frame = Frame::new(&app, visitor, Section::Webhooks, "Many dead letters at once");
    let back = fields.address("/webhooks/dead-letters", None);
    Ok(page(&Preview { frame, fields, back, count, more, done: Some(requeued) }))
}

/// How many match and were not sent after all, up to so many, and whether there are more.
async fn counted(app: &App, fields: &Fields) -> Result<(usize, bool), Problem> {
    let which = fields.which()?;
    let (mut count, mut before) = (0, None);
    while count <= MOST {
        let found = app.webhooks.parts.dead_letters.list(&which, MOST + 1 - count, before).await?;
        count += found.items.len();
        match found.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    Ok((count.min(MOST), count > MOST))
}
