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
    let count = |probe: Query| -> Result<i64, Fault> {
        let mut statement = connection.prepare_cached(&probe.sql)?;
        Ok(statement.query_row(params_from_iter(probe.values), |row| row.get(0))?)
    };
    let query = Query::of(filter, cursor, By::fewest(filter, count)?);
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

/// How far it is counted what an index has of a filter, before another one is asked: what has fewer is read by it. An index that
/// has more than the last is as good as any.
const FEW: [i64; 2] = [1_000, 10_000];

/// What a page is read by. Every index ends in the id and so gives its part of the list in order. Which one is
/// read is said here: without statistics `SQLite` would guess.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Id,
    Correlation,
    /// The attribute that comes so far down the filter.
    Attribute(usize),
    Status,
    Definition,
}

impl By {
    /// The one that has the fewest sagas of the filter, as far as a short look tells.
    fn fewest<E>(filter: &Filter, count: impl Fn(Query) -> Result<i64, E>) -> Result<Self, E> {
        let candidates = Self::candidates(filter);
        if let [_, _, ..] = candidates[..] {
            for few in FEW {
                for by in &candidates {
                    if count(Query::probe(filter, *by, few))? < few {
                        return Ok(*by);
                    }
                }
            }
        }
        Ok(candidates.first().copied().unwrap_or(Self::Id))
    }

    /// Every index that has something of the filter, the likeliest to have little first.
    fn candidates(filter: &Filter) -> Vec<Self> {
        if filter.correlation_id.is_some() {
            return vec![Self::Correlation];
        }
        // Sagas that succeeded are most of the table.
        let rare = filter.status.filter(|status| *status != Status::Succeeded).map(|_| Self::Status);
        let common = filter.status.filter(|status| *status == Status::Succeeded).map(|_| Self::Status);
        let attributes = (0..filter.attributes.len()).map(Self::Attribute);
        let definition = filter.definition.as_ref().map(|_| Self::Definition);
        rare.into_iter().chain(attributes).chain(definition).chain(common).collect()
    }
}

struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    /// A page of what matches, read by this index.
    fn of(filter: &Filter, cursor: &Cursor, by: By) -> Self {
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
            let condition = if by == By::Attribute(number) {
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
            By::Attribute(_) => {
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

    /// How many sagas this index has of what the filter asks of it: so many at most.
    fn probe(filter: &Filter, by: By, most: i64) -> Self {
        let (source, bound) = match by {
            By::Attribute(number) => {
                let attribute = filter.attributes.iter().nth(number);
                let bound = attribute.map(|(name, value)| vec![name.clone(), value.clone()]);
                ("saga_attributes where name = ? and value = ?", bound)
            }
            By::Status => {
                let bound = filter.status.map(|status| vec![status.as_str().to_owned()]);
                ("sagas indexed by sagas_status where status = ?", bound)
            }
            By::Definition => {
                let bound = filter.definition.clone().map(|name| vec![name]);
                ("sagas indexed by sagas_definition where definition = ?", bound)
            }
            By::Id | By::Correlation => ("sagas where true", None),
        };
        let mut values: Vec<Value> = bound.unwrap_or_default().into_iter().map(Value::Text).collect();
        values.push(Value::Integer(most));
        Self { sql: format!("select count(*) from (select 1 from {source} limit ?)"), values }
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
        let by = By::fewest(filter, |_| Ok::<_, ()>(0)).unwrap();
        let query = Query::of(filter, &cursor, by);
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
                "SEARCH sagas USING INDEX sagas_status (status=? AND id<?); SEARCH saga_attributes EXISTS \
                 USING PRIMARY KEY (name=? AND value=? AND saga_id=?)",
            ),
            (
                Filter {
                    attributes: [("customer".to_owned(), "c1".to_owned())].into(),
                    definition: definition(),
                    ..status(Status::Succeeded)
                },
                "SEARCH wanted USING PRIMARY KEY (name=? AND value=? AND saga_id<?); SEARCH sagas USING PRIMARY KEY \
                 (id=?)",
            ),
        ];
        for (filter, expected) in expected {
            assert_eq!(plan(&filter), expected, "{filter:?}");
        }
    }

    /// So many sagas of one definition and one tenant, ten of which did not end well, and three of which are a customer's.
    fn filled(count: i64) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema::migrate(&connection, Timestamp::default()).unwrap();
        let sagas =
            "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
            insert into sagas (id, definition, version, status, created_at, updated_at)
            select
                unhex(printf('%032x', n)), 'deploy', 1,
                case when n <= 5 then 'failed' when n <= 10 then 'compensated' else 'succeeded' end, 0, 0
            from numbers";
        assert_eq!(i64::try_from(connection.execute(sagas, [count]).unwrap()).unwrap(), count);
        connection
            .execute_batch(
                "insert into saga_attributes (name, value, saga_id) select 'tenant', 'acme', id from sagas;
                 insert into saga_attributes (name, value, saga_id)
                 select 'customer', 'c1', id from sagas order by id limit 3",
            )
            .unwrap();
        connection
    }

    /// How many steps SQLite's machine takes for a page, with the looks before, and how many sagas are on it.
    fn steps(connection: &Connection, filter: &Filter) -> (i32, usize) {
        let taken = std::cell::Cell::new(0);
        let run = |query: Query| {
            let mut statement = connection.prepare(&query.sql).unwrap();
            let rows = statement.query_map(params_from_iter(query.values), |row| row.get::<_, Value>(0));
            let rows: Vec<Value> = rows.unwrap().map(Result::unwrap).collect();
            taken.set(taken.get() + statement.get_status(rusqlite::StatementStatus::VmStep));
            rows
        };
        let counted = |query| match run(query)[..] {
            [Value::Integer(count)] => Ok::<_, ()>(count),
            ref other => panic!("{other:?}"),
        };
        let by = By::fewest(filter, counted).unwrap();
        let found = run(Query::of(filter, &Cursor { before: None, limit: 50 }, by));
        (taken.get(), found.len())
    }

    #[test]
    fn a_page_of_a_rare_filter_costs_the_same_however_common_the_other_ones_are() {
        let (few, many) = (filled(1_000), filled(300_000));
        let attribute = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        let deploy = || Some("deploy".to_owned());
        let filters = [
            Filter {
                status: Some(Status::Failed),
                attributes: attribute("tenant", "acme"),
                ..Filter::default()
            },
            Filter { status: Some(Status::Compensated), definition: deploy(), ..Filter::default() },
            Filter { definition: deploy(), attributes: attribute("customer", "c1"), ..Filter::default() },
        ];
        for filter in filters {
            let ((few, found), (many, same)) = (steps(&few, &filter), steps(&many, &filter));
            assert!(found > 0 && found == same, "{filter:?}: {found} and {same}");
            assert!(few > 0 && many * 2 <= few * 3, "{filter:?}: {few} steps became {many}");
        }
        // The status is the common one here, and it takes a look to know.
        let found_by_look = Filter {
            status: Some(Status::Succeeded),
            attributes: [("customer".to_owned(), "c1".to_owned()), ("tenant".to_owned(), "acme".to_owned())]
                .into(),
            ..Filter::default()
        };
        let (cost, _) = steps(&many, &found_by_look);
        assert!(cost < 20_000, "{cost} steps");
    }
}
