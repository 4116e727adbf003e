//! Items that the database rejected: their ids, what waits for them, and what an operator can do.

use std::fmt;

use backstitch::Rfc3339;
use backstitch::store::parked::{
    ADOPTION, JOBS, KEY_RETENTION, MESSAGE_RETENTION, OUTBOX, ParkedFilter, ParkedItem, SAGA_RETENTION,
};
use backstitch_modules::webhooks::{DeadLetter, LetterConflict};
use backstitch_modules::{lifecycles, webhooks};

use crate::app::App;
use crate::audit::filtered;
use crate::problem::{Kind, Problem};

/// Names a parked item: its area, a colon, and its number or name there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParkedId {
    pub(crate) area: String,
    pub(crate) item: String,
}

impl ParkedId {
    pub(crate) fn of(parked: &ParkedItem) -> Self {
        Self { area: parked.area.clone(), item: parked.item.clone() }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (area, item) = text.split_once(':')?;
        let is_whole = !area.is_empty() && !item.is_empty();
        is_whole.then(|| Self { area: area.to_owned(), item: item.to_owned() })
    }

    fn filter(&self) -> ParkedFilter {
        ParkedFilter::one(&self.area, &self.item)
    }

    /// As one word of a shell.
    fn quoted(&self) -> String {
        let id = self.to_string();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-');
        if id.chars().all(is_plain) { id } else { format!("'{}'", id.replace('\'', r"'\''")) }
    }
}

impl fmt::Display for ParkedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.area, self.item)
    }
}

/// What waits while an item of this area is parked.
pub(crate) fn effect(area: &str) -> &'static str {
    match area {
        webhooks::parked::RESULTS => {
            "the result of this job is not applied, and its delivery stays in progress"
        }
        webhooks::parked::DELIVERIES => "this delivery gets no attempt",
        webhooks::parked::JOBS => "this job of a delivery is neither returned to the queue nor ended",
        lifecycles::parked::ACTIONS => "this lifecycle stays in its state",
        lifecycles::parked::JOBS => "this job of a lifecycle is neither returned to the queue nor ended",
        OUTBOX => "this message waits; one that was sent is sent once more, with the same key",
        ADOPTION => "no node runs this saga",
        JOBS => "this hook, or job of a worker, waits",
        SAGA_RETENTION
        | MESSAGE_RETENTION
        | KEY_RETENTION
        | lifecycles::parked::RETENTION
        | lifecycles::parked::LETTER_RETENTION
        | webhooks::parked::DELIVERY_RETENTION
        | webhooks::parked::EVENT_RETENTION => "it is kept although it is old enough to be removed",
        _ => "it waits",
    }
}

/// Whether Backstitch can find a row that is in the way of such an item, and may remove it: both ends of a delivery insert
/// its dead letter.
pub(crate) fn may_have_conflict(area: &str) -> bool {
    [webhooks::parked::RESULTS, webhooks::parked::DELIVERIES].contains(&area)
}

/// The delivery whose dead letter another program may have inserted.
fn letter_conflict(id: &ParkedId) -> Option<LetterConflict> {
    let number = id.item.parse().ok()?;
    match id.area.as_str() {
        webhooks::parked::RESULTS => Some(LetterConflict::OfJob(number)),
        webhooks::parked::DELIVERIES => Some(LetterConflict::OfDelivery(number)),
        _ => None,
    }
}

/// What an operator can do about an item.
pub(crate) fn remedy(parked: &ParkedItem) -> String {
    let id = ParkedId::of(parked).quoted();
    let at = Rfc3339(parked.retry_at);
    let conflict = if may_have_conflict(&parked.area) {
        format!(
            "if the error is about a dead letter, run `backstitch parked remove-conflict {id}`; otherwise "
        )
    } else {
        String::new()
    };
    format!(
        "{conflict}put right what the error names, usually a row, constraint or trigger of another program, and run \
         `backstitch parked retry {id}`; it is tried again by itself at {at}"
    )
}

/// The item of this id, if it is parked now.
pub(crate) async fn find(app: &App, id: &ParkedId) -> Result<ParkedItem, Problem> {
    let found =
        app.engine.store().list_parked(&id.filter(), 1).await.map_err(|why| Problem::of_store(&why))?;
    found.into_iter().next().ok_or_else(|| not_found(id))
}

/// Has an item tried again by its next batch.
pub(crate) async fn retry(app: &App, id: &ParkedId) -> Result<ParkedItem, Problem> {
    let retried = app.engine.retry_parked(&id.filter()).await?;
    retried.into_iter().next().ok_or_else(|| not_found(id))
}

/// Has all items of an area, or whose reason contains a text, tried again. Answers with how many, and with words for the audit.
pub(crate) async fn retry_all(
    app: &App,
    area: Option<String>,
    reason: Option<String>,
) -> Result<(usize, String), Problem> {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let filters = filtered([("area", given(&area)), ("reason", given(&reason))]);
    let filter = ParkedFilter { area, reason, ..ParkedFilter::default() };
    let retried = app.engine.retry_parked(&filter).await?.len();
    Ok((retried, format!("retry: {retried} parked items{filters}")))
}

/// A row that was in the way of an item.
pub(crate) struct RemovedLetter {
    pub(crate) letter: DeadLetter,
    /// The item is tried again now; otherwise when its time comes.
    pub(crate) retried: bool,
}

/// Removes the row that is in the way of an item, and has the item tried again. Only a row that is no part of stored history
/// is removed; it is logged, and returned for the audit, whatever becomes of the retry.
pub(crate) async fn remove_conflict(app: &App, id: &ParkedId) -> Result<RemovedLetter, Problem> {
    let parked = find(app, id).await?;
    let removed = match letter_conflict(id) {
        Some(of) => app.webhooks.parts.dead_letters.remove_conflict(of).await?,
        None => None,
    };
    let Some(letter) = removed else {
        let detail = format!(
            "no row is known that is in the way of {id} and may be removed: put right what the error names, then retry it; \
             the error is: {}",
            parked.reason
        );
        return Err(Problem::new(Kind::NoConflict, detail));
    };
    tracing::warn!(
        item = %id,
        delivery = letter.saga_id,
        event = letter.event_id,
        subscription = letter.subscription_id,
        attempts = letter.attempt_count,
        error_code = letter.final_error_code,
        webhook_id = letter.webhook_id,
        created_at = %Rfc3339(letter.created_at),
        "conflicting dead letter removed"
    );
    let retried = app.engine.retry_parked(&id.filter()).await;
    if let Err(error) = &retried {
        tracing::warn!(item = %id, %error, "parked item cannot be retried now; it is tried again at its time");
    }
    Ok(RemovedLetter { letter, retried: retried.is_ok() })
}

/// What was removed, for the audit.
pub(crate) fn removed_words(RemovedLetter { letter, retried }: &RemovedLetter) -> String {
    let unretried = if *retried { "" } else { "; the item could not be retried at once" };
    format!(
        "remove-conflict: dead letter of delivery {}, event {}, subscription {}, {} attempts, error code {}, webhook id {}, \
         created {}{unretried}",
        letter.saga_id,
        letter.event_id,
        letter.subscription_id,
        letter.attempt_count,
        letter.final_error_code.as_deref().unwrap_or("none"),
        letter.webhook_id,
        Rfc3339(letter.created_at)
    )
}

fn not_found(id: &ParkedId) -> Problem {
    Problem::new(
        Kind::ParkedItemNotFound,
        format!("{id} is not parked, or was tried again: GET /v1/parked lists the items that are parked"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_an_area_and_an_item_that_may_hold_anything() {
        let id = ParkedId { area: "key_retention".to_owned(), item: "`a:b/c` of order's".to_owned() };
        assert_eq!(ParkedId::parse(&id.to_string()), Some(id.clone()));
        assert_eq!(id.quoted(), r"'key_retention:`a:b/c` of order'\''s'");
        for bad in ["", "outbox", ":7", "outbox:"] {
            assert_eq!(ParkedId::parse(bad), None, "{bad}");
        }
    }
}
