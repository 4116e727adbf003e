//! Which sagas somebody wants to see: what a list is filtered by, as it stands in its address.

use std::collections::BTreeMap;

use backstitch::{Cursor, Filter, Page, SagaId, Status, Summary, Timestamp};

use crate::app::App;
use crate::console::address::address;
use crate::console::form::Form;
use crate::http::Query;
use crate::problem::Problem;
use backstitch_api::time::Time;

/// Sagas that are looked at one by one for those of a time, before the page is as full as it gets.
const MOST_LOOKS: usize = 4;
/// Attributes that a list is filtered by at once.
const MOST_ATTRIBUTES: usize = 8;

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) filter: Filter,
    /// Not started before.
    pub(super) since: Option<Timestamp>,
    /// Not started after.
    pub(super) until: Option<Timestamp>,
}

/// The names of all that a list is filtered by.
pub(super) const KNOWN: &str =
    "status, definition, correlation_id, stuck_step, attr.NAME, attribute, since, until or cursor";
const STATUSES: &str = "use pending, running, succeeded, failed, compensating or compensated";
const TIMES: &str = "write it in RFC 3339, like 2030-01-31T12:00:00Z";
const ATTRIBUTES: &str = "write it as name=value";

impl Wanted {
    /// The field of a form that carries it.
    pub(super) const CARRIED: &str = "wanted";

    /// What the address says. Fields that were left empty say nothing.
    pub(super) fn asked(query: &mut Query) -> Result<Self, Problem> {
        let mut filled = |name: &str| query.text(name).filter(|text| !text.trim().is_empty());
        let (status, definition) = (filled("status"), filled("definition"));
        let (correlation_id, attribute) = (filled("correlation_id"), filled("attribute"));
        let (since, until) = (filled("since"), filled("until"));
        let stuck_step = filled("stuck_step");
        let mut attributes: Vec<(String, String)> = query.prefixed("attr.");
        if let Some(text) = attribute {
            let read = text.split_once('=').filter(|(name, _)| !name.trim().is_empty());
            let (name, value) = read.ok_or_else(|| wrong("attribute", &text, ATTRIBUTES))?;
            attributes.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        let attributes = filters(attributes)?;
        Ok(Self {
            filter: Filter {
                status: read("status", status, Status::parse, STATUSES)?,
                definition,
                correlation_id,
                attributes,
                stuck_step,
            },
            since: read("since", since, time, TIMES)?,
            until: read("until", until, time, TIMES)?,
        })
    }

    /// The same out of a form, which carries the address of the list: whatever a browser makes of blanks and lines in fields, those
    /// are meant that were shown.
    pub(super) fn carried(form: &Form) -> Result<Self, Problem> {
        let place = form.text(Self::CARRIED);
        let mut query = Query::parse(place.split_once('?').map_or("", |(_, query)| query))?;
        let wanted = Self::asked(&mut query)?;
        query.finish(KNOWN)?;
        Ok(wanted)
    }

    /// As fields of an address or a form.
    pub(super) fn fields(&self) -> Vec<(String, String)> {
        let Self { filter, since, until } = self;
        let mut fields = Vec::new();
        let mut field =
            |name: &str, value: Option<String>| fields.extend(value.map(|value| (name.to_owned(), value)));
        field("status", filter.status.map(|status| status.as_str().to_owned()));
        field("definition", filter.definition.clone());
        field("correlation_id", filter.correlation_id.clone());
        field("stuck_step", filter.stuck_step.clone());
        field("since", since.map(|at| Time(at).to_string()));
        field("until", until.map(|at| Time(at).to_string()));
        for (name, value) in &filter.attributes {
            field(&format!("attr.{name}"), Some(value.clone()));
        }
        fields
    }

    /// As the end of an address, with whatever else.
    pub(super) fn address(&self, place: &str, more: &[(&str, &str)]) -> String {
        let fields = self.fields();
        let own = fields.iter().map(|(name, value)| (name.as_str(), Some(value.as_str())));
        let parameters: Vec<_> = own.chain(more.iter().map(|(name, value)| (*name, Some(*value)))).collect();
        address(place, &parameters)
    }

    pub(super) fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// A page of them, newest first. Ids are by time, so that a time is a place in the list.
    pub(super) async fn page(
        &self,
        app: &App,
        before: Option<SagaId>,
        limit: usize,
    ) -> Result<Page, Problem> {
        let mut before = match (before, self.until) {
            (None, Some(until)) => Some(first_id_after(until)),
            (before, _) => before,
        };
        let mut items: Vec<Summary> = Vec::new();
        for _ in 0..MOST_LOOKS {
            let page = app.engine.list(&self.filter, &Cursor { before, limit: limit - items.len() }).await?;
            items.extend(page.items);
            // What comes after this is older still.
            let is_early_enough = |next: &SagaId| self.since.is_none_or(|since| *next >= first_id_of(since));
            before = page.next.filter(is_early_enough);
            items.retain(|saga| self.contains(saga));
            if before.is_none() || items.len() >= limit {
                break;
            }
        }
        Ok(Page { items, next: before })
    }

    fn contains(&self, saga: &Summary) -> bool {
        self.since.is_none_or(|since| saga.created_at >= since)
            && self.until.is_none_or(|until| saga.created_at <= until)
    }
}

/// Those that were filled in. One that is dropped would make the list longer than its address says, so that none is.
fn filters(attributes: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Problem> {
    let filled: BTreeMap<String, String> =
        attributes.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect();
    if filled.len() > MOST_ATTRIBUTES {
        let why = format!("are {}: filter by {MOST_ATTRIBUTES} at most", filled.len());
        return Err(crate::http::bad_query("attributes", &why));
    }
    Ok(filled)
}

/// No saga that was started up to then has a higher id.
fn first_id_after(at: Timestamp) -> SagaId {
    first_id(at.as_micros().div_euclid(1000) + 1)
}

/// No saga that was started then or later has a lower id.
fn first_id_of(at: Timestamp) -> SagaId {
    first_id(at.as_micros().div_euclid(1000))
}

fn first_id(millis: i64) -> SagaId {
    SagaId(uuid::Uuid::from_u128(u128::try_from(millis).unwrap_or_default() << 80))
}

fn time(text: &str) -> Option<Timestamp> {
    text.trim().parse::<Time>().ok().map(|time| time.0)
}

fn read<T>(
    name: &str,
    text: Option<String>,
    read: impl FnOnce(&str) -> Option<T>,
    expected: &str,
) -> Result<Option<T>, Problem> {
    text.map(|text| read(&text).ok_or_else(|| wrong(name, &text, expected))).transpose()
}

fn wrong(name: &str, text: &str, expected: &str) -> Problem {
    crate::http::bad_query(name, &format!("is `{text}`: {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_time_stands_before_or_after_all_of_that_time() {
        let at = Timestamp::from_micros(1_700_000_000_123_456);
        let made = |millis: u64| {
            uuid::Uuid::new_v7(uuid::Timestamp::from_unix(
                uuid::NoContext,
                millis / 1000,
                u32::try_from(millis % 1000).unwrap() * 1_000_000,
            ))
        };
        assert!(first_id_of(at).0 < made(1_700_000_000_123));
        assert!(first_id_of(at).0 > made(1_700_000_000_122));
        assert!(first_id_after(at).0 > made(1_700_000_000_123));
        assert!(first_id_after(at).0 < made(1_700_000_000_125));
    }

    #[test]
    fn what_is_wanted_is_carried_by_an_address() {
        let attributes = [("tenant".to_owned(), "a b&c".to_owned())].into();
        let filter = Filter { status: Some(Status::Failed), attributes, ..Filter::default() };
        let wanted = Wanted { filter, since: Some(Timestamp::from_micros(0)), until: None };
        let address = wanted.address("/sagas", &[("cursor", "x")]);
        assert_eq!(
            address,
            "/sagas?status=failed&since=1970-01-01T00%3A00%3A00.000000Z&attr.tenant=a+b%26c&cursor=x"
        );
        let mut query =
            Query::parse(address.split_once('?').unwrap().1.strip_suffix("&cursor=x").unwrap()).unwrap();
        assert_eq!(Wanted::asked(&mut query).unwrap(), wanted);
        assert_eq!(Wanted::default().address("/sagas", &[]), "/sagas");
    }

    #[test]
    fn a_form_carries_what_was_shown_with_every_blank_and_line_of_it() {
        let attributes = [("tenant".to_owned(), " a\nb ".to_owned())].into();
        let filter = Filter {
            definition: Some(" order ".to_owned()),
            correlation_id: Some("  c-1\n".to_owned()),
            attributes,
            ..Filter::default()
        };
        for wanted in [Wanted { filter, ..Wanted::default() }, Wanted::default()] {
            let sent = form_urlencoded::Serializer::new(String::new())
                .append_pair(Wanted::CARRIED, &wanted.address("/sagas", &[]))
                .finish();
            assert_eq!(Wanted::carried(&Form::parse(sent.as_bytes())).unwrap(), wanted);
        }
        assert!(Wanted::carried(&Form::parse(b"wanted=%2Fsagas%3Fodd%3D1")).is_err());
    }
}
