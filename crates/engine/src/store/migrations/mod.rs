//! Migrations of the engine's tables, of each product's and of the server's, in both dialects. The record of what was
//! applied is one table, by area.

#[cfg(feature = "postgres")]
pub(super) mod statements;

use super::Error;
use super::product::{Migration, Schema};

macro_rules! migration {
    ($number:literal, $name:literal) => {
        Migration {
            name: $name,
            sqlite: include_str!(concat!("../../../migrations/sqlite/", $number, "_", $name, ".sql")),
            postgres: include_str!(concat!("../../../migrations/postgres/", $number, "_", $name, ".sql")),
        }
    };
}

/// The engine's own tables.
pub(super) static ENGINE: Schema = Schema {
    product: "engine",
    // Nodes before the tenth do not know the event `step.leased`, and those before the 14th read the definitions' own tables.
    breaking: &[10, 14],
    migrations: &[
        migration!("0001", "sagas"),
        migration!("0002", "jobs"),
        migration!("0003", "outbox"),
        migration!("0004", "retention"),
        migration!("0005", "guards"),
        migration!("0006", "ordering"),
        migration!("0007", "order_requests"),
        migration!("0008", "parked_items"),
        migration!("0009", "other_programs"),
        migration!("0010", "mixed_versions"),
        migration!("0011", "cheaper_guards"),
        migration!("0012", "product_versions"),
        migration!("0013", "atomic_refusals"),
        migration!("0014", "documents"),
        migration!("0015", "written_answers"),
        migration!("0016", "attributes"),
    ],
};

/// The migrations that a database lacks, with their versions.
pub(super) fn missing(schema: &Schema, found: i64) -> Result<impl Iterator<Item = (i64, &Migration)>, Error> {
    let known = schema.newest();
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    Ok((1..).zip(schema.migrations).filter(move |(version, _)| *version > found))
}
