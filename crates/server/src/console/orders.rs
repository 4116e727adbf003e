//! How orders are worked off: which services are called and how long they may take, active against staged.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Retry;
use backstitch_modules::orders::{
    DEFINITION, Endpoint, EndpointChange, Service, ServicesChange, Standing, TimeoutsChange,
};
use serde::Serialize;

use super::done::Done;
use super::form::Form;
use super::line_diff::LineDiff;
use super::page::{Frame, Section, answer, told};
use super::parts::live;
use super::visitor::Visitor;
use crate::app::App;
use crate::audit::said;
use crate::http::Query;
use crate::problem::{Problem, Told};

/// Where it is.
const PLACE: &str = "/orders";

#[derive(Template)]
#[template(path = "orders.html")]
struct Page {
    frame: Frame,
    services: Setting,
    timeouts: Setting,
    order: String,
    endpoints: Vec<Written>,
    in_flight: Vec<(u32, String)>,
    told: Option<Told>,
}

/// A setting: what is active, and what applying the staged one would change.
struct Setting {
    active: Option<String>,
    staged: Option<Staged>,
}

struct Staged {
    /// What a form says that its page showed.
    seen: String,
    difference: LineDiff,
}

/// A service as it stands in the forms.
struct Written {
    name: &'static str,
    url: String,
    rollback_url: String,
    /// A number of retries, or a policy as JSON.
    retry: String,
    timeout: String,
}

/// Services and timeouts.
pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    query.finish("")?;
    let frame = Frame::new(&app, visitor, Section::Definitions, "Services and timeouts of orders");
    shown(&app, frame.after(done), StatusCode::OK, None, None).await
}

/// The page, after a form that cannot be taken with what was filled in.
async fn shown(
    app: &App,
    frame: Frame,
    status: StatusCode,
    told: Option<Told>,
    filled: Option<&Form>,
) -> Result<Response, Problem> {
    let (services, timeouts) = tokio::try_join!(app.orders.services(), app.orders.timeouts())?;
    let services = if frame.visitor.may_administer() { services } else { services.masked() };
    let newest = services.staged.as_ref().or(services.active.as_ref());
    let spans = timeouts.staged.as_ref().or(timeouts.active.as_ref());
    let field = |name: &str, now: String| match filled.filter(|form| form.has(name)) {
        Some(form) => form.text(name).to_owned(),
        None => now,
    };
    let order = newest.map_or(&Service::ALL[..], |services| &services.order);
    let names: Vec<&str> = order.iter().map(|service| service.name()).collect();
    let endpoints = Service::ALL.map(|service| {
        let name = service.name();
        let known = newest.and_then(|services| services.endpoints.get(&service));
        Written {
            name,
            url: field(&format!("{name}.url"), known.map(|it| it.url.clone()).unwrap_or_default()),
            rollback_url: field(
                &format!("{name}.rollback_url"),
                known.map(|it| it.rollback_url.clone()).unwrap_or_default(),
            ),
            retry: field(&format!("{name}.retry"), known.map_or_else(|| "0".to_owned(), written_retry)),
            timeout: field(
                &format!("{name}.timeout"),
                spans.map(|spans| backstitch_modules::shown_duration(spans.of(service))).unwrap_or_default(),
            ),
        }
    });
    let in_flight = app.engine.in_flight(DEFINITION).await?;
    Ok(answer(
        status,
        &Page {
            frame,
            order: field("order", names.join(", ")),
            endpoints: endpoints.into(),
            services: Setting::of(&services),
            timeouts: Setting::of(&timeouts),
            in_flight: in_flight.into_iter().map(|count| (count.version, live(count.sagas))).collect(),
            told,
        },
    ))
}

/// The number of retries where that says it all, and the policy as JSON otherwise.
fn written_retry(endpoint: &Endpoint) -> String {
    let count = endpoint.retry.count;
    if endpoint.retry == (Retry { count, ..Endpoint::usual_retry() }) || count == 0 {
        return count.to_string();
    }
    serde_json::to_string(&endpoint.retry).unwrap_or_default()
}

impl Setting {
    fn of<T: Serialize>(standing: &Standing<T>) -> Self {
        let active = standing.active.as_ref().map(text);
        let staged = standing.staged.as_ref().map(text).map(|staged| Staged {
            difference: LineDiff::of(active.as_deref().unwrap_or_default(), &staged),
            seen: standing.staged.as_ref().map(seen).unwrap_or_default(),
        });
        Self { active, staged }
    }
}

/// What a form says that its page showed, in one line: browsers end lines in their own way.
fn seen<T: Serialize>(setting: &T) -> String {
    serde_json::to_string(setting).unwrap_or_default()
}

fn text<T: Serialize>(setting: &T) -> String {
    // Cannot fail: it is JSON whatever it says.
    serde_json::to_string_pretty(setting).unwrap_or_default()
}

/// Refuses what was decided on another change than the one that is staged, which is the one of the revision returned.
fn as_it_was_seen<T: Serialize>(form: &Form, standing: Standing<T>) -> Result<Option<String>, Problem> {
    let staged = standing.staged.as_ref().map_or_else(|| "nothing staged".to_owned(), seen);
    form.was_made_for(&staged)?;
    Ok(standing.revision)
}

/// Stages services.
pub(super) async fn stage_services(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let staged = app.orders.stage_services(services(&form), app.clock.now()).await;
    let staged = staged.map(|standing| {
        format!("staged services: {}", standing.staged.as_ref().map(seen).unwrap_or_default())
    });
    staged_or_told(&app, visitor, &form, staged.map_err(Problem::from)).await
}

fn services(form: &Form) -> ServicesChange {
    let endpoints = Service::ALL.map(|service| {
        let field = |what: &str| form.filled(&format!("{}.{what}", service.name())).map(str::to_owned);
        // What is no JSON is reported as it was written.
        let retry = field("retry").map(|text| serde_json::from_str(&text).unwrap_or(text.into()));
        let change = EndpointChange { url: field("url"), rollback_url: field("rollback_url"), retry };
        (service.name().to_owned(), change)
    });
    let order = form.text("order").split(',').map(|name| name.trim().to_owned());
    ServicesChange { order: Some(order.collect()), endpoints: endpoints.into() }
}

/// Stages timeouts.
pub(super) async fn stage_timeouts(
    State(app): State<App>,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let written = Service::ALL.iter().filter_map(|service| {
        let text = form.filled(&format!("{}.timeout", service.name()))?;
        Some((service.name().to_owned(), text.into()))
    });
    let change = TimeoutsChange(written.collect());
    let staged = app.orders.stage_timeouts(change, app.clock.now()).await;
    let staged = staged.map(|standing| {
        format!("staged timeouts: {}", standing.staged.as_ref().map(seen).unwrap_or_default())
    });
    staged_or_told(&app, visitor, &form, staged.map_err(Problem::from)).await
}

async fn staged_or_told(
    app: &App,
    visitor: Visitor,
    form: &Form,
    staged: Result<String, Problem>,
) -> Result<Response, Problem> {
    match staged {
        Ok(what) => Ok(said(Done::Staged.and_back_to(PLACE), what)),
        Err(problem) => {
            let (status, told) = told(problem);
            let frame = Frame::new(app, visitor, Section::Definitions, "Services and timeouts of orders");
            shown(app, frame, status, told, Some(form)).await
        }
    }
}

/// New orders take the staged services.
pub(super) async fn apply_services(State(app): State<App>, form: Form) -> Result<Response, Problem> {
    let seen = as_it_was_seen(&form, app.orders.services().await?)?;
    app.orders.apply_services(seen.as_deref()).await?;
    Ok(Done::Applied.and_back_to(PLACE))
}

/// They are forgotten.
pub(super) async fn discard_services(State(app): State<App>, form: Form) -> Result<Response, Problem> {
    let seen = as_it_was_seen(&form, app.orders.services().await?)?;
    app.orders.discard_services(seen.as_deref()).await?;
    Ok(Done::Discarded.and_back_to(PLACE))
}

/// New orders take the staged timeouts.
pub(super) async fn apply_timeouts(State(app): State<App>, form: Form) -> Result<Response, Problem> {
    let seen = as_it_was_seen(&form, app.orders.timeouts().await?)?;
    app.orders.apply_timeouts(seen.as_deref()).await?;
    Ok(Done::Applied.and_back_to(PLACE))
}

/// They are forgotten.
pub(super) async fn discard_timeouts(State(app): State<App>, form: Form) -> Result<Response, Problem> {
    let seen = as_it_was_seen(&form, app.orders.timeouts().await?)?;
    app.orders.discard_timeouts(seen.as_deref()).await?;
    Ok(Done::Discarded.and_back_to(PLACE))
}
