//! The list of messages.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::store::outbox::{Kept, Listing, Status};
use backstitch_modules::outbox::counts::{self, COUNTED, COUNTED_OF_TOPIC};

use crate::app::App;
use crate::console::address::address;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{Id, State as Shown, When, capped, span};
use crate::console::visitor::Visitor;
use crate::http::{Query, bad_query};
use crate::problem::Problem;
use crate::routes::outbox_age;

const LIMIT: usize = 50;

#[derive(Template)]
#[template(path = "outbox/list.html")]
struct List {
    frame: Frame,
    counts: Vec<Tile>,
    topics: Vec<Topic>,
    /// Whether there are topics beyond those.
    more_topics: bool,
    statuses: Vec<(&'static str, bool)>,
    topic: String,
    is_filtered: bool,
    oldest: Option<String>,
    rows: Vec<Row>,
    next: Option<String>,
}

struct Tile {
    place: String,
    state: Shown,
    count: String,
}

struct Topic {
    place: String,
    name: String,
    waiting: String,
    all: String,
}

struct Row {
    id: i64,
    topic: String,
    key: String,
    state: Shown,
    attempts: u32,
    error: Option<String>,
    created: When,
    next: Option<When>,
}

/// Messages, newest first, with how many there are of each kind.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let number = |text: &str| text.parse().ok().filter(|id: &i64| *id > 0);
    let listing = Listing {
        status: status(&mut query)?,
        topic: query.text("topic").filter(|topic| !topic.is_empty()),
        before: query.read("cursor", number, "use the address of the page before")?,
    };
    query.finish("status, topic or cursor")?;
    // One more, which tells whether there is another page.
    let mut found = app.engine.messages(&listing, LIMIT + 1).await?;
    let more = found.len() > LIMIT;
    found.truncate(LIMIT);
    let of_store = |why| Problem::of_store(&why);
    let counts = counts::by_status(&app.engine).await.map_err(of_store)?;
    let topics = counts::by_topic(&app.engine).await.map_err(of_store)?;
    let age = outbox_age(&app).await?;
    let (word, topic) = (listing.status.map(Status::as_str), listing.topic.as_deref());
    let last = found.last().filter(|_| more).map(|last| last.id.to_string());
    let mut frame = Frame::new(&app, visitor, Section::Outbox, "Outbox");
    if listing.before.is_none() {
        frame = frame.live("/live");
    }
    Ok(page(&List {
        counts: counts
            .into_iter()
            .map(|(status, count)| Tile {
                place: placed(Some(status.as_str()), topic),
                state: Shown::of_message(status),
                count: capped(count.into(), COUNTED),
            })
            .collect(),
        more_topics: topics.more,
        topics: topics
            .items
            .into_iter()
            .map(|it| Topic {
                place: placed(word, Some(&it.name)),
                waiting: capped(it.waiting.into(), COUNTED_OF_TOPIC),
                all: capped(it.all.into(), COUNTED_OF_TOPIC),
                name: it.name,
            })
            .collect(),
        statuses: Status::ALL.map(|it| (it.as_str(), Some(it) == listing.status)).into(),
        is_filtered: word.is_some() || topic.is_some(),
        oldest: age.map(|age| span(i64::try_from(age.oldest.as_secs()).unwrap_or(i64::MAX))),
        rows: found.iter().map(|kept| Row::of(&frame, kept)).collect(),
        next: last
            .map(|last| address("/outbox", &[("status", word), ("topic", topic), ("cursor", Some(&last))])),
        topic: listing.topic.clone().unwrap_or_default(),
        frame,
    }))
}

fn placed(status: Option<&str>, topic: Option<&str>) -> String {
    address("/outbox", &[("status", status), ("topic", topic)])
}

fn status(query: &mut Query) -> Result<Option<Status>, Problem> {
    let Some(text) = query.text("status").filter(|text| !text.is_empty()) else { return Ok(None) };
    let expected = "use pending, sending, failed, succeeded or aborted";
    let found = Status::named(&text);
    found.map(Some).ok_or_else(|| bad_query("status", &format!("is `{text}`: {expected}")))
}

impl Row {
    fn of(frame: &Frame, kept: &Kept) -> Self {
        Self {
            id: kept.id,
            topic: kept.message.topic.clone(),
            key: kept.message.idempotency_key.clone(),
            state: Shown::of_message(kept.status),
            attempts: kept.attempts,
            error: kept.last_error.as_ref().map(|error| format!("{}: {}", error.code, error.message)),
            created: frame.when(kept.created_at),
            next: kept.due_at.map(|at| frame.when(at)),
        }
    }
}
