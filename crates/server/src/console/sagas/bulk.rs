//! The same for many sagas: first how many, then for those, and none that came later.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::{Error, Page, SagaId, Status, StepStatus, Summary};
use futures::{StreamExt, stream};

use super::operate::resolution;
use super::wanted::{KNOWN, Wanted};
use crate::app::App;
use crate::console::form::Form;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::State as Shown;
use crate::console::visitor::Visitor;
use crate::http::Query;
use crate::problem::{Kind, Problem};

/// Sagas that one form is about. More are done by sending it again.
const MOST: usize = 1000;
/// Sagas that are looked at at once.
const AT_ONCE: usize = 16;
/// Sagas that are listed for whoever decides.
const LISTED: usize = 20;
/// Sagas that are read from the list at a time.
const PAGE: usize = 500;

/// What is done to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Cancel,
    Resolve,
}

impl Action {
    fn read(text: &str) -> Option<Self> {
        match text {
            "cancel" => Some(Self::Cancel),
            "resolve" => Some(Self::Resolve),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Resolve => "resolve",
        }
    }

    /// Whether this can be done to a saga.
    fn fits(self, saga: &Summary) -> bool {
        match self {
            Self::Cancel => matches!(saga.status, Status::Pending | Status::Running),
            Self::Resolve => saga.status == Status::Failed,
        }
    }

    /// The statuses that are looked through, one after the other, where none is asked for.
    fn statuses(self) -> &'static [Status] {
        match self {
            Self::Cancel => &[Status::Pending, Status::Running],
            Self::Resolve => &[Status::Failed],
        }
    }
}

#[derive(Template)]
#[template(path = "sagas/bulk.html")]
struct Preview {
    frame: Frame,
    action: Action,
    wanted: Wanted,
    found: Vec<Summary>,
    count: usize,
    more: bool,
    newest: Option<SagaId>,
}

#[derive(Template)]
#[template(path = "sagas/bulk_done.html")]
struct Report {
    frame: Frame,
    action: Action,
    wanted: Wanted,
    done: usize,
    refused: Vec<(SagaId, String)>,
    more: bool,
}

/// How many it would be.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let action = query.read("action", Action::read, "use cancel or resolve")?.unwrap_or(Action::Cancel);
    let wanted = Wanted::asked(&mut query)?;
    query.finish(KNOWN)?;
    let (mut found, more) = matching(&app, action, &wanted, None).await?;
    let (count, newest) = (found.len(), found.iter().map(|saga| saga.id).max());
    found.truncate(LISTED);
    let frame = Frame::new(&app, visitor, Section::Sagas, "Many sagas at once");
    Ok(page(&Preview { frame, action, wanted, found, count, more, newest }))
}

/// Does it, to those that were there when it was shown how many they are.
pub(in crate::console) async fn take(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let action = form.read("action", Action::read, "use cancel or resolve")?;
    let wanted = Wanted::carried(&form)?;
    let newest: SagaId = form.read("newest", |text| text.parse().ok(), "send the form from its page")?;
    let seen: usize = form.read("seen", |text| text.parse().ok(), "send the form from its page")?;
    let note = form.filled("note").ok_or_else(|| Problem::field("note", "is empty: say why, for the log"))?;
    let note = visitor.note(note);
    let how = match action {
        Action::Cancel => None,
        Action::Resolve => Some(form.read("how", resolution, "use retry, skip or done")?),
    };
    let (found, more) = matching(&app, action, &wanted, Some(newest)).await?;
    if found.len() > seen {
        let detail = format!(
            "the page showed {seen} sagas, and {} match by now: nothing was done; look again and decide anew",
            found.len()
        );
        return Err(Problem::new(Kind::StaleForm, detail));
    }
    let outcomes: Vec<(SagaId, Result<(), Error>)> = stream::iter(found)
        .map(|saga| {
            let (app, note) = (&app, &note);
            async move {
                let done = match how {
                    None => app.engine.cancel(saga.id, note).await,
                    Some(how) => resolve(app, saga.id, how, note).await,
                };
                (saga.id, done)
            }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let done = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    let refused = outcomes.into_iter().filter_map(|(id, outcome)| Some((id, outcome.err()?.to_string())));
    let frame = Frame::new(&app, visitor, Section::Sagas, "Many sagas at once");
    Ok(page(&Report { frame, action, wanted, done, refused: refused.collect(), more }))
}

/// Decides alike about every step of a saga that is stuck.
async fn resolve(app: &App, id: SagaId, how: backstitch::Resolution, note: &str) -> Result<(), Error> {
    let saga = app.engine.load(id).await?.ok_or(Error::NotFound(id))?;
    let stuck = saga.steps.iter().filter(|step| step.status == StepStatus::CompensationFailed);
    for (nth, step) in stuck.enumerate() {
        match app.engine.resolve(id, step.id.as_str(), how, note).await {
            // The first decision let it go on; the others are made when it stops there again.
            Err(Error::Rejected { .. }) if nth > 0 => break,
            decided => decided?,
        }
    }
    Ok(())
}

/// Those that it can be done to, up to so many, and whether there are more.
async fn matching(
    app: &App,
    action: Action,
    wanted: &Wanted,
    newest: Option<SagaId>,
) -> Result<(Vec<Summary>, bool), Problem> {
    let asked = wanted.filter.status;
    let statuses =
        action.statuses().iter().copied().filter(|status| asked.is_none_or(|asked| asked == *status));
    let mut found: Vec<Summary> = Vec::new();
    for status in statuses {
        let mut wanted = wanted.clone();
        wanted.filter.status = Some(status);
        let mut before = None;
        loop {
            let Page { items, next } = wanted.page(app, before, PAGE).await?;
            let fits = |saga: &Summary| action.fits(saga) && newest.is_none_or(|newest| saga.id <= newest);
            found.extend(items.into_iter().filter(fits));
            if found.len() > MOST {
                found.truncate(MOST);
                return Ok((found, true));
            }
            match next {
                Some(next) => before = Some(next),
                None => break,
            }
        }
    }
    Ok((found, false))
}
