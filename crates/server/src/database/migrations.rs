//! The server's own tables.

use backstitch::store::product::{Migration, Schema};

macro_rules! migration {
    ($number:literal, $name:literal) => {
        Migration {
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $number, "_", $name, ".sql")),
            postgres: include_str!(concat!("../../migrations/postgres/", $number, "_", $name, ".sql")),
        }
    };
}

/// The server's own tables.
pub(crate) static SCHEMA: Schema = Schema {
    product: "server",
    breaking: &[],
    migrations: &[
        migration!("0001", "api_keys"),
        migration!("0002", "audit"),
        migration!("0003", "audit_words"),
        migration!("0004", "ended_sessions"),
        migration!("0005", "guards"),
        migration!("0006", "audit_guards"),
    ],
};
