//! Tells the administrator of what needs a person: a rollback that could not be finished, a hook that was given up.
//!
//! The engine writes an alert into its outbox with the decision that raises it. The resolution of the step closes it. [`AlertSink`] is the sink that takes
//! alerts from there to every configured channel, and keeps in a table of its own who has been told when. A channel
//! that has had an alert gets it no second time; one that failed is tried again, until the alert is out everywhere.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use backstitch::{Engine, Options};
//! use backstitch_modules::alerts::{self, AlertSink};
//!
//! # async fn run(config: alerts::Config) -> Result<(), Box<dyn std::error::Error>> {
//! let sink = Arc::new(AlertSink::new(&config)?);
//! let options = Options { products: vec![&alerts::SCHEMA], routes: backstitch::outbox::Routes::all_to(sink.clone()), ..Options::default() };
//! let engine = Engine::open_with("sqlite:orders.db", options).await?;
//! sink.attach(&engine).await?;
//!
//! let page = alerts::list(&engine, 50, None).await?;
//! # Ok(())
//! # }
//! ```

mod acknowledgement;
mod alert;
mod channel;
mod config;
mod list;
mod notices;
mod retention;
mod sink;
mod text;
mod undelivered;

use backstitch::store::product::{Migration, Schema};

pub use crate::settings::Secret;
pub use acknowledgement::{Acknowledged, Acknowledgement, RESOLUTION, acknowledge};
pub use alert::{Alert, Failure};
pub use config::{BadConfig, Config, Email, Security, Webhook};
pub use list::{BadCursor, Cursor, Listed, Notice, Page, list};
pub use retention::retention;
pub use sink::{AlertSink, CannotAttach};
pub use undelivered::{Missed, Undelivered, undelivered};

/// The tables of alerts, for [`Options::products`](backstitch::Options::products).
pub static SCHEMA: Schema = Schema {
    product: "alerts",
    breaking: &[],
    migrations: &[
        Migration {
            name: "notices",
            sqlite: include_str!("../../migrations/sqlite/alerts_0001.sql"),
            postgres: include_str!("../../migrations/postgres/alerts_0001.sql"),
        },
        Migration {
            name: "acknowledgements",
            sqlite: include_str!("../../migrations/sqlite/alerts_0002.sql"),
            postgres: include_str!("../../migrations/postgres/alerts_0002.sql"),
        },
        Migration {
            name: "retention",
            sqlite: include_str!("../../migrations/sqlite/alerts_0003.sql"),
            postgres: include_str!("../../migrations/postgres/alerts_0003.sql"),
        },
        Migration {
            name: "guards",
            sqlite: include_str!("../../migrations/sqlite/alerts_0004.sql"),
            postgres: include_str!("../../migrations/postgres/alerts_0004.sql"),
        },
        Migration {
            name: "recipients_and_resolutions",
            sqlite: include_str!("../../migrations/sqlite/alerts_0005.sql"),
            postgres: include_str!("../../migrations/postgres/alerts_0005.sql"),
        },
        Migration {
            name: "channels",
            sqlite: include_str!("../../migrations/sqlite/alerts_0006.sql"),
            postgres: include_str!("../../migrations/postgres/alerts_0006.sql"),
        },
    ],
};
