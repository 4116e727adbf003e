//! The first page: what runs, what waits, what is stuck, what failed.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::{Cursor, Filter, Status, Summary};
use backstitch_modules::lifecycles::Stuck;

use super::done::Done;
use super::page::{Frame, Section, page};
use super::parts::{Id, Mood, State as Shown, When, live, span};
use super::plot::{Rates, Times};
use super::visitor::Visitor;
use crate::app::App;
use crate::http::Query;
use crate::problem::Problem;
use crate::routes::{delivery_age, outbox_age};

/// How many of each list.
const LISTED: usize = 10;
/// Stuck sagas that the engine tells of at most.
const MOST_STUCK: usize = 100;
/// Nodes that are listed.
const NODES: usize = 100;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    counts: Vec<(Status, String)>,
    under_way: usize,
    outbox: Option<String>,
    delivery: Option<String>,
    stuck: Vec<Summary>,
    stuck_count: String,
    failed: Vec<Summary>,
    newest: Vec<Summary>,
    unregistered: Vec<backstitch::store::Unregistered>,
    stuck_lifecycles: Vec<Stuck>,
    rates: Rates,
    times: Times,
    node: String,
    nodes: Vec<Node>,
}

struct Node {
    name: String,
    epoch: i64,
    state: Shown,
    started: When,
    heartbeat: When,
}

/// How many there are, where no more than so many are ever found.
fn at_most(found: usize, most: usize) -> String {
    if found < most { found.to_string() } else { format!("{most}+") }
}

/// What is going on.
pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    query.finish("")?;
    let listed = |status| {
        let (app, filter) = (app.clone(), Filter { status, ..Filter::default() });
        async move { app.engine.list(&filter, &Cursor { before: None, limit: LISTED }).await }
    };
    let (health, failed, newest, outbox) = tokio::try_join!(
        app.engine.health(app.config.doctor.stuck_after),
        listed(Some(Status::Failed)),
        listed(None),
        outbox_age(&app)
    )?;
    let joined = app.engine.store().nodes(NODES).await.map_err(|why| Problem::of_store(&why))?;
    let delivery = delivery_age(&app).await?;
    let stuck_lifecycles = app.lifecycles.parts.stuck(LISTED).await?;
    let hour = app.pulse.last_hour(app.clock.now());
    let mut stuck = health.stuck;
    let stuck_count = at_most(stuck.len(), MOST_STUCK);
    stuck.truncate(LISTED);
    let shown = |age: std::time::Duration| span(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    let active = [Status::Pending, Status::Running, Status::Compensating, Status::Failed];
    let frame = Frame::new(&app, visitor, Section::Overview, "Overview").live("/live").after(done);
    let since = app.pulse.since(frame.now).map(|since| frame.when(since));
    Ok(page(&Overview {
        counts: active
            .map(|status| (status, live(health.active.get(&status).copied().unwrap_or_default())))
            .into(),
        under_way: app.engine.active(),
        outbox: outbox.map(|age| shown(age.oldest)),
        delivery: delivery.map(shown),
        stuck,
        stuck_count,
        failed: failed.items,
        newest: newest.items,
        unregistered: health.unregistered,
        stuck_lifecycles,
        rates: Rates::of(&hour, since.clone()),
        times: Times::of(&hour, since),
        node: app.engine.node().to_owned(),
        nodes: joined
            .into_iter()
            .map(|it| Node {
                state: if it.lives {
                    Shown::new("lives", "✓", Mood::Good)
                } else {
                    Shown::new("not heard of", "✕", Mood::Bad)
                },
                started: frame.when(it.started_at),
                heartbeat: frame.when(it.heartbeat_at),
                epoch: it.epoch,
                name: it.name,
            })
            .collect(),
        frame,
    }))
}
