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

/// What a page is read by. Every index ends in the id and so gives its part of the list in order. Which one is
/// read is said here: without statistics `SQLite` would guess.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Id,
    Correlation,
    Attribute,
    Status,
    Definition,
}

impl By {
    fn fewest(filter: &Filter) -> Self {
        // Sagas that came to a good end are most of the table; those in any other status are few.
        let ended_well = matches!(filter.status, Some(Status::Succeeded | Status::Compensated));
        match (filter.status, &filter.definition) {
            _ if filter.correlation_id.is_some() => Self::Correlation,
            _ if !filter.attributes.is_empty() => Self::Attribute,
            (_, Some(_)) if ended_well => Self::Definition,
            (Some(_), _) => Self::Status,
            (None, Some(_)) => Self::Definition,
            (None, None) => Self::Id,
        }
    }
}

struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    fn of(filter: &Filter, cursor: &Cursor) -> Self {
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
        if conditions.is_empty() {
            conditions.push("true".to_owned());
        }
        // One more than asked, which tells whether there are more.
        values.push(Value::Integer(limit(cursor.limit).saturating_add(1)));
        let conditions = conditions.join(" and ");
        let sql = format!("select {SUMMARY} from {source} where {conditions} order by {id} desc limit ?");
        Self { sql, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::schema;
    use backstitch_kernel::{SagaId, Timestamp};
    use uuid::Uuid;

    fn plan(filter: &Filter) -> String {
        let connection = Connection::open_in_memory().unwrap();
        schema::migrate(&connection, Timestamp::default()).unwrap();
        let cursor = Cursor { before: Some(SagaId(Uuid::nil())), limit: 10 };
        let query = Query::of(filter, &cursor);
        let mut statement = connection.prepare(&format!("explain query plan {}", query.sql)).unwrap();
        let lines = statement.query_map(params_from_iter(query.values), |row| row.get::<_, String>("detail"));
        lines.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("; ")
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
