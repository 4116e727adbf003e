//! Appends to `saga_events`.

use std::sync::LazyLock;

use rusqlite::Connection;

use super::grouped_insert::GroupedInsert;

static APPEND: LazyLock<GroupedInsert> = LazyLock::new(|| {
    GroupedInsert::new("insert or fail into saga_events (saga_id, seq, at, type, step, attempt, data)", 7)
});

/// An event as its row, of a saga or of a product that keeps its log here.
pub struct EventRow<'e> {
    /// Whose log it belongs to.
    pub saga_id: &'e [u8; 16],
    /// Its number in that log.
    pub seq: u64,
    /// When it happened, in microseconds.
    pub at: i64,
    /// The name of its type.
    pub name: &'e str,
    /// The step or state it is about.
    pub step: Option<&'e str>,
    /// The attempt it is about.
    pub attempt: Option<u32>,
    /// The rest, as JSON.
    pub data: Option<String>,
}

/// Appends events in their order.
///
/// # Errors
/// When the file rejects one of them: roll the transaction back.
pub fn append_events(connection: &Connection, events: &[EventRow<'_>]) -> rusqlite::Result<()> {
    APPEND.insert(connection, events, |event, values| {
        values.bind(event.saga_id)?;
        values.bind(i64::try_from(event.seq).unwrap_or(i64::MAX))?;
        values.bind(event.at)?;
        values.bind(event.name)?;
        values.bind(event.step)?;
        values.bind(event.attempt)?;
        values.bind(event.data.as_deref())
    })
}
