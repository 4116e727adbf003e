//! One machine: drawn, with how many stand where, its versions, and its instances.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::SagaId;
use backstitch_modules::lifecycles::{Count, Filter, Kind, Machine, Standing, sites};

use super::diagram::{self, COUNTED, look};
use super::{machine_place, place};
use crate::app::App;
use crate::console::address::{address, escaped};
use crate::console::documents::{difference, written};
use crate::console::done::Done;
use crate::console::drawing::Drawing;
use crate::console::line_diff::LineDiff;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{Id, State as Shown, When, capped};
use crate::console::visitor::Visitor;
use crate::http::{MachineInPath, Query};
use crate::problem::Problem;
use crate::routes::{machine_for, told_of_lifecycle as told};

const LIMIT: usize = 50;

#[derive(Template)]
#[template(path = "lifecycles/machine.html")]
struct Page {
    frame: Frame,
    name: String,
    here: String,
    forms: String,
    title: Option<String>,
    active: Option<u32>,
    staged: Option<u32>,
    is_built_in: bool,
    versions: Vec<Version>,
    difference: Option<LineDiff>,
    drawing: Option<Drawing>,
    states: Vec<StateRow>,
    /// States in which something stands and which the version that is shown has not.
    elsewhere: Vec<Elsewhere>,
    shown_version: Option<u32>,
    state: String,
    correlation_id: String,
    is_filtered: bool,
    rows: Vec<Row>,
    next: Option<String>,
    text: Option<String>,
}

struct Version {
    number: u32,
    place: String,
    created: When,
    in_flight: String,
}

/// A state in words.
struct StateRow {
    name: String,
    place: String,
    kind: Shown,
    count: String,
    /// How many of them were abandoned; nothing where none was.
    abandoned: Option<String>,
    follows: String,
}

/// A state that the version lacks which is shown.
struct Elsewhere {
    name: String,
    place: String,
    count: String,
}

struct Row {
    key: String,
    place: String,
    state: Shown,
    version: u32,
    attempt: u32,
    correlation_id: Option<String>,
    error: Option<String>,
    entered: When,
    is_stuck: bool,
    is_abandoned: bool,
}

/// Everything about a machine.
pub(in crate::console) async fn show(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    let asked = query.number("version", 1, i32::MAX.unsigned_abs())?;
    let filled = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let filter =
        Filter { state: filled(query.text("state")), correlation_id: filled(query.text("correlation_id")) };
    let before: Option<SagaId> =
        query.read("cursor", |text| text.parse().ok(), "use the address of the page before")?;
    query.finish("version, state, correlation_id or cursor")?;
    let parts = &app.lifecycles.parts;
    let declared = told(&app, parts.machines.declared(&name).await).await?;
    let versions = parts.machines.versions(&name, COUNTED + 1).await?;
    let shown = match asked.or(declared.active).or(declared.staged) {
        Some(version) => Some(parts.machines.machine(&name, version).await?),
        None => None,
    };
    let active = match declared.active {
        Some(version) => Some(parts.machines.machine(&name, version).await?),
        None => None,
    };
    let staged = match declared.staged {
        Some(version) => Some(parts.machines.machine(&name, version).await?),
        None => None,
    };
    let counts = parts.counts_up_to(&name, COUNTED + 1).await?;
    let abandoned = parts.abandoned_up_to(&name, COUNTED + 1).await?;
    let no_text = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains('\0'));
    let found = if no_text(&filter.state) || no_text(&filter.correlation_id) {
        None
    } else {
        Some(parts.list(&name, &filter, before, LIMIT).await?)
    };
    let (items, next) = found.map_or((Vec::new(), None), |page| (page.items, page.next));
    let mut frame = Frame::new(&app, visitor, Section::Lifecycles, &name).after(done);
    if before.is_none() {
        frame = frame.live(address("/live", &[("definition", Some(&name))]));
    }
    let mut rows = Vec::new();
    for standing in &items {
        // Each as its own version says.
        let machine = parts.machines.machine(&name, standing.version).await?;
        rows.push(Row::of(&frame, &machine, standing));
    }
    let holder = frame.visitor.holder.clone();
    let shown_as = |machine: &Machine| machine_for(holder.as_ref(), &app, machine);
    let here = machine_place(&name);
    let counted = Counted { all: &counts, abandoned: &abandoned };
    let states = shown.iter().flat_map(|machine| state_rows(&here, machine, &counted));
    Ok(page(&Page {
        elsewhere: elsewhere(&here, shown.as_deref(), &counts),
        shown_version: shown.as_ref().map(|machine| machine.version()),
        title: shown.as_ref().and_then(|machine| machine.draft().title.clone()),
        forms: format!("/machines/{}", escaped(&name)),
        active: declared.active,
        staged: declared.staged,
        is_built_in: name == sites::MACHINE,
        versions: versions
            .iter()
            .rev()
            .map(|it| Version {
                number: it.version,
                place: address(&here, &[("version", Some(&it.version.to_string()))]),
                created: frame.when(it.created_at),
                in_flight: capped(it.in_flight, COUNTED),
            })
            .collect(),
        difference: staged
            .as_ref()
            .map(|staged| difference(active.as_deref().map(&shown_as).as_ref(), &shown_as(staged.as_ref()))),
        drawing: shown.as_ref().and_then(|machine| diagram::drawn(machine, &counts, None)),
        states: states.collect(),
        is_filtered: filter != Filter::default(),
        rows,
        next: next.map(|next| {
            address(
                &here,
                &[
                    ("state", filter.state.as_deref()),
                    ("correlation_id", filter.correlation_id.as_deref()),
                    ("cursor", Some(&next.to_string())),
                ],
            )
        }),
        text: shown.as_deref().map(|machine| written(&shown_as(machine))),
        state: filter.state.clone().unwrap_or_default(),
        correlation_id: filter.correlation_id.clone().unwrap_or_default(),
        frame,
        name,
        here: here.clone(),
    }))
}

/// How many are in each state.
struct Counted<'a> {
    all: &'a [Count],
    abandoned: &'a [Count],
}

fn state_rows(here: &str, machine: &Machine, counted: &Counted<'_>) -> Vec<StateRow> {
    let row = |(state, kind): (&str, &Kind)| {
        let (word, shape, mood) = look(kind, state);
        let within = |counts: &[Count]| counts.iter().find(|it| it.state == state).map_or(0, |it| it.count);
        let abandoned = Some(within(counted.abandoned)).filter(|abandoned| *abandoned > 0);
        StateRow {
            name: state.to_owned(),
            place: address(here, &[("state", Some(state))]),
            kind: Shown::new(word, shape, mood),
            count: capped(within(counted.all), COUNTED),
            abandoned: abandoned.map(|abandoned| capped(abandoned, COUNTED)),
            follows: follows(machine, state, kind),
        }
    };
    machine.states().map(row).collect()
}

/// Where something stands though the version that is shown, if one is, knows no such state.
fn elsewhere(here: &str, shown: Option<&Machine>, counts: &[Count]) -> Vec<Elsewhere> {
    let is_lacking = |state: &str| shown.is_none_or(|machine| machine.kind(state).is_none());
    let left = counts.iter().filter(|count| count.count > 0 && is_lacking(&count.state));
    let row = |count: &Count| Elsewhere {
        name: count.state.clone(),
        place: address(here, &[("state", Some(&count.state))]),
        count: capped(count.count, COUNTED),
    };
    left.map(row).collect()
}

fn follows(machine: &Machine, state: &str, kind: &Kind) -> String {
    let mut follows: Vec<String> = machine.follows(state).map(str::to_owned).collect();
    if let Kind::Pause(again) = kind {
        follows.push(format!("{again} after a start"));
    }
    follows.join(", ")
}

impl Row {
    fn of(frame: &Frame, machine: &Machine, standing: &Standing) -> Self {
        let instance = &standing.instance;
        let (shape, mood) = match machine.kind(&instance.state) {
            Some(kind) => {
                let (_, shape, mood) = look(kind, &instance.state);
                (shape, mood)
            }
            None => ("?", crate::console::parts::Mood::Quiet),
        };
        Self {
            key: standing.key.to_string(),
            place: place(&standing.machine, &standing.key),
            state: Shown::new(&instance.state, shape, mood),
            version: standing.version,
            attempt: instance.attempt,
            correlation_id: instance.given.correlation_id.clone(),
            error: instance.failure.as_ref().map(|it| format!("{}: {}", it.kind, it.message)),
            entered: frame.when(instance.entered_at),
            is_stuck: standing.stuck_at.is_some_and(|at| at <= frame.now),
            is_abandoned: instance.abandoned,
        }
    }
}
