//! The tables of orders.

use backstitch::store::product::{Migration, RowKind, Schema};

/// Orders. What waits to be applied about them is among the engine's documents.
pub static SCHEMA: Schema = Schema {
    product: "orders",
    breaking: &[],
    migrations: &[
        Migration {
            name: "orders",
            sqlite: include_str!("../../migrations/sqlite/orders_0001.sql"),
            postgres: include_str!("../../migrations/postgres/orders_0001.sql"),
        },
        Migration {
            name: "retention",
            sqlite: include_str!("../../migrations/sqlite/orders_0002.sql"),
            postgres: include_str!("../../migrations/postgres/orders_0002.sql"),
        },
        Migration {
            name: "guards",
            sqlite: include_str!("../../migrations/sqlite/orders_0003.sql"),
            postgres: include_str!("../../migrations/postgres/orders_0003.sql"),
        },
        // The engine's own migration of documents shuts out nodes that read the earlier table.
        Migration {
            name: "documents",
            sqlite: include_str!("../../migrations/sqlite/orders_0004.sql"),
            postgres: include_str!("../../migrations/postgres/orders_0004.sql"),
        },
    ],
};

/// An order, from the JSON that its saga is started with. Its amount is kept as it stands there, digit by digit: a number
/// that a database has read is written by each in its own way.
pub(super) static ORDER: RowKind = RowKind {
    sqlite: "insert or fail into orders (tx_id, order_id, customer_id, items, amount, created_at)
        values (
            ?1, json_extract(?3, '$.order_id'), json_extract(?3, '$.customer_id'), json_extract(?3, '$.items'),
            case json_type(?3, '$.amount') when 'text' then ?3 ->> '$.amount' else ?3 -> '$.amount' end, ?2
        )",
    postgres: "insert into orders (tx_id, order_id, customer_id, items, amount, created_at)
        select
            tx_id, body ->> 'order_id', body ->> 'customer_id', body ->> 'items', body ->> 'amount', at
        from (
            select tx_id, at, text::json as body
            from unnest($1::uuid[], $2::timestamptz[], $3::text[]) as r (tx_id, at, text)
        ) as r",
};
