//! One subscription: its terms, how it goes, and what can be done about it.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::SagaId;
use backstitch_api::validate::shown_duration;
use backstitch_modules::webhooks::{Filter, MASK, Subscription};

use super::rows::Rows;
use super::subscription_place;
use super::subscriptions::Health;
use crate::app::App;
use crate::console::done::Done;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::When;
use crate::console::visitor::Visitor;
use crate::http::{Query, SubscriptionInPath};
use crate::problem::Problem;
use backstitch_api::time::rfc3339;

/// Deliveries that are listed with it.
const LISTED: usize = 20;
/// How far back a replay reaches unless somebody says otherwise.
const AN_HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

#[derive(Template)]
#[template(path = "webhooks/subscription.html")]
struct Page {
    frame: Frame,
    here: String,
    id: i64,
    url: String,
    terms: Vec<(&'static str, String)>,
    headers: Vec<(String, &'static str)>,
    health: Health,
    disabled: Option<(When, String)>,
    created: When,
    changed: When,
    deliveries: Rows,
    seen: &'static str,
    /// What the form for a test call calls itself.
    once: SagaId,
    replay_id: String,
    since: String,
    until: String,
}

/// Everything about a subscription.
pub(in crate::console) async fn show(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    query.finish("")?;
    let webhooks = &app.webhooks.parts;
    let subscription = webhooks.subscriptions.get(id).await?;
    let conditions = webhooks.deliveries.conditions(&[id]).await?;
    let pause = webhooks.pauses.of_subscriptions(&[id]).await?.remove(&id);
    let filter = Filter { subscription_id: Some(id), ..Filter::default() };
    let found = webhooks.deliveries.list(&filter, LISTED, None).await?;
    let frame = Frame::new(&app, visitor, Section::Webhooks, format!("Subscription {id}"));
    let frame = frame.after(done).live("/live");
    let terms = &subscription.terms;
    Ok(page(&Page {
        here: subscription_place(id),
        id,
        url: frame.visitor.shown_url(&terms.url),
        terms: terms_of(&subscription),
        headers: subscription.headers.names().map(|name| (name.to_owned(), MASK)).collect(),
        health: Health::of(&frame, &subscription, conditions.first(), pause),
        disabled: subscription.disabled.as_ref().map(|it| (frame.when(it.at), it.reason.clone())),
        created: frame.when(subscription.created_at),
        changed: frame.when(subscription.updated_at),
        deliveries: Rows::of(&app, &frame, found.items).await?,
        seen: seen(&subscription),
        once: app.engine.ids().next(frame.now),
        // Sent twice, the form replays once.
        replay_id: format!("console-{}", app.engine.ids().next(frame.now)),
        since: rfc3339(backstitch::Timestamp::from_micros(
            frame.now.as_micros() - i64::try_from(AN_HOUR.as_micros()).unwrap_or_default(),
        ))
        .to_string(),
        until: rfc3339(frame.now).to_string(),
        frame,
    }))
}

fn terms_of(subscription: &Subscription) -> Vec<(&'static str, String)> {
    let terms = &subscription.terms;
    let with_origin = |value: String, defaulted| if defaulted { format!("{value} (default)") } else { value };
    let (base, longest) = (shown_duration(terms.base_delay), shown_duration(terms.max_delay));
    vec![
        ("Events", terms.event_types.join(", ")),
        ("Attempts in all", with_origin(terms.max_retry_limit.to_string(), terms.defaulted.max_retry_limit)),
        ("First wait", with_origin(base, terms.defaulted.base_delay)),
        ("Longest wait", with_origin(longest, terms.defaulted.max_delay)),
        ("Timeout", shown_duration(terms.timeout)),
        ("Requests at once", terms.max_concurrency.to_string()),
        ("Requests a second", terms.rate_limit.map_or_else(|| "no limit".to_owned(), |it| it.to_string())),
    ]
}

/// What a form says that its page showed.
pub(super) fn seen(subscription: &Subscription) -> &'static str {
    if subscription.disabled.is_some() { "disabled" } else { "enabled" }
}
