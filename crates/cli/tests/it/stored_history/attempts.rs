//! Statements that try to change stored history, and what must stay the same.

use std::collections::BTreeMap;

use super::tables::{Content, Row, TABLES};

/// The tables of a store by name.
pub(crate) type Catalog = BTreeMap<String, Shape>;

/// What a table looks like.
pub(crate) struct Shape {
    pub(crate) columns: Vec<Column>,
    /// The columns of its primary key.
    pub(crate) key: Vec<String>,
}

pub(crate) struct Column {
    pub(crate) name: String,
    /// SQL values for a column: those of other rows, another one, and null.
    pub(crate) values: Vec<String>,
    /// Whether `insert` names it: not `rowid`, which has another name there.
    pub(crate) is_listed: bool,
}

impl Shape {
    pub(crate) fn listed(&self) -> Vec<&str> {
        self.columns.iter().filter(|column| column.is_listed).map(|column| column.name.as_str()).collect()
    }

    /// A row like the one that is found, with another value in one column, as `insert` takes it.
    pub(crate) fn copied(&self, table: &str, find: &str, column: &str, value: &str) -> String {
        let names = self.listed();
        let values: Vec<&str> = names.iter().map(|name| if *name == column { value } else { name }).collect();
        format!(
            "({}) {{overriding}} select {} from {table} where {find}",
            names.join(", "),
            values.join(", ")
        )
    }
}

/// What only one kind of store knows.
pub(crate) trait Dialect {
    /// Fills in the placeholders `{id:N}`, `{t}` and the like.
    fn filled(&self, sql: &str) -> String;
    /// The statements besides `update` that write another value into a column of a row.
    fn overwrites(&self, table: &str, shape: &Shape, find: &str, column: &str, value: &str) -> Vec<String>;
    /// The statements that empty a table at once.
    fn truncates(&self, table: &str) -> Vec<String>;
    /// A column as text, also where it is null.
    fn as_text(&self, column: &str) -> String;
    /// The columns of a row that other programs may change.
    fn free(&self, row: &Row) -> &'static [&'static str];
}

/// The rows of history that a store has, with their tables.
fn history(catalog: &Catalog) -> impl Iterator<Item = (&'static str, &Shape, &'static Row)> {
    TABLES.iter().flat_map(move |table| {
        let rows: &'static [Row] = match table.content {
            Content::History(rows) => rows,
            Content::Free(_) => &[],
        };
        let shape = catalog.get(table.name);
        rows.iter().filter_map(move |row| Some((table.name, shape?, row)))
    })
}

/// Every statement that has to leave history as it is.
pub(crate) fn attempts(dialect: &impl Dialect, catalog: &Catalog) -> Vec<String> {
    let mut all = Vec::new();
    for (table, shape, row) in history(catalog) {
        let find = dialect.filled(row.find);
        for Column { name, values, is_listed } in &shape.columns {
            for value in values {
                all.push(format!("update {table} set {name} = {value} where {find}"));
                if *is_listed {
                    all.extend(dialect.overwrites(table, shape, &find, name, value));
                } else {
                    all.push(format!("update or replace {table} set {name} = {value} where {find}"));
                }
            }
        }
        if !row.deletable {
            all.push(format!("delete from {table} where {find}"));
        }
        all.extend(dialect.truncates(table));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// For each row of history, a query for its frozen columns.
pub(crate) fn queries(dialect: &impl Dialect, catalog: &Catalog) -> Vec<String> {
    let query = |(table, shape, row): (&str, &Shape, &Row)| {
        let names = shape.listed();
        for free in row.free {
            assert!(names.contains(free), "{table} has no column {free}");
        }
        let free = dialect.free(row);
        let frozen: Vec<String> =
            names.iter().filter(|name| !free.contains(name)).map(|name| dialect.as_text(name)).collect();
        format!("select {} from {table} where {}", frozen.join(" || ' ' || "), dialect.filled(row.find))
    };
    history(catalog).map(query).collect()
}

/// The one row of the seed that a query finds. New rows may come to be found with it; it has to stay.
pub(crate) fn only(query: &str, found: Vec<String>) -> String {
    let [row] =
        found.try_into().unwrap_or_else(|found| panic!("the seed has one such row: {query}: {found:?}"));
    row
}

/// Fails for a table that has no entry.
pub(crate) fn assert_complete(catalog: &Catalog) {
    for table in TABLES {
        let has_reason = !matches!(table.content, Content::Free(why) if why.is_empty());
        assert!(has_reason, "{}: say why it holds no history", table.name);
    }
    let known = |name: &&String| TABLES.iter().any(|table| table.name == name.as_str());
    let missing: Vec<&String> = catalog.keys().filter(|name| !known(name)).collect();
    assert!(
        missing.is_empty(),
        "{missing:?}: say in stored_history/tables.rs what of these tables is history, and guard it"
    );
}
