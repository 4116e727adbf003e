//! Sends the events of a time range to a subscription once more.

use backstitch::Timestamp;
use backstitch_api::text_type;

use super::base::Part;
use super::dead_letters::DeadLetters;
use super::error::Error;
use super::event_type::matches;
use super::page::LOOKED_AT;
use super::subscription::Subscription;
use crate::question::{Record, chosen, statement};

/// Events looked at in one transaction.
const PAGE: usize = 250;
/// The longest name of a replay, in bytes.
const MAX_ID: usize = 100;

text_type! {
    /// What a replay is called.
    ReplayId r"^[^\x00]*$", 1, MAX_ID, "after-the-outage", check_id;
}

fn check_id(id: &str) -> Result<(), String> {
    if (1..=MAX_ID).contains(&id.len()) && !id.contains('\0') {
        return Ok(());
    }
    Err(format!("has {} bytes: use 1 to {MAX_ID}, no zero byte", id.len()))
}

/// What is sent once more.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What it is called. Asked for again under the same name, nothing is sent twice.
    pub id: String,
    /// To whom.
    pub subscription_id: i64,
    /// Events that came then or later.
    pub since: Timestamp,
    /// Events that came before.
    pub until: Timestamp,
    /// Where an earlier call stopped.
    pub after: Option<Reached>,
}

/// The event up to which a replay has come: when it came, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// When it came.
    pub at: Timestamp,
    /// Its number.
    pub event: i64,
}

/// What came of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How many new deliveries there are.
    pub deliveries: usize,
    /// What to go on with; none when all were seen.
    pub next: Option<Reached>,
}

impl DeadLetters {
    /// Makes a brand-new delivery of every event of the range whose type the subscription names, and says how many are
    /// new. Those that were never routed to it are sent too. One call looks at so many events, and says where to go on; one
    /// that was cut short goes on when it is asked for again.
    ///
    /// # Errors
    /// When there is no such subscription, the name cannot be one, or the database cannot be written.
    pub async fn replay(&self, replay: &Replay) -> Result<Replayed, Error> {
        let Replay { id, subscription_id, since, until, after } = replay;
        check_id(id).map_err(|why| Error::invalid("replay_id", why))?;
        let rows = self.base().read(
            Part::DeadLetter,
            statement!("webhooks/load_subscription"),
            vec![(*subscription_id).into()],
        );
        let rows = rows.await?;
        let subscription = Subscription::read(
            rows.first().ok_or(Error::UnknownSubscription(*subscription_id))?,
            self.base().defaults,
        )?;
        let mut reached = after.unwrap_or(Reached { at: *since, event: 0 });
        let mut deliveries = 0;
        for _ in 0..LOOKED_AT / PAGE {
            let Reached { at, event } = reached;
            let values = vec![(*since).into(), (*until).into(), at.into(), event.into(), PAGE.into()];
            let page = self.base().read(Part::DeadLetter, statement!("webhooks/replayable"), values).await?;
            deliveries += self.send_again(replay, &subscription, &page).await?;
            match page.last() {
                Some(last) if page.len() == PAGE => {
                    reached = Reached { at: last.time(2)?, event: last.integer(0)? };
                }
                _ => return Ok(Replayed { deliveries, next: None }),
            }
        }
        Ok(Replayed { deliveries, next: Some(reached) })
    }

    async fn send_again(&self, replay: &Replay, to: &Subscription, page: &[Record]) -> Result<usize, Error> {
        let mut events = Vec::with_capacity(page.len());
        for row in page {
            if matches(&to.terms.event_types, &row.text(1)?) {
                events.push(row.integer(0)?);
            }
        }
        if events.is_empty() {
            return Ok(0);
        }
        let values = vec![chosen(&events), to.id.into(), replay.id.as_str().into(), self.base().now().into()];
        let rows = self.base().change(Part::DeadLetter, statement!("webhooks/replay"), values).await?;
        self.base().begin_soon();
        Ok(rows.len())
    }
}
