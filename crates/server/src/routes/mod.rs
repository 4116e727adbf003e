//! Every route, and what it asks of whoever calls it.

mod alerts;
mod audit;
mod common;
mod definitions;
mod docs;
mod doctor;
mod documents;
mod health;
mod jobs;
mod lifecycles;
mod operations;
mod orders;
mod outbox;
mod parked;
mod performer;
mod retry_policy;
mod sagas;
mod sites;
mod streams;
mod table;
mod text;
mod vocabulary;
mod webhooks;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use utoipa::OpenApi;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::{Role, Table, guard};
use crate::console;
use crate::http::{bounded, harden};
use crate::problem::{Described, Mistake};
use crate::telemetry::observe;

pub(crate) use alerts::acknowledged as acknowledge_alert;
pub(crate) use definitions::Definitions;
pub(crate) use definitions::show::version_for as definition_for;
pub(crate) use documents::{DeclaredKind, DocumentPage};
pub(crate) use health::{NotReady, Readiness, delivery_age, outbox_age};
pub(crate) use lifecycles::written_for as machine_for;
pub(crate) use lifecycles::{Machines, told as told_of_lifecycle};
pub(crate) use operations::resolution_word;
pub(crate) use outbox::message::not_found as message_not_found;
pub(crate) use parked::page as parked_page;
pub(crate) use streams::all::{encode_event, encode_instance_event};
pub(crate) use streams::sse::stream as event_stream;
pub(crate) use table::Routes;
pub(crate) use webhooks::dead_letters::within_reach;
pub(crate) use webhooks::try_out::{Tried, tried as try_webhook};

/// The one list of all routes. A route that is not in it does not exist; one in it states who may use it.
fn all() -> Routes {
    Routes::new(Description::openapi())
        .open(routes!(health::live))
        .open(routes!(health::ready))
        .open(routes!(docs::description))
        .open(routes!(docs::browser))
        .open(routes!(docs::error_page))
        .needs(Role::Viewer, routes!(health::health))
        .needs(Role::Viewer, routes!(health::metrics))
        .needs(Role::Viewer, routes!(doctor::diagnose))
        .needs(Role::Client, routes!(sagas::start::start))
        .needs(Role::Viewer, routes!(sagas::list::list))
        .needs_or_token(Role::Viewer, routes!(sagas::show::show))
        .needs(Role::Viewer, routes!(sagas::log::log))
        .needs_or_token(Role::Viewer, routes!(streams::sse::saga_events))
        .needs_or_token(Role::Viewer, routes!(streams::ws::saga_socket))
        .needs(Role::Viewer, routes!(streams::all::all_events))
        .audited(Role::Client, routes!(operations::cancel))
        .audited(Role::Operator, routes!(operations::pause))
        .audited(Role::Operator, routes!(operations::resume))
        .audited(Role::Operator, routes!(operations::resolve))
        .needs(Role::Viewer, routes!(definitions::list::list))
        .needs(Role::Viewer, routes!(definitions::show::show))
        .needs(Role::Viewer, routes!(definitions::check::check))
        .audited(Role::Admin, routes!(definitions::put::put))
        .audited(Role::Admin, routes!(definitions::apply::apply))
        .audited(Role::Admin, routes!(definitions::apply::discard))
        .needs(Role::Viewer, routes!(alerts::list))
        .audited(Role::Operator, routes!(alerts::acknowledge))
        .needs(Role::Viewer, routes!(parked::list))
        .audited(Role::Operator, routes!(parked::retry))
        .audited(Role::Operator, routes!(parked::retry_all))
        .audited(Role::Operator, routes!(parked::remove_conflict))
        .needs(Role::Admin, routes!(audit::list))
        .needs(Role::Worker, routes!(jobs::lease))
        .needs(Role::Worker, routes!(jobs::heartbeat))
        .needs(Role::Worker, routes!(jobs::complete))
        .needs(Role::Worker, routes!(jobs::fail))
        .needs(Role::Client, routes!(outbox::do_order::accept))
        .needs(Role::Client, routes!(outbox::publish::publish))
        .needs(Role::Viewer, routes!(outbox::list::list))
        .needs(Role::Viewer, routes!(outbox::message::show))
        .audited(Role::Operator, routes!(outbox::retry::retry))
        .needs(Role::Viewer, routes!(lifecycles::list::list))
        .needs(Role::Viewer, routes!(lifecycles::show::show))
        .audited(Role::Admin, routes!(lifecycles::put::put))
        .audited(Role::Admin, routes!(lifecycles::apply::apply))
        .audited(Role::Admin, routes!(lifecycles::apply::discard))
        .needs(Role::Client, routes!(lifecycles::start::start))
        .audited(Role::Operator, routes!(lifecycles::steer::transition))
        .audited(Role::Operator, routes!(lifecycles::steer::fail))
        .audited(Role::Operator, routes!(lifecycles::steer::abandon))
        .needs(Role::Viewer, routes!(lifecycles::look::show))
        .needs(Role::Viewer, routes!(lifecycles::log::log))
        .needs(Role::Viewer, routes!(lifecycles::events::lifecycle_events))
        .needs(Role::Viewer, routes!(lifecycles::dead_letters::list))
        .needs(Role::Client, routes!(sites::ask_for))
        .needs(Role::Viewer, routes!(sites::show))
        .audited(Role::Admin, routes!(webhooks::subscribe::create))
        .needs(Role::Viewer, routes!(webhooks::subscriptions::list))
        .needs(Role::Viewer, routes!(webhooks::subscriptions::show))
        .audited(Role::Admin, routes!(webhooks::change::change))
        .audited(Role::Admin, routes!(webhooks::change::delete))
        .audited(Role::Admin, routes!(webhooks::rotate::rotate))
        .audited(Role::Admin, routes!(webhooks::try_out::test))
        .audited(Role::Operator, routes!(webhooks::replay::replay))
        .needs(Role::Client, routes!(webhooks::events::tell))
        .needs(Role::Viewer, routes!(webhooks::events::show))
        .needs(Role::Viewer, routes!(webhooks::deliveries::list))
        .needs(Role::Viewer, routes!(webhooks::deliveries::show))
        .needs(Role::Viewer, routes!(webhooks::dead_letters::list))
        .needs(Role::Viewer, routes!(webhooks::dead_letters::show))
        .audited(Role::Operator, routes!(webhooks::requeue::one))
        .audited(Role::Operator, routes!(webhooks::requeue::many))
        .needs(Role::Client, routes!(orders::confirm::confirm))
        .needs_or_token(Role::Viewer, routes!(orders::show::show))
        .needs_or_token(Role::Viewer, routes!(orders::log::log))
        .needs_or_token(Role::Viewer, routes!(orders::streams::order_events))
        .needs_or_token(Role::Viewer, routes!(orders::streams::order_socket))
        .needs(Role::Viewer, routes!(orders::services::show))
        .audited(Role::Admin, routes!(orders::services::stage))
        .audited(Role::Admin, routes!(orders::services::apply))
        .audited(Role::Admin, routes!(orders::services::discard))
        .needs(Role::Viewer, routes!(orders::timeouts::show))
        .audited(Role::Admin, routes!(orders::timeouts::stage))
        .audited(Role::Admin, routes!(orders::timeouts::apply))
        .audited(Role::Admin, routes!(orders::timeouts::discard))
}

/// What the API's description says about the whole.
#[derive(OpenApi)]
#[openapi(
    info(title = "Backstitch", description = "Durable sagas: work that spans several services either finishes or is \
        undone. Errors are problems (RFC 9457), times are RFC 3339 in UTC."),
    components(schemas(Described, Mistake)),
    tags(
        (name = "sagas", description = "Start, find and watch sagas"),
        (name = "operations", description = "Change the course of a saga"),
        (name = "definitions", description = "Declare sagas: stage, apply, discard"),
        (name = "jobs", description = "Work for outside workers"),
        (name = "outbox", description = "Send messages, at least once and in one transaction with their key"),
        (name = "lifecycles", description = "Declare states and what may follow what, and drive things through them"),
        (name = "sites", description = "Provision sites"),
        (name = "webhooks", description = "Send events to whoever wants to hear of them, at least once and signed"),
        (name = "orders", description = "Confirm orders and follow them"),
        (name = "configuration", description = "How orders are worked off: stage, apply, discard"),
        (name = "health", description = "How the server is doing"),
        (name = "docs", description = "This description"),
    ),
)]
struct Description;

/// What the routes are made of, before there is anything to serve.
pub(crate) struct Assembled {
    router: Router<App>,
    /// What each route asks for.
    pub(crate) access: Table,
    /// The API's description, as JSON.
    pub(crate) description: String,
}

pub(crate) fn assemble() -> Assembled {
    let (router, access, description) = console::routes::add(all()).into_parts();
    Assembled { router, access, description }
}

impl Assembled {
    pub(crate) fn into_router(self, app: &App) -> Router {
        self.router
            .fallback(console::nothing_here)
            .layer(from_fn_with_state(app.clone(), guard))
            .layer(from_fn_with_state(app.clone(), bounded))
            .layer(from_fn(harden))
            .layer(from_fn_with_state(app.clone(), observe))
            .with_state(app.clone())
    }
}
