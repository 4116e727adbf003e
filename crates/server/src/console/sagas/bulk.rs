//! The same for many sagas: first how many, then for those, and none that came later.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::{Error, Resolution, SagaId, SagaState, Status, StepId, StepStatus, Summary, Timestamp};
use futures::{StreamExt, stream};
use tokio::time::Instant;

use super::operate::resolution;
use super::wanted::{KNOWN, Wanted};
use crate::app::App;
use crate::audit::{filtered, said};
use crate::console::form::Form;
use crate::console::outcomes::{Once, Outcome, Taken};
use crate::console::page::{Frame, Section, page, told};
use crate::console::parts::{Id, State as Shown};
use crate::console::visitor::Visitor;
use crate::http::Query;
use crate::problem::{Kind, Problem};
use crate::routes::resolution_word;

/// Sagas that one form is about. More are done by sending it again.
const MOST: usize = 1000;
/// Sagas that are looked at at once.
const AT_ONCE: usize = 16;
/// Sagas that are listed for whoever decides.
const LISTED: usize = 20;
/// Sagas that are read from the list at a time.
const PAGE: usize = 500;
/// Pages of each status that are looked through: where few match, the rest is found by asking for those of a time.
const MOST_PAGES: usize = 20;
/// How long a form waits for sagas to come to the next step that is stuck.
const PATIENCE: Duration = Duration::from_secs(20);
const TITLE: &str = "Many sagas at once";

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
    once: SagaId,
    action: Action,
    wanted: Wanted,
    found: Vec<Summary>,
    count: usize,
    more: bool,
    bounds: Option<Bounds>,
    /// Where they are stuck, for those that decide about it.
    stuck: Vec<StuckGroup>,
}

/// Sagas that are stuck at the same step for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::console) struct StuckGroup {
    step: String,
    error: String,
    sagas: usize,
}

impl StuckGroup {
    fn all(found: &[Summary]) -> Vec<Self> {
        let mut groups: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for stuck in found.iter().filter_map(|saga| saga.stuck.as_ref()) {
            *groups.entry((stuck.step.as_str(), stuck.error.message.as_str())).or_default() += 1;
        }
        let group = |((step, error), sagas): ((&str, &str), usize)| Self {
            step: step.to_owned(),
            error: error.to_owned(),
            sagas,
        };
        groups.into_iter().map(group).collect()
    }
}

#[derive(Template)]
#[template(path = "sagas/bulk_done.html")]
struct Page<'a> {
    frame: Frame,
    report: &'a Report,
}

/// What came of it.
pub(in crate::console) struct Report {
    action: Action,
    wanted: Wanted,
    done: usize,
    /// Those with steps that are still to be decided about.
    undecided: Vec<(SagaId, usize)>,
    /// Those that were not as they were shown.
    moved_on: Vec<(SagaId, String)>,
    /// Those to which it could not be done.
    failed: Vec<(SagaId, String)>,
    more: bool,
    /// Where they were stuck.
    stuck: Vec<StuckGroup>,
}

/// What those have in common that were shown, and what came later has not.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The newest of them.
    newest: SagaId,
    /// When one of them changed last.
    changed: Timestamp,
}

impl Bounds {
    fn of(found: &[Summary]) -> Option<Self> {
        let newest = found.iter().map(|saga| saga.id).max()?;
        let changed = found.iter().map(|saga| saga.updated_at).max()?;
        Some(Self { newest, changed })
    }

    fn carried(form: &Form) -> Result<Self, Problem> {
        let expected = "send the form from its page";
        let newest = form.read("newest", |text| text.parse().ok(), expected)?;
        let changed = form.read("changed", |text| text.parse().ok(), expected)?;
        Ok(Self { newest, changed: Timestamp::from_micros(changed) })
    }

    fn contain(self, action: Action, saga: &Summary) -> bool {
        // A rollback that was taken up since and has failed again is to be looked at again. What runs changes all the time.
        let is_as_it_was = action == Action::Cancel || saga.updated_at <= self.changed;
        saga.id <= self.newest && is_as_it_was
    }
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
    let (count, bounds, stuck) = (found.len(), Bounds::of(&found), StuckGroup::all(&found));
    found.truncate(LISTED);
    let frame = Frame::new(&app, visitor, Section::Sagas, TITLE);
    let once = app.engine.ids().next(frame.now);
    Ok(page(&Preview { frame, once, action, wanted, found, count, more, bounds, stuck }))
}

/// Does it, to those that were there when it was shown how many they are.
pub(in crate::console) async fn take(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let once = match Once::take(&app, &form, &visitor)? {
        Taken::Now(once) => once,
        Taken::Before(answer) => return Ok(answer),
    };
    let action = form.read("action", Action::read, "use cancel or resolve")?;
    let wanted = Wanted::carried(&form)?;
    let bounds = Bounds::carried(&form)?;
    let seen: usize = form.read("seen", |text| text.parse().ok(), "send the form from its page")?;
    let note = form.filled("note").ok_or_else(|| Problem::field("note", "is empty: say why, for the log"))?;
    let note = visitor.note(note);
    let how = match action {
        Action::Cancel => None,
        Action::Resolve => Some(form.read("how", resolution, "use retry, skip or done")?),
    };
    let (found, more) = matching(&app, action, &wanted, Some(bounds)).await?;
    if found.len() > seen {
        let detail = format!(
            "the page showed {seen} sagas, and {} match by now: nothing was done; look again and decide anew",
            found.len()
        );
        return Err(Problem::new(Kind::StaleForm, detail));
    }
    let (all, until) = (found.len(), Instant::now() + PATIENCE);
    let stuck = StuckGroup::all(&found);
    let outcomes: Vec<(SagaId, Result<usize, Error>)> = stream::iter(found)
        .map(|saga| {
            let (app, note) = (&app, &note);
            async move {
                let done = match how {
                    None => app.engine.cancel(saga.id, note).await.map(|()| 0),
                    Some(how) => resolve_all(app, saga.id, bounds, (how, note), until).await,
                };
                (saga.id, done)
            }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let report = Report { stuck, ..Report::of(action, wanted, outcomes, more) };
    let steps = report.stuck.iter().map(|it| format!("; {} at {}: {}", it.sagas, it.step, it.error));
    let what = format!(
        "{}: {} of {all} sagas{}{}",
        how.map_or("cancel", resolution_word),
        report.done,
        filtered(report.wanted.fields()),
        steps.collect::<String>()
    );
    Ok(said(once.came_to(Outcome::Sagas(report)), what))
}

/// What came of it, on a page.
pub(in crate::console) fn shown(app: &App, visitor: Visitor, report: &Report) -> Response {
    page(&Page { frame: Frame::new(app, visitor, Section::Sagas, TITLE), report })
}

impl Report {
    fn of(action: Action, wanted: Wanted, outcomes: Vec<(SagaId, Result<usize, Error>)>, more: bool) -> Self {
        let mut report = Self {
            action,
            wanted,
            done: 0,
            undecided: Vec::new(),
            moved_on: Vec::new(),
            failed: Vec::new(),
            more,
            stuck: Vec::new(),
        };
        for (id, outcome) in outcomes {
            match outcome {
                Ok(left) => {
                    report.done += 1;
                    report.undecided.extend((left > 0).then_some((id, left)));
                }
                Err(why) => {
                    let has_moved_on = matches!(
                        why,
                        Error::Ended { .. } | Error::Rejected { .. } | Error::Raced(_) | Error::NotFound(_)
                    );
                    let (_, told) = told(why.into());
                    let refused = (id, told.map(|told| told.detail).unwrap_or_default());
                    if has_moved_on { report.moved_on.push(refused) } else { report.failed.push(refused) }
                }
            }
        }
        report
    }
}

/// Decides alike about every step of a saga that is stuck, one after the other: each decision lets it go on, and it stops at the
/// next one. How many are left that it did not come to in time.
async fn resolve_all(
    app: &App,
    id: SagaId,
    shown: Bounds,
    (how, note): (Resolution, &str),
    until: Instant,
) -> Result<usize, Error> {
    let mut saga = app.engine.insight(id).await?.ok_or(Error::NotFound(id))?;
    if saga.saga.updated_at > shown.changed {
        return Err(Error::Raced(id));
    }
    let mut left = stuck(&saga.saga);
    while let Some(step) = left.pop() {
        app.engine.resolve_as_seen(id, saga.seq, step.as_str(), how, note).await?;
        if left.is_empty() {
            break;
        }
        let stops = async { app.engine.find(id).await?.outcome().await };
        let Ok(stopped) = tokio::time::timeout_at(until, stops).await else { return Ok(left.len()) };
        stopped?;
        saga = app.engine.insight(id).await?.ok_or(Error::NotFound(id))?;
        let still = stuck(&saga.saga);
        left.retain(|step| still.contains(step));
    }
    Ok(0)
}

fn stuck(saga: &SagaState) -> Vec<StepId> {
    let failed = saga.status == Status::Failed;
    let steps = saga.steps.iter().filter(|step| failed && step.status == StepStatus::CompensationFailed);
    steps.map(|step| step.id.clone()).collect()
}

/// Those that it can be done to, up to so many, and whether there may be more.
async fn matching(
    app: &App,
    action: Action,
    wanted: &Wanted,
    bounds: Option<Bounds>,
) -> Result<(Vec<Summary>, bool), Problem> {
    let asked = wanted.filter.status;
    let statuses =
        action.statuses().iter().copied().filter(|status| asked.is_none_or(|asked| asked == *status));
    let (mut found, mut more): (Vec<Summary>, bool) = (Vec::new(), false);
    for status in statuses {
        let mut wanted = wanted.clone();
        wanted.filter.status = Some(status);
        // Those that came later are not meant, and are not looked through either.
        let mut before =
            bounds.map(|bounds| SagaId(uuid::Uuid::from_u128(bounds.newest.0.as_u128().saturating_add(1))));
        let mut pages = 0;
        loop {
            if pages == MOST_PAGES {
                more = true;
                break;
            }
            pages += 1;
            let listed = wanted.page(app, before, PAGE).await?;
            let fits = |saga: &Summary| {
                action.fits(saga) && bounds.is_none_or(|bounds| bounds.contain(action, saga))
            };
            found.extend(listed.items.into_iter().filter(fits));
            if found.len() > MOST {
                found.truncate(MOST);
                return Ok((found, true));
            }
            match listed.next {
                Some(next) => before = Some(next),
                None => break,
            }
        }
    }
    Ok((found, more))
}
