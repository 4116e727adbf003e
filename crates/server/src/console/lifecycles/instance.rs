//! One thing that a machine describes: where it stands, how it got there, and where it may go.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::lifecycles::{Event, Kind, Machine, Recorded, Standing};

use super::diagram::{self, FAILED, look};
use super::{machine_place, place, whole};
use crate::app::App;
use crate::console::address::address;
use crate::console::done::Done;
use crate::console::drawing::Drawing;
use crate::console::excerpt::Excerpt;
use crate::console::log_pages::{self, LogPages};
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{Id, Mood, State as Shown, When};
use crate::console::visitor::Visitor;
use crate::http::{LifecycleInPath, Query};
use crate::problem::Problem;
use crate::routes::told_of_lifecycle as told;

/// Events that are shown at once: the newest, and the others by their pages.
const EVENTS: u64 = 500;
/// The kind of an error that names none.
const INTERNAL: &str = "internal";

#[derive(Template)]
#[template(path = "lifecycles/instance.html")]
struct Page {
    frame: Frame,
    here: String,
    machine_place: String,
    standing: Standing,
    id: Id,
    state: Shown,
    seen: String,
    drawing: Option<Drawing>,
    input: Option<Excerpt>,
    /// Where somebody may send it.
    targets: Vec<String>,
    /// What it can fail with; nothing where it cannot.
    kinds: Vec<String>,
    /// Where a start would let it go on; nothing where it is at its end.
    start: Option<String>,
    /// Whether it waits in a pause state, and can be abandoned there.
    can_be_abandoned: bool,
    pause_expires_at: Option<When>,
    /// The queue whose workers it waits for.
    waits_for_worker: Option<String>,
    is_stuck: bool,
    events: Vec<Line>,
    pages: LogPages,
}

/// An event in words.
struct Line {
    seq: u64,
    at: When,
    name: &'static str,
    what: String,
    particulars: Excerpt,
}

/// Everything about one of them.
pub(in crate::console) async fn show(
    State(app): State<App>,
    LifecycleInPath { machine: name, key }: LifecycleInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    let asked = log_pages::asked(&mut query)?;
    query.finish(log_pages::AFTER)?;
    let parts = &app.lifecycles.parts;
    let standing = told(&app, parts.get(&name, &key).await).await?;
    let machine = parts.machines.machine(&name, standing.version).await?;
    let here = place(&name, &key);
    let pages = LogPages::of(&here, standing.instance.seq, asked, EVENTS);
    let log = parts.log(standing.id, pages.after, usize::try_from(EVENTS).unwrap_or(usize::MAX)).await?;
    let mut frame = Frame::new(&app, visitor, Section::Lifecycles, format!("{name} {key}")).after(done);
    if !standing.ended && pages.is_newest {
        frame = frame.live(address("/live", &[("definition", Some(&name))]));
    }
    let state = &standing.instance.state;
    let kind = machine.kind(state);
    let (_, shape, mood) = kind.map_or(("", "?", Mood::Quiet), |kind| look(kind, state));
    Ok(page(&Page {
        machine_place: machine_place(&name),
        id: Id::of(standing.id),
        state: Shown::new(state, shape, mood),
        seen: seen(&standing),
        drawing: diagram::drawn(&machine, &[], Some(state)),
        input: standing
            .instance
            .given
            .input
            .as_ref()
            .map(|input| Excerpt::of_json(input.as_str(), || whole::at(&here, None))),
        targets: targets(&machine, &standing),
        kinds: kinds(&machine, &standing),
        start: start(kind, &standing),
        can_be_abandoned: !standing.ended && matches!(kind, Some(Kind::Pause(_))),
        pause_expires_at: standing.instance.pause_expires_at(&machine).map(|at| frame.when(at)),
        waits_for_worker: parts.waits_for_worker(&standing, &machine).await?.map(str::to_owned),
        is_stuck: standing.stuck_at.is_some_and(|at| at <= frame.now),
        events: log.iter().map(|recorded| Line::of(&frame, &here, recorded)).collect(),
        pages,
        here,
        frame,
        standing,
    }))
}

/// What a form says that its page showed.
pub(super) fn seen(standing: &Standing) -> String {
    format!("{}, event {}", standing.instance.state, standing.instance.seq)
}

/// Only where the machine has an edge to. One that waits for a start is started, and what fails is failed.
fn targets(machine: &Machine, standing: &Standing) -> Vec<String> {
    let state = &standing.instance.state;
    if standing.ended || matches!(machine.kind(state), Some(Kind::Pause(_))) {
        return Vec::new();
    }
    machine.follows(state).filter(|to| *to != FAILED).map(str::to_owned).collect()
}

fn kinds(machine: &Machine, standing: &Standing) -> Vec<String> {
    if standing.ended || !machine.can_fail(&standing.instance.state) {
        return Vec::new();
    }
    let mut kinds = machine.draft().error_kinds.clone();
    if !kinds.iter().any(|kind| kind == INTERNAL) {
        kinds.push(INTERNAL.to_owned());
    }
    kinds
}

fn start(kind: Option<&Kind>, standing: &Standing) -> Option<String> {
    match kind {
        _ if standing.ended => None,
        Some(Kind::Pause(again)) => Some(format!("Start it again: it goes on in {again}")),
        _ => Some("Start it again where it stands".to_owned()),
    }
}

impl Line {
    fn of(frame: &Frame, here: &str, recorded: &Recorded) -> Self {
        let (seq, name) = (recorded.seq, recorded.event.name());
        let (what, particulars) = told_of(&recorded.event);
        let particulars = Excerpt::of(particulars, || whole::at(here, Some(seq)));
        Self { seq, at: frame.when(recorded.at), name, what, particulars }
    }
}

/// What an event is, and what it carries.
pub(super) fn told_of(event: &Event) -> (String, String) {
    let state = event.state().unwrap_or_default();
    match event {
        Event::Started(started) => {
            (format!("in {state}, version {}", started.version), text(started.input.as_ref()))
        }
        Event::Restarted { given, .. } => (format!("start {}", event.attempt()), text(given.input.as_ref())),
        Event::Transitioned { from, to, data, error, .. } => {
            let error = error.as_ref().map(|it| format!("after {}: {} ", it.kind, it.message));
            let mark = data.as_ref().filter(|data| data.is_unparsed()).map(|_| " unparsed: true");
            let data = text(data.as_ref()) + mark.unwrap_or_default();
            (format!("{from} → {to}"), error.unwrap_or_default() + &data)
        }
        Event::Failed { from, failure, .. } => {
            (format!("{from} → {state}"), format!("{}: {}", failure.kind, failure.message))
        }
        Event::ActionRetry { max_attempts, error, retry_at, .. } => (
            format!("{state}, attempt {} of {max_attempts}", event.attempt()),
            format!("{error}; again at {}", backstitch_api::time::rfc3339(*retry_at)),
        ),
        Event::ActionLeased { until, .. } => (
            format!("{state}, attempt {} leased by a worker", event.attempt()),
            format!("times out at {}", backstitch_api::time::rfc3339(*until)),
        ),
        Event::Abandoned { reason, .. } => {
            (format!("abandoned in {state}: {}", reason.name()), reason.note().unwrap_or_default().to_owned())
        }
    }
}

fn text(payload: Option<&backstitch::Payload>) -> String {
    payload.map(|payload| payload.as_str().to_owned()).unwrap_or_default()
}
