//! The list of sagas, a page at a time.

use backstitch_kernel::SagaId;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};
use uuid::Uuid;

use super::fault::Fault;
use super::sagas::summary;
use super::sql;
use super::values::limit;
use crate::store::stretch::{By, STRETCH};
use crate::store::{Cursor, Filter, Page};

/// Sagas that match, newest first.
pub(super) fn list(connection: &Connection, filter: &Filter, cursor: &Cursor) -> Result<Page, Fault> {
    let floor = if filter.is_read_by_all_of_it() { None } else { floor(connection, filter, cursor)? };
    let query = Query::of(filter, cursor, floor);
    let mut statement = connection.prepare_cached(&query.sql)?;
    let mut rows = statement.query(params_from_iter(query.values))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(summary(row)?);
    }
    let more = items.len() > cursor.limit;
    items.truncate(cursor.limit);
    let next = if more { items.last().map(|item| item.id) } else { floor };
    Ok(Page { items, next })
}

/// The last saga that is looked at for this page; nothing where all that are left are.
fn floor(connection: &Connection, filter: &Filter, cursor: &Cursor) -> Result<Option<SagaId>, Fault> {
    let Query { sql, values } = Query::of_floor(filter, cursor);
    let mut statement = connection.prepare_cached(&sql)?;
    let id = statement.query_row(params_from_iter(values), |row| row.get("id")).optional()?;
    Ok(id.map(|id| SagaId(Uuid::from_bytes(id))))
}

/// A page, or where it ends. Which index is read is said here: without statistics `SQLite` would guess.
struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    fn of(filter: &Filter, cursor: &Cursor, floor: Option<SagaId>) -> Self {
        let by = By::fewest(filter);
        let mut conditions = Vec::new();
        let mut values = Vec::new();
        let mut require = |condition: String, bound: &[&str]| {
            conditions.push(condition);
            values.extend(bound.iter().map(|text| Value::Text((*text).to_owned())));
        };
        // A plus sign hides a column from the choice of an index.
        let column =
            |name: &str, index: By| if by == index { format!("{name} = ?") } else { format!("+{name} = ?") };
        for (number, (name, value)) in filter.attributes.iter().enumerate() {
            let condition = if by == By::Attribute && number == 0 {
                "wanted.name = ? and wanted.value = ?"
            } else {
                "exists (select 1 from saga_attributes where name = ? and value = ? and saga_id = sagas.id)"
            };
            require(condition.to_owned(), &[name, value]);
        }
        if let Some(status) = filter.status {
            require(column("status", By::Status), &[status.as_str()]);
        }
        if let Some(definition) = &filter.definition {
            require(column("definition", By::Definition), &[definition]);
        }
        if let Some(correlation_id) = &filter.correlation_id {
            require(column("correlation_id", By::Correlation), &[correlation_id]);
        }
        let (source, id) = match by {
            By::Attribute => {
                let source = "saga_attributes as wanted cross join sagas on sagas.id = wanted.saga_id";
                (source, "wanted.saga_id")
            }
            By::Id | By::Correlation | By::Status | By::Definition => ("sagas", "sagas.id"),
        };
        if let Some(before) = cursor.before {
            conditions.push(format!("{id} < ?"));
            values.push(Value::Blob(before.0.as_bytes().to_vec()));
        }
        if let Some(floor) = floor {
            conditions.push(format!("{id} >= ?"));
            values.push(Value::Blob(floor.0.as_bytes().to_vec()));
        }
        if conditions.is_empty() {
            conditions.push("true".to_owned());
        }
        // One more than asked, which tells whether there are more.
        values.push(Value::Integer(limit(cursor.limit).saturating_add(1)));
        let conditions = conditions.join(" and ");
        let summaries = sql!(sagas::summaries);
        let sql = format!("{summaries} {source} where {conditions} order by {id} desc limit ?");
        Self { sql, values }
    }

    /// How far what a page is read by goes in one stretch.
    fn of_floor(filter: &Filter, cursor: &Cursor) -> Self {
        let text = |text: &str| Value::Text(text.to_owned());
        let (condition, mut values) = match (By::fewest(filter), filter) {
            (By::Correlation, Filter { correlation_id: Some(id), .. }) => {
                ("correlation_id = ?", vec![text(id)])
            }
            (By::Status, Filter { status: Some(status), .. }) => ("status = ?", vec![text(status.as_str())]),
            (By::Definition, Filter { definition: Some(name), .. }) => ("definition = ?", vec![text(name)]),
            (By::Attribute, Filter { attributes, .. }) => {
                let wanted = attributes.first_key_value();
                let values = wanted.map(|(name, value)| vec![text(name), text(value)]);
                ("name = ? and value = ?", values.unwrap_or_default())
            }
            _ => ("true", Vec::new()),
        };
        let (source, id) = match By::fewest(filter) {
            By::Attribute => ("saga_attributes", "saga_id"),
            By::Id | By::Correlation | By::Status | By::Definition => ("sagas", "id"),
        };
        let mut older = "";
        if let Some(before) = cursor.before {
            older = if id == "id" { "and id < ?" } else { "and saga_id < ?" };
            values.push(Value::Blob(before.0.as_bytes().to_vec()));
        }
        values.push(Value::Integer(limit(STRETCH - 1)));
        let sql = format!(
            "select {id} as id from {source} where {condition} {older} order by {id} desc limit 1 offset ?"
        );
        Self { sql, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::schema;
    use backstitch_kernel::Timestamp;
    use backstitch_kernel::saga::Status;

    fn explained(connection: &Connection, query: Query) -> String {
        let mut statement = connection.prepare(&format!("explain query plan {}", query.sql)).unwrap();
        let lines = statement.query_map(params_from_iter(query.values), |row| row.get::<_, String>("detail"));
        lines.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    fn plan(filter: &Filter) -> String {
        let connection = Connection::open_in_memory().unwrap();
        schema::migrate_engine(&connection, Timestamp::default()).unwrap();
        let cursor = Cursor { before: Some(SagaId(Uuid::nil())), limit: 10 };
        explained(&connection, Query::of(filter, &cursor, None))
    }

    #[test]
    fn a_stretch_is_found_by_the_index_that_the_page_is_read_by() {
        let connection = Connection::open_in_memory().unwrap();
        schema::migrate_engine(&connection, Timestamp::default()).unwrap();
        let cursor = Cursor { before: Some(SagaId(Uuid::nil())), limit: 10 };
        let definition = || Some("deploy".to_owned());
        let status = |status| Filter { status: Some(status), definition: definition(), ..Filter::default() };
        let attributes = || [("customer".to_owned(), "c1".to_owned())].into();
        let expected = [
            (status(Status::Failed), "USING COVERING INDEX sagas_status (status=? AND id<?)"),
            (status(Status::Compensated), "USING COVERING INDEX sagas_definition (definition=? AND id<?)"),
            (
                Filter { correlation_id: Some("order-1".to_owned()), ..status(Status::Failed) },
                "USING COVERING INDEX sagas_correlation_id (correlation_id=? AND id<?)",
            ),
            (
                Filter { attributes: attributes(), ..status(Status::Failed) },
                "USING PRIMARY KEY (name=? AND value=? AND saga_id<?)",
            ),
        ];
        for (filter, expected) in expected {
            let plan = explained(&connection, Query::of_floor(&filter, &cursor));
            assert!(plan.starts_with("SEARCH ") && plan.ends_with(expected), "{filter:?}: {plan}");
        }
    }

    #[test]
    fn every_filter_reads_an_index_in_its_order_and_sorts_nothing() {
        let status = |status| Filter { status: Some(status), ..Filter::default() };
        let definition = || Some("deploy".to_owned());
        let expected = [
            (Filter::default(), "SEARCH sagas USING PRIMARY KEY (id<?)"),
            (status(Status::Running), "SEARCH sagas USING INDEX sagas_status (status=? AND id<?)"),
            (
                Filter { definition: definition(), ..Filter::default() },
                "SEARCH sagas USING INDEX sagas_definition (definition=? AND id<?)",
            ),
            (
                Filter { definition: definition(), ..status(Status::Failed) },
                "SEARCH sagas USING INDEX sagas_status (status=? AND id<?)",
            ),
            (
                Filter { definition: definition(), ..status(Status::Succeeded) },
                "SEARCH sagas USING INDEX sagas_definition (definition=? AND id<?)",
            ),
            (
                Filter {
                    correlation_id: Some("order-1".to_owned()),
                    definition: definition(),
                    ..status(Status::Failed)
                },
                "SEARCH sagas USING INDEX sagas_correlation_id (correlation_id=? AND id<?)",
            ),
            (
                Filter {
                    attributes: [("customer".to_owned(), "c1".to_owned())].into(),
                    ..status(Status::Failed)
                },
                "SEARCH wanted USING PRIMARY KEY (name=? AND value=? AND saga_id<?); SEARCH sagas USING PRIMARY KEY \
                 (id=?)",
            ),
        ];
        for (filter, expected) in expected {
            assert_eq!(plan(&filter), expected, "{filter:?}");
        }
    }
}
