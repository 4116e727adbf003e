//! The tables of webhooks.

use backstitch::store::product::{Migration, Schema};

/// Events, subscriptions, deliveries and what came of them, for [`Options::products`](backstitch::Options::products).
pub static SCHEMA: Schema = Schema {
    product: "webhooks",
    breaking: &[],
    migrations: &[
        Migration {
            name: "webhooks",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0001.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0001.sql"),
        },
        Migration {
            name: "waiting_dead_letters",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0002.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0002.sql"),
        },
        Migration {
            name: "lease_holders",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0003.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0003.sql"),
        },
        Migration {
            name: "guards",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0004.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0004.sql"),
        },
        Migration {
            name: "default_retries",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0005.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0005.sql"),
        },
        Migration {
            name: "parked_items",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0006.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0006.sql"),
        },
        Migration {
            name: "pauses",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0007.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0007.sql"),
        },
        Migration {
            name: "waiting_dead_letter_guards",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0008.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0008.sql"),
        },
        Migration {
            name: "conflicting_dead_letters",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0009.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0009.sql"),
        },
        Migration {
            name: "requeued_dead_letters",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0010.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0010.sql"),
        },
        Migration {
            name: "cheaper_guards",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0011.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0011.sql"),
        },
        Migration {
            name: "rejected_reports",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0012.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0012.sql"),
        },
        Migration {
            name: "atomic_refusals",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0013.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0013.sql"),
        },
        Migration {
            name: "sound_integrity_check",
            sqlite: include_str!("../../migrations/sqlite/webhooks_0014.sql"),
            postgres: include_str!("../../migrations/postgres/webhooks_0014.sql"),
        },
    ],
};
