//! The list of sagas, a page at a time.

use std::fmt::Write as _;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Status;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::sagas::summary;
use super::session::Session;
use super::sql;
use super::values::{get, is_text, limit};
use crate::store::stretch::{By, STRETCH};
use crate::store::{Cursor, Error, Filter, Page};

/// Sagas that match, newest first.
pub(super) async fn list(session: &Session, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
    if !holdable(filter) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let asked = Asked::of(filter, cursor);
    let mut search = Search::default();
    if filter.is_read_by_all_of_it() {
        search.add(sql!(sagas::summaries), &[]);
        asked.read(&mut search);
        search.add(" order by id desc limit ?", &[&asked.one_more]);
    } else {
        asked.look_through(&mut search);
    }
    let rows = session.query(&search.text, &search.values).await?;

    // Where nothing matches there is one row all the same, which says how far was looked.
    let floor = if filter.is_read_by_all_of_it() { None } else { floor(&rows)? };
    let mut items = Vec::with_capacity(rows.len());
    for row in &rows {
        if get::<Option<Uuid>>(row, "id")?.is_some() {
            items.push(summary(row)?);
        }
    }
    let more = items.len() > cursor.limit;
    items.truncate(cursor.limit);
    let next = if more { items.last().map(|last| last.id) } else { floor };
    Ok(Page { items, next })
}

/// The last saga that was looked at; nothing where all that were left were, or where the page is full before.
fn floor(rows: &[Row]) -> Result<Option<SagaId>, Error> {
    let floor = rows.first().map(|row| get::<Option<Uuid>>(row, "floor")).transpose()?;
    Ok(floor.flatten().map(SagaId))
}

/// What is asked for, as the values of a statement.
struct Asked<'a> {
    by: By,
    filter: &'a Filter,
    status: Option<&'static str>,
    before: Option<Uuid>,
    /// One more than asked, which tells whether there are more.
    one_more: i64,
    stretch: i64,
    but_one: i64,
}

impl<'a> Asked<'a> {
    fn of(filter: &'a Filter, cursor: &Cursor) -> Self {
        Self {
            by: By::fewest(filter),
            filter,
            status: filter.status.map(Status::as_str),
            before: cursor.before.map(|saga| saga.0),
            one_more: limit(cursor.limit).saturating_add(1),
            stretch: limit(STRETCH),
            but_one: limit(STRETCH - 1),
        }
    }

    /// The page and how far was looked for it, in one statement and so at one moment: were they asked one after the other,
    /// sagas that leave meanwhile what is read would let the next page begin behind some that nobody has looked at.
    fn look_through<'b>(&'b self, search: &mut Search<'b>) {
        // Of two conditions the planner takes one for granted: that what is rare comes soon. So it is told what to look at.
        search.add("with looked as materialized (select sagas.* from", &[]);
        self.read(search);
        search.add(" order by id desc limit ?),\npage as materialized (", &[&self.stretch]);
        search.add(sql!(sagas::summaries), &[]);
        self.choose(search);
        search.add(" order by id desc limit ?)\n", &[&self.one_more]);
        search.add("select page.*, ends.floor from (select case", &[]);
        // A page that is full ends with itself, and what is behind it need not be read.
        search.add(" when (select count(*) from page) < ?", &[&self.one_more]);
        search.add(" then (select id from looked order by id desc limit 1 offset ?)", &[&self.but_one]);
        search.add(" end as floor) as ends left join page on true order by page.id desc", &[]);
    }

    /// What it is read by, from an index that has it in order.
    fn read<'b>(&'b self, search: &mut Search<'b>) {
        let Self { by, filter, status, before, .. } = self;
        if let (By::Attribute, Some((name, value))) = (by, filter.attributes.first_key_value()) {
            search.add(" (select saga_id from saga_attributes where name = ? and value = ?", &[name, value]);
            if let Some(before) = before {
                search.add(" and saga_id < ?", &[before]);
            }
            // Both have the same order, so that none but those of the page are read.
            search.add(" order by saga_id desc) as wanted join sagas on id = saga_id where true", &[]);
            return;
        }
        search.add(" sagas where true", &[]);
        match (by, filter) {
            (By::Correlation, Filter { correlation_id: Some(id), .. }) => {
                search.add(" and correlation_id = ?", &[id]);
            }
            (By::Definition, Filter { definition: Some(name), .. }) => {
                search.add(" and definition = ?", &[name]);
            }
            (By::Status, _) => search.add(" and status = ?", &[status]),
            _ => {}
        }
        if let Some(before) = before {
            search.add(" and id < ?", &[before]);
        }
    }

    /// What else must hold for those that were looked at.
    fn choose<'b>(&'b self, search: &mut Search<'b>) {
        let Self { filter, status, .. } = self;
        search.add(" looked where true", &[]);
        if let Some(status) = status {
            search.add(" and status = ?", &[status]);
        }
        if let Some(definition) = &filter.definition {
            search.add(" and definition = ?", &[definition]);
        }
        if let Some(correlation_id) = &filter.correlation_id {
            search.add(" and correlation_id = ?", &[correlation_id]);
        }
        for (name, value) in &filter.attributes {
            // Asked for each one by itself: an attribute may be that of half of all sagas.
            let having = " and (select true from saga_attributes where name = ? and value = ? and saga_id = looked.id)";
            search.add(having, &[name, value]);
        }
    }
}

/// A statement that has only the conditions asked for, so that its plan is the one for these conditions.
#[derive(Default)]
struct Search<'a> {
    text: String,
    values: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> Search<'a> {
    /// Goes on with `text`, where each question mark stands for the next of the values.
    fn add(&mut self, text: &str, values: &[&'a (dyn ToSql + Sync)]) {
        let mut parts = text.split('?');
        self.text.push_str(parts.next().unwrap_or_default());
        for (part, value) in parts.zip(values) {
            self.values.push(*value);
            let _ = write!(self.text, "${}{part}", self.values.len());
        }
    }
}

/// What no column can hold is not there to be found.
fn holdable(filter: &Filter) -> bool {
    let attributes = filter.attributes.iter().flat_map(|(name, value)| [name, value]);
    let mut texts = attributes.chain(&filter.definition).chain(&filter.correlation_id);
    texts.all(|text| is_text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_numbers_its_values_as_they_come() {
        let mut search = Search::default();
        search.add("select 1 where true", &[]);
        search.add(" and a = ?", &[&"a"]);
        search.add(" and b in (select c from d where e = ? and f = ?)", &[&1, &2]);
        search.add(" limit ?", &[&3]);
        assert_eq!(
            search.text,
            "select 1 where true and a = $1 and b in (select c from d where e = $2 and f = $3) limit $4"
        );
        assert_eq!(search.values.len(), 4);
    }
}
