//! What people do about one subscription.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::webhooks::Replay;

use super::subscription::seen;
use super::subscription_place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::outcomes::{Once, Outcome, Taken};
use crate::console::page::{Frame, Section, page};
use crate::console::parts::Id;
use crate::console::visitor::Visitor;
use crate::http::SubscriptionInPath;
use crate::problem::Problem;
use crate::routes::{Tried, try_webhook, within_reach};
use backstitch_api::time::Time;

/// Calls that look at so many events each, for one form.
const CALLS: usize = 20;

#[derive(Template)]
#[template(path = "webhooks/tried.html")]
struct Page<'a> {
    frame: Frame,
    here: String,
    tested: &'a Tested,
}

/// What came of a test call.
pub(in crate::console) struct Tested {
    id: i64,
    tried: Tried,
}

/// Lets its deliveries be sent again.
pub(in crate::console) async fn enable(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    form: Form,
) -> Result<Response, Problem> {
    as_it_was_seen(&app, id, &form).await?;
    app.webhooks.parts.subscriptions.enable(id).await?;
    Ok(Done::Enabled.and_back_to(&subscription_place(id)))
}

/// Keeps them until then.
pub(in crate::console) async fn disable(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    as_it_was_seen(&app, id, &form).await?;
    let why = form.filled("note").ok_or_else(|| Problem::field("note", "is empty: say why"))?;
    app.webhooks.parts.subscriptions.disable(id, &visitor.note(why)).await?;
    Ok(Done::Disabled.and_back_to(&subscription_place(id)))
}

async fn as_it_was_seen(app: &App, id: i64, form: &Form) -> Result<(), Problem> {
    form.was_made_for(seen(&app.webhooks.parts.subscriptions.get(id).await?))
}

/// Makes a test call, and leads to what came of it.
pub(in crate::console) async fn test(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let once = match Once::take(&app, &form, &visitor)? {
        Taken::Now(once) => once,
        Taken::Before(answer) => return Ok(answer),
    };
    let tried = try_webhook(&app, id, None, None).await?;
    Ok(once.came_to(Outcome::TestCall(Tested { id, tried })))
}

/// What came of it, on a page.
pub(in crate::console) fn shown(app: &App, visitor: Visitor, tested: &Tested) -> Response {
    let frame = Frame::new(app, visitor, Section::Webhooks, "A test call");
    page(&Page { frame, here: subscription_place(tested.id), tested })
}

/// Sends the events of a time once more. The form has a name of its own, so that it does so once.
pub(in crate::console) async fn replay(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    form: Form,
) -> Result<Response, Problem> {
    let time = |text: &str| text.trim().parse::<Time>().ok().map(within_reach);
    let expected = "write it in RFC 3339, like 2030-01-31T12:00:00Z";
    let since = form.read("since", time, expected)?;
    let until = form.read("until", time, expected)?;
    if until <= since {
        return Err(Problem::field("until", "is not after since: name a range that holds something"));
    }
    let named = form.filled("replay_id").map(str::to_owned);
    let named =
        named.ok_or_else(|| Problem::field("replay_id", "is missing: send the form from its page"))?;
    let mut replay = Replay { id: named, subscription_id: id, since, until, after: None };
    for _ in 0..CALLS {
        match app.webhooks.parts.dead_letters.replay(&replay).await?.next {
            Some(reached) => replay.after = Some(reached),
            None => return Ok(Done::Replayed.and_back_to(&subscription_place(id))),
        }
    }
    let reached = replay.after.map(|reached| Time(reached.at).to_string()).unwrap_or_default();
    Err(Problem::field(
        "until",
        format!(
            "there are very many events in that time: those up to {reached} are sent once more; go on from there"
        ),
    ))
}
