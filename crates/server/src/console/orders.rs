//! How orders are worked off: which services are called and how long they may take, active against staged.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Retry;
use backstitch_api::validate::{self, Input};
use backstitch_modules::orders::{
    DEFINITION, Endpoint, Service, ServiceSetting, Setting, Standing, TimeoutSetting,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::documents::{difference, written};
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
    services: SettingView,
    timeouts: SettingView,
    order: String,
    endpoints: Vec<Written>,
    in_flight: Vec<(u32, String)>,
    told: Option<Told>,
}

/// A setting: what is active, and what applying the staged one would change.
struct SettingView {
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
    let (services, timeouts) =
        tokio::try_join!(app.orders.setting::<ServiceSetting>(), app.orders.setting::<TimeoutSetting>())?;
    let services =
        if frame.visitor.may_administer() { services } else { services.masked::<ServiceSetting>() };
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
                spans
                    .map(|spans| backstitch_api::validate::shown_duration(spans.of(service)))
                    .unwrap_or_default(),
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
            services: SettingView::of(&services),
            timeouts: SettingView::of(&timeouts),
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

impl SettingView {
    fn of<T: Serialize>(standing: &Standing<T>) -> Self {
        let active = standing.active.as_ref();
        let staged = standing.staged.as_ref();
        let staged =
            staged.map(|staged| Staged { difference: difference(active, staged), seen: seen(staged) });
        Self { active: active.map(written), staged }
    }
}

/// What a form says that its page showed, in one line: browsers end lines in their own way.
fn seen<T: Serialize>(setting: &T) -> String {
    serde_json::to_string(setting).unwrap_or_default()
}

/// The revision of what is staged, if it is still what the page showed.
fn revision_as_shown<T: Serialize>(form: &Form, standing: Standing<T>) -> Result<Option<String>, Problem> {
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
    stage::<ServiceSetting>(&app, visitor, &form, &services(&form)).await
}

/// The change that the form asks for, as the API would get it.
fn services(form: &Form) -> Value {
    let endpoints = Service::ALL.map(|service| {
        let field = |what: &str| form.filled(&format!("{}.{what}", service.name()));
        // What is no JSON is reported as it was written.
        let retry = field("retry").map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
        let change = json!({ "url": field("url"), "rollback_url": field("rollback_url"), "retry": retry });
        (service.name().to_owned(), change)
    });
    let order: Vec<&str> = form.text("order").split(',').map(str::trim).collect();
    json!({ "order": order, "endpoints": Map::from_iter(endpoints) })
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
    stage::<TimeoutSetting>(&app, visitor, &form, &Value::Object(written.collect())).await
}

/// Stages a change, or shows the page with what is wrong with it.
async fn stage<S: Setting<Body: Input>>(
    app: &App,
    visitor: Visitor,
    form: &Form,
    change: &Value,
) -> Result<Response, Problem> {
    let staged = match validate::read(&change.to_string(), "form") {
        Ok(change) => app.orders.stage_setting::<S>(change).await.map_err(Problem::from),
        Err(problems) => Err(Problem::invalid(problems)),
    };
    match staged {
        Ok(standing) => {
            let staged = standing.staged.as_ref().map(seen).unwrap_or_default();
            Ok(said(Done::Staged.and_back_to(PLACE), format!("staged {}: {staged}", S::TITLE)))
        }
        Err(problem) => {
            let (status, told) = told(problem);
            let frame = Frame::new(app, visitor, Section::Definitions, "Services and timeouts of orders");
            shown(app, frame, status, told, Some(form)).await
        }
    }
}

/// New orders take the staged change that the page showed.
pub(super) async fn apply<S: Setting>(State(app): State<App>, form: Form) -> Result<Response, Problem> {
    let revision = revision_as_shown(&form, app.orders.setting::<S>().await?)?;
    app.orders.apply_setting::<S>(revision.as_deref()).await?;
    Ok(Done::Applied.and_back_to(PLACE))
}

/// It is forgotten.
pub(super) async fn discard<S: Setting>(State(app): State<App>, form: Form) -> Result<Response, Problem> {
    let revision = revision_as_shown(&form, app.orders.setting::<S>().await?)?;
    app.orders.discard_setting::<S>(revision.as_deref()).await?;
    Ok(Done::Discarded.and_back_to(PLACE))
}
