//! A trigger that rejects rows of a table, as a broken constraint or a conflicting row would.

/// The error of a rejected row.
pub const IN_THE_WAY: &str = "a test is in the way";

/// Rejects rows of an event (`insert`, `update` or `delete`) that match a condition on `new` or `old`.
#[must_use]
pub fn on_sqlite(table: &str, event: &str, condition: &str) -> String {
    format!(
        "create trigger obstacle_{table} before {event} on {table} when {condition}
         begin select raise(abort, '{IN_THE_WAY}'); end"
    )
}

/// The same for `PostgreSQL`.
#[must_use]
pub fn on_postgres(table: &str, event: &str, condition: &str) -> String {
    format!(
        "create trigger obstacle_{table} before {event} on backstitch.{table}
         for each row when ({condition}) execute function backstitch.refuse('{IN_THE_WAY}')"
    )
}

/// Removes it.
#[must_use]
pub fn gone_on_sqlite(table: &str) -> String {
    format!("drop trigger obstacle_{table}")
}

/// The same for `PostgreSQL`.
#[must_use]
pub fn gone_on_postgres(table: &str) -> String {
    format!("drop trigger obstacle_{table} on backstitch.{table}")
}
