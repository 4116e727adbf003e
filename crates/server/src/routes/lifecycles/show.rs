//! `GET /v1/lifecycles/{machine}`: a machine, and its lifecycles where they are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::SagaId;
use backstitch_modules::declaration::{machine_with_secrets, machine_without_secrets};
use backstitch_modules::lifecycles::{Count, Error, Filter, Machine, Page, Version, declaration};
use serde::Serialize;
use serde_json::Value;

use super::list::MachineItem;
use super::problems::meant;
use super::{View, told};
use crate::app::App;
use crate::auth::Holder;
use crate::http::{MachineInPath, Query, bad_query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

const LIMIT: usize = 50;
const MOST: usize = 500;

/// A machine in full.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = MachineInFull)]
#[expect(clippy::option_option, reason = "left out where nobody asks, and `null` on the last page")]
pub(in crate::routes) struct Shown<'a> {
    #[serde(flatten)]
    item: MachineItem,
    /// Every version there is, oldest first.
    versions: Vec<VersionItem>,
    /// The version asked for, or else the active one, as it can be declared.
    #[schema(value_type = Option<Object>)]
    definition: Option<Value>,
    /// The same as a picture: Mermaid's `stateDiagram-v2`.
    diagram: Option<String>,
    /// The staged one, as it can be declared.
    #[schema(value_type = Option<Object>)]
    staged_definition: Option<Value>,
    /// How many lifecycles are in each state, of all versions; not where `items` are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BTreeMap<String, u64>, required = false)]
    counts: Option<BTreeMap<String, u64>>,
    /// How many of these were abandoned, by the pause state they stay in; 10,001 in all stand for more than 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BTreeMap<String, u64>, required = false)]
    abandoned: Option<BTreeMap<String, u64>>,
    /// Its lifecycles, newest first; only where `state`, `correlation_id`, `limit` or `cursor` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<View>, required = false)]
    items: Option<Vec<View<'a>>>,
    /// Give it as `cursor` to get the next page of these; `null` on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid, required = false)]
    next_cursor: Option<Option<SagaId>>,
}

/// Lifecycles of a version that are counted.
pub(super) const COUNTED: usize = 10_001;

/// A version of a machine.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = MachineVersion)]
pub(crate) struct VersionItem {
    version: u32,
    created_at: Time,
    /// Lifecycles of it that have not ended; 10,001 stands for more than 10,000. They keep it to their end.
    in_flight: u64,
}

impl From<&Version> for VersionItem {
    fn from(version: &Version) -> Self {
        let Version { version, created_at, in_flight } = *version;
        Self { version, created_at: rfc3339(created_at), in_flight }
    }
}

/// A machine: what is active, what is staged, what it looks like, and how many of its lifecycles are in which state.
///
/// With `state`, `correlation_id`, `limit` or `cursor` the answer also has `items` and `next_cursor`: its lifecycles, newest
/// first, a page at a time.
#[utoipa::path(get, path = "/v1/lifecycles/{machine}", tag = "lifecycles",
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("version" = Option<u32>, Query, description = "Show this version as the `definition`", minimum = 1, maximum = 2_147_483_647),
        ("state" = Option<String>, Query, description = "Lifecycles in this state"),
        ("correlation_id" = Option<String>, Query, description = "Lifecycles with this correlation id"),
        ("limit" = Option<usize>, Query, description = "At most this many lifecycles, 50 unless given", minimum = 1, maximum = 500),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before", format = Uuid),
    ),
    responses(
        (status = 200, description = "The machine", body = Shown),
        (status = 404, description = "There is none, or it has no such version", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    holder: Option<Extension<Holder>>,
    mut query: Query,
) -> Result<Response, Problem> {
    let asked = query.number("version", 1, i32::MAX.unsigned_abs())?;
    let instances = Asked::read(&mut query)?;
    query.finish("version, state, correlation_id, limit or cursor")?;
    let parts = &app.lifecycles.parts;
    let declared = told(&app, parts.machines.declared(&name).await).await?;
    let versions = parts.machines.versions(&name, COUNTED).await?;
    let shown = version(&app, &name, asked.or(declared.active)).await?;
    let staged = version(&app, &name, declared.staged).await?;
    // Every one of them is counted: not for each page of a list.
    let (counts, abandoned) = match &instances {
        None => (Some(parts.counts(&name).await?), Some(parts.abandoned_up_to(&name, COUNTED).await?)),
        Some(_) => (None, None),
    };
    let by_state = |counts: Vec<Count>| counts.into_iter().map(|count| (count.state, count.count)).collect();
    let page = match instances {
        Some(asked) => Some(asked.page(&app, &name, &versions).await?),
        None => None,
    };
    let holder = holder.map(|Extension(holder)| holder);
    let answer = Shown {
        item: MachineItem::from(&declared),
        versions: versions.iter().map(VersionItem::from).collect(),
        definition: shown.as_ref().map(|machine| written_for(holder.as_ref(), &app, machine)),
        diagram: shown.as_ref().map(|machine| machine.diagram()),
        staged_definition: staged.as_ref().map(|machine| written_for(holder.as_ref(), &app, machine)),
        counts: counts.map(by_state),
        abandoned: abandoned.map(by_state),
        items: page.as_ref().map(|page| page.items.iter().map(View::from).collect()),
        next_cursor: page.as_ref().map(|page| page.next),
    };
    Ok(json(StatusCode::OK, &answer))
}

/// A machine as its author could have written it, and as whoever asks may see it.
pub(crate) fn written_for(holder: Option<&Holder>, app: &App, machine: &Machine) -> Value {
    if Holder::sees_secrets(holder) {
        return declaration::show(&machine_with_secrets(machine.draft(), &app.headers));
    }
    declaration::show(&machine_without_secrets(machine.draft()))
}

async fn version(app: &App, name: &str, version: Option<u32>) -> Result<Option<Arc<Machine>>, Error> {
    match version {
        Some(version) => app.lifecycles.parts.machines.machine(name, version).await.map(Some),
        None => Ok(None),
    }
}

/// Which lifecycles are asked for.
struct Asked {
    filter: Filter,
    limit: usize,
    before: Option<SagaId>,
}

impl Asked {
    /// `None` where none are.
    fn read(query: &mut Query) -> Result<Option<Self>, Problem> {
        let filter = Filter { state: query.text("state"), correlation_id: query.text("correlation_id") };
        let limit = query.number("limit", 1, MOST)?;
        let expected = "use the next_cursor of the page before, as it was given";
        let before = query.read("cursor", |text| text.parse().ok(), expected)?;
        if filter == Filter::default() && limit.is_none() && before.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { filter, limit: limit.unwrap_or(LIMIT), before }))
    }

    async fn page(&self, app: &App, name: &str, versions: &[Version]) -> Result<Page, Problem> {
        if let Some(state) = &self.filter.state {
            refuse_unknown_state(app, name, versions, state).await?;
        }
        // No database keeps such a text, and one refuses to be asked for it.
        if self.filter.correlation_id.as_ref().is_some_and(|id| id.contains('\0')) {
            return Ok(Page { items: Vec::new(), next: None });
        }
        Ok(app.lifecycles.parts.list(name, &self.filter, self.before, self.limit).await?)
    }
}

/// What is under way may be in a state that only an older version has.
async fn refuse_unknown_state(
    app: &App,
    name: &str,
    versions: &[Version],
    state: &str,
) -> Result<(), Problem> {
    let mut newest = None;
    for version in versions.iter().rev() {
        let machine = app.lifecycles.parts.machines.machine(name, version.version).await?;
        if machine.kind(state).is_some() {
            return Ok(());
        }
        newest.get_or_insert(machine);
    }
    let states: Vec<&str> =
        newest.iter().flat_map(|machine| machine.states()).map(|(state, _)| state).collect();
    Err(bad_query("state", &format!("is no state of `{name}`: {}", meant(state, &states))))
}
