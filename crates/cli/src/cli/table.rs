//! Tables and records that fit the terminal.

use std::fmt::Write as _;

use backstitch::Timestamp;
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Row, Table, presets};
use serde_json::Value;

use super::ago::ago;
use super::output::Output;
use super::status::{Meaning, worded};
use super::text::shown;

/// The narrowest text column; a narrower one is omitted.
const LEAST: u16 = 8;
/// The gap between two columns.
const GAP: u16 = 2;

/// The content of a column.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// An id for the next command: never shortened.
    Id,
    /// A status of the API.
    Status,
    /// Text, shortened if it is too long.
    Text,
    /// A relative time; in a record the exact one too.
    Time,
    /// A value computed from several members.
    Made(fn(&Value) -> String),
}

/// A column of a table, or a line of a record.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    member: &'static str,
    kind: Kind,
}

macro_rules! kinds {
    ($($name:ident $kind:ident;)*) => {$(
        pub(crate) const fn $name(title: &'static str, member: &'static str) -> Self {
            Self { title, member, kind: Kind::$kind }
        }
    )*};
}

impl Column {
    kinds! { id Id; status Status; text Text; time Time; }

    pub(crate) const fn made(title: &'static str, made: fn(&Value) -> String) -> Self {
        Self { title, member: "", kind: Kind::Made(made) }
    }

    /// Whether it is shown however narrow the terminal is.
    fn is_kept(self) -> bool {
        matches!(self.kind, Kind::Id | Kind::Status)
    }

    fn is_cut(self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Made(_))
    }

    fn content(self, of: &Value, now: Timestamp) -> String {
        let value = member(of, self.member);
        match self.kind {
            Kind::Id | Kind::Text => plain(value),
            Kind::Status => value.as_str().map(worded).unwrap_or_default(),
            Kind::Time => value.as_str().map(|at| ago(at, now)).unwrap_or_default(),
            Kind::Made(made) => shown(&made(of)),
        }
    }

    fn cell(self, content: &str, of: &Value) -> Cell {
        let cell = Cell::new(content);
        let meaning = member(of, self.member).as_str().map(Meaning::of);
        match (self.kind, meaning.and_then(Meaning::colour)) {
            (Kind::Status, Some(colour)) => cell.fg(colour),
            _ => cell,
        }
    }

    /// For a record: exact and relative times.
    fn in_full(self, of: &Value, now: Timestamp) -> String {
        let content = self.content(of, now);
        match member(of, self.member).as_str() {
            Some(exact) if matches!(self.kind, Kind::Time) => format!("{} ({content})", shown(exact)),
            _ => content,
        }
    }
}

/// A member by its path, such as `error.message`.
pub(crate) fn member<'a>(of: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(of, |value, name| value.get(name).unwrap_or(&Value::Null))
}

/// A value on one line.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => shown(text),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(plain).collect::<Vec<_>>().join(", ")
        }
        Value::Number(_) | Value::Array(_) | Value::Object(_) => shown(&value.to_string()),
    }
}

/// The items as rows below a header.
pub(crate) fn table(
    items: &[Value],
    columns: &[Column],
    titled: bool,
    output: Output,
    now: Timestamp,
) -> String {
    let contents: Vec<Vec<String>> =
        items.iter().map(|item| columns.iter().map(|column| column.content(item, now)).collect()).collect();
    let shown = columns_that_fit(columns, &contents, output.width);
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_truncation_indicator("…").force_no_tty();
    if let Some(width) = output.width {
        table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    }
    if output.colours {
        table.enforce_styling();
    }
    if titled {
        table.set_header(one_line(shown.iter().map(|place| Cell::new(columns[*place].title))));
    }
    for (item, contents) in items.iter().zip(&contents) {
        table.add_row(one_line(shown.iter().map(|place| columns[*place].cell(&contents[*place], item))));
    }
    for (at, place) in shown.iter().enumerate() {
        let Some(column) = table.column_mut(at) else { continue };
        column.set_padding((0, if at + 1 < shown.len() { GAP } else { 0 }));
        if !columns[*place].is_cut() {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}

fn one_line(cells: impl Iterator<Item = Cell>) -> Row {
    let mut row = Row::from(cells.collect::<Vec<_>>());
    row.max_height(1);
    row
}

/// The columns that fit; columns at the right are omitted first.
fn columns_that_fit(columns: &[Column], contents: &[Vec<String>], width: Option<u16>) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let Some(width) = width else { return shown };
    let needed = |place: usize| {
        let widest = contents.iter().map(|row| wide(&row[place])).max().unwrap_or(0);
        let content = widest.max(wide(columns[place].title));
        if columns[place].is_cut() { content.min(LEAST) } else { content }
    };
    while shown.iter().map(|place| needed(*place) + GAP).sum::<u16>() > width.saturating_add(GAP) {
        let Some(at) = shown.iter().rposition(|place| !columns[*place].is_kept()) else { break };
        shown.remove(at);
    }
    shown
}

fn wide(text: &str) -> u16 {
    u16::try_from(console::measure_text_width(text)).unwrap_or(u16::MAX / 64)
}

/// An object as a line for each of its members.
pub(crate) fn record(of: &Value, lines: &[Column], now: Timestamp) -> String {
    let widest = lines.iter().map(|line| line.title.len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        let content = line.in_full(of, now);
        if !content.is_empty() {
            // Writing to text cannot fail.
            let _ = writeln!(text, "  {:widest$}  {content}", line.title);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::id("ID", "id"),
        Column::status("STATUS", "status"),
        Column::text("DEFINITION", "definition"),
        Column::time("UPDATED", "updated_at"),
    ];

    fn items() -> [Value; 2] {
        [
            json!({"id": "0192-aaaa", "status": "running", "definition": "order-confirmation-of-books", "updated_at": "1970-01-01T00:00:00Z"}),
            json!({"id": "0192-bbbb", "status": "failed", "definition": "東京の注文を確認するための処理", "updated_at": "1970-01-01T00:00:05Z"}),
        ]
    }

    fn printed(width: Option<u16>, colours: bool) -> String {
        let output = Output { json: false, is_live: width.is_some(), colours, width };
        table(&items(), &COLUMNS, true, output, Timestamp::from_micros(10_000_000))
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        assert_eq!(
            printed(None, false),
            "ID         STATUS     DEFINITION                      UPDATED\n\
             0192-aaaa  ● running  order-confirmation-of-books     10s ago\n\
             0192-bbbb  ✗ failed   東京の注文を確認するための処理  5s ago"
        );
    }

    #[test]
    fn every_line_fits_the_terminal_and_ids_are_whole() {
        for width in 24..90 {
            let table = printed(Some(width), false);
            for line in table.lines() {
                assert!(wide(line) <= width, "{width}: {line:?}");
            }
            assert!(table.contains("0192-aaaa") && table.contains("0192-bbbb"), "{width}: {table}");
            assert!(table.contains("● running") && table.contains("✗ failed"), "{width}: {table}");
        }
        assert!(printed(Some(40), false).contains('…'), "{}", printed(Some(40), false));
    }

    #[test]
    fn where_there_is_no_room_the_columns_to_the_right_are_left_out() {
        let table = printed(Some(24), false);
        assert!(table.starts_with("ID         STATUS\n"), "{table}");
        assert!(printed(Some(8), false).contains("0192-aaaa"), "an id is whole wherever it is shown");
    }

    #[test]
    fn there_are_colours_only_where_they_are_wanted() {
        assert!(!printed(Some(80), false).contains('\u{1b}'));
        assert!(printed(Some(80), true).contains('\u{1b}'));
    }

    #[test]
    fn text_from_others_is_escaped() {
        let item = json!({"id": "\u{1b}[2Jx\nID", "status": "\u{9b}31m", "definition": "\r\u{7}"});
        let output = Output { json: false, is_live: false, colours: false, width: None };
        let table = table(&[item], &COLUMNS, true, output, Timestamp::from_micros(0));
        assert!(!table.contains(|char: char| char.is_control() && char != '\n'), "{table:?}");
        assert_eq!(table.lines().count(), 2, "{table}");
    }

    #[test]
    fn record_shows_exact_times_and_omits_absent_members() {
        let item = json!({"id": 7, "status": null, "updated_at": "1970-01-01T00:00:00Z"});
        assert_eq!(
            record(&item, &COLUMNS, Timestamp::from_micros(2_000_000)),
            "  ID          7\n  UPDATED     1970-01-01T00:00:00Z (2s ago)\n"
        );
    }
}
