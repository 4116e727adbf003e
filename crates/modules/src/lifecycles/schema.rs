//! The tables of lifecycles.

use backstitch::store::product::{Migration, Schema};

/// Machines and their instances, for [`Options::products`](backstitch::Options::products).
pub static SCHEMA: Schema = Schema {
    product: "lifecycles",
    breaking: &[],
    migrations: &[
        Migration {
            name: "lifecycles",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0001.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0001.sql"),
        },
        Migration {
            name: "guards",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0002.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0002.sql"),
        },
        Migration {
            name: "abandoned",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0003.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0003.sql"),
        },
        Migration {
            name: "other_programs",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0004.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0004.sql"),
        },
        Migration {
            name: "leased_actions",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0005.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0005.sql"),
        },
        Migration {
            name: "held_actions",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0006.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0006.sql"),
        },
        Migration {
            name: "cheaper_guards",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0007.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0007.sql"),
        },
        Migration {
            name: "atomic_refusals",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0008.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0008.sql"),
        },
        // The engine's own migration of documents shuts out nodes that read the earlier tables.
        Migration {
            name: "documents",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0009.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0009.sql"),
        },
        Migration {
            name: "sound_integrity_check",
            sqlite: include_str!("../../migrations/sqlite/lifecycles_0010.sql"),
            postgres: include_str!("../../migrations/postgres/lifecycles_0010.sql"),
        },
    ],
};
