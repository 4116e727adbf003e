//! The list of sagas, a page at a time.

use backstitch_kernel::saga::Status;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::fault::Fault;
use super::sagas::{SUMMARY, summary};
use super::values::limit;
use crate::store::{Cursor, Filter, Page};

/// Sagas that match, newest first.
pub(super) fn list(connection: &Connection, filter: &Filter, cursor: &Cursor) -> Result<Page, Fault> {
    let query = Query::of(filter, cursor);
    let mut statement = connection.prepare_cached(&query.sql)?;
    let mut rows = statement.query(params_from_iter(query.values))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(summary(row)?);
    }
    let more = items.len() > cursor.limit;
    items.truncate(cursor.limit);
    let next = items.last().map(|item| item.id).filter(|_| more);
    Ok(Page { items, next })
}

/// What the page is read by. Every index ends in the id, so each gives its part of the list in order; which of
/// them is read is said here, for without statistics `SQLite` would guess.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Newest,
    Correlation,
    Attribute,
    Status,
    Definition,
}

impl Order {
    fn of(filter: &Filter) -> Self {
        // Sagas that have come to a good end are most of the table; the others are few.
        let ended_well = |status| matches!(status, Status::Succeeded | Status::Compensated);
        match (filter.status, &filter.definition) {
            _ if filter.correlation_id.is_some() => Self::Correlation,
            _ if !filter.attributes.is_empty() => Self::Attribute,
            (Some(status), Some(_)) if ended_well(status) => Self::Definition,
            (Some(_), _) => Self::Status,
            (None, Some(_)) => Self::Definition,
            (None, None) => Self::Newest,
        }
    }
}

struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    fn of(filter: &Filter, cursor: &Cursor) -> Self {
        let order = Order::of(filter);
        let mut query = Self {
            sql: format!("select {SUMMARY} from "),
            values: Vec::new(),
        };
        query.sources(order, filter.attributes.len());
        for (number, (name, value)) in filter.attributes.iter().enumerate() {
            query.equals(&format!("a{number}.name"), name.clone());
            query.equals(&format!("a{number}.value"), value.clone());
        }
        // A plus sign hides a column from the choice of an index.
        let column = |wanted: Order, name: &str| {
            if order == wanted { name.to_owned() } else { format!("+{name}") }
        };
        if let Some(status) = filter.status {
            query.equals(&column(Order::Status, "status"), status.as_str().to_owned());
        }
        if let Some(definition) = &filter.definition {
            query.equals(&column(Order::Definition, "definition"), definition.clone());
        }
        if let Some(correlation_id) = &filter.correlation_id {
            query.equals("correlation_id", correlation_id.clone());
        }
        let id = if order == Order::Attribute { "a0.saga_id" } else { "sagas.id" };
        if let Some(before) = cursor.before {
            query.values.push(Value::Blob(before.0.as_bytes().to_vec()));
            query.condition(&format!("{id} < ?"));
        }
        query.values.push(Value::Integer(limit(cursor.limit).saturating_add(1)));
        query.sql.push_str(&format!(" order by {id} desc limit ?"));
        query
    }
}
