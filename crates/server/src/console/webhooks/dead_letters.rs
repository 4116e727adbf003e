//! What was given up.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::webhooks::{DeadLetter, Which};

use super::{cursor, delivery_place};
use crate::app::App;
use crate::console::address::address;
use crate::console::form::Form;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{Id, When};
use crate::console::visitor::Visitor;
use crate::http::{Query, bad_query};
use crate::problem::Problem;
use crate::routes::within_reach;
use backstitch_api::time::Time;

const LIMIT: usize = 50;
const TIMES: &str = "write it in RFC 3339, like 2030-01-31T12:00:00Z";
/// The names of all that a list is filtered by.
pub(super) const KNOWN: &str = "subscription, event, code, since, until, waiting or cursor";

#[derive(Template)]
#[template(path = "webhooks/dead_letters.html")]
struct List {
    frame: Frame,
    fields: Fields,
    rows: Vec<Row>,
    next: Option<String>,
    requeue: String,
}

/// What a list is filtered by, as it stands in an address or a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) subscription: String,
    pub(super) event: String,
    pub(super) code: String,
    pub(super) since: String,
    pub(super) until: String,
    /// Whether only those are wanted that were not sent after all.
    pub(super) waiting: bool,
}

struct Row {
    id: i64,
    place: String,
    subscription: i64,
    event: i64,
    attempts: u32,
    code: String,
    given_up: When,
    requeued_as: Option<(i64, String)>,
}

impl Fields {
    pub(super) fn asked(query: &mut Query) -> Self {
        let mut text = |name: &str| query.text(name).unwrap_or_default().trim().to_owned();
        Self {
            subscription: text("subscription"),
            event: text("event"),
            code: text("code"),
            since: text("since"),
            until: text("until"),
            waiting: !text("waiting").is_empty(),
        }
    }

    pub(super) fn carried(form: &Form) -> Self {
        let text = |name: &str| form.text(name).trim().to_owned();
        Self {
            subscription: text("subscription"),
            event: text("event"),
            code: text("code"),
            since: text("since"),
            until: text("until"),
            waiting: true,
        }
    }

    /// Those that are meant.
    pub(super) fn which(&self) -> Result<Which, Problem> {
        let number = |name: &str, text: &str| match text {
            "" => Ok(None),
            text => super::positive(text)
                .map(Some)
                .ok_or_else(|| bad_query(name, &format!("is `{text}`: use a number, as the lists have it"))),
        };
        let time = |name: &str, text: &str| match text {
            "" => Ok(None),
            text => text
                .parse::<Time>()
                .map(|time| Some(within_reach(time)))
                .map_err(|_| bad_query(name, &format!("is `{text}`: {TIMES}"))),
        };
        Ok(Which {
            subscription_id: number("subscription", &self.subscription)?,
            event_id: number("event", &self.event)?,
            final_error_code: Some(self.code.clone()).filter(|code| !code.is_empty()),
            since: time("since", &self.since)?,
            until: time("until", &self.until)?,
            not_requeued: self.waiting,
            up_to: None,
        })
    }

    pub(super) fn pairs(&self) -> [(&'static str, &str); 5] {
        [
            ("subscription", &self.subscription),
            ("event", &self.event),
            ("code", &self.code),
            ("since", &self.since),
            ("until", &self.until),
        ]
    }

    pub(super) fn address(&self, place: &str, before: Option<i64>) -> String {
        let before = before.map(|before| before.to_string());
        let mut parameters: Vec<(&str, Option<&str>)> =
            self.pairs().into_iter().map(|(name, value)| (name, Some(value))).collect();
        parameters.push(("waiting", self.waiting.then_some("yes")));
        parameters.push(("cursor", before.as_deref()));
        address(place, &parameters)
    }
}

/// Dead letters, newest first.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let fields = Fields::asked(&mut query);
    let before = cursor(&mut query)?;
    query.finish(KNOWN)?;
    let found = app.webhooks.parts.dead_letters.list(&fields.which()?, LIMIT, before).await?;
    let frame = Frame::new(&app, visitor, Section::Webhooks, "Dead letters");
    let row = |letter: DeadLetter| Row {
        id: letter.saga_id,
        place: delivery_place(letter.saga_id),
        subscription: letter.subscription_id,
        event: letter.event_id,
        attempts: letter.attempt_count,
        code: letter.final_error_code.unwrap_or_default(),
        given_up: frame.when(letter.created_at),
        requeued_as: letter.requeued_as.map(|id| (id, delivery_place(id))),
    };
    Ok(page(&List {
        rows: found.items.into_iter().map(row).collect(),
        next: found.next.map(|next| fields.address("/webhooks/dead-letters", Some(next))),
        requeue: Fields { waiting: false, ..fields.clone() }.address("/webhooks/dead-letters/requeue", None),
        frame,
        fields,
    }))
}
