//! Who has been told of an alert, as the database keeps it.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use backstitch::clock::Clock;
use backstitch::store::product::Database;
use backstitch::store::{Error, Store};
use backstitch::{Engine, Timestamp};
use rusqlite::params;

/// The text of a query in a dialect.
macro_rules! sql {
    ($dialect:literal, $name:literal) => {
        include_str!(concat!("../../queries/", $dialect, "/alerts/", $name, ".sql"))
    };
}
pub(super) use sql;

/// The table of notices of one engine. The engine holds the sink that holds this, so this does not hold the engine.
#[derive(Clone)]
pub(super) struct Notices {
    store: Weak<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
}

/// What is known of an alert before anybody is told.
pub(super) struct SoFar {
    /// When it was raised; `None` for one that is not in the outbox.
    pub(super) raised_at: Option<Timestamp>,
    /// Channel and recipient of each who has been told.
    pub(super) told: Vec<(String, String)>,
}

/// One try to tell somebody.
pub(super) struct Try {
    pub(super) channel: &'static str,
    pub(super) recipient: String,
    pub(super) error: Option<String>,
}

impl Notices {
    pub(super) fn of(engine: &Engine) -> Self {
        Self { store: Arc::downgrade(engine.store()), clock: engine.clock().clone() }
    }

    pub(super) async fn so_far(&self, key: &str) -> Result<SoFar, Error> {
        let store = self.store()?;
        let rows = match store.database() {
            Database::Sqlite(file) => {
                let key = key.to_owned();
                let read = move |connection: &rusqlite::Connection| {
                    let mut statement = connection.prepare_cached(sql!("sqlite", "told_so_far"))?;
                    let rows =
                        statement.query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                    rows.collect::<rusqlite::Result<Vec<_>>>()
                };
                file.read_product(read).await?
            }
            Database::Postgres(server) => {
                let rows = server.read_product(sql!("postgres", "told_so_far"), &[&key]).await?;
                let row = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
                rows.iter().map(row).collect::<Result<Vec<_>, _>>().map_err(unreadable)?
            }
        };
        let raised_at: Option<i64> = rows.first().and_then(|(raised_at, ..)| *raised_at);
        let told = rows.into_iter().filter_map(|(_, channel, recipient)| Option::zip(channel, recipient));
        Ok(SoFar { raised_at: raised_at.map(Timestamp::from_micros), told: told.collect() })
    }

    /// Replaces the channels whose recipients the database writes with each alert.
    pub(super) async fn set_channels(&self, recipients: &[(&'static str, String)]) -> Result<(), Error> {
        let store = self.store()?;
        match store.database() {
            Database::Sqlite(file) => {
                let recipients: BTreeSet<_> = recipients.iter().cloned().collect();
                let write = move |transaction: &rusqlite::Transaction<'_>| {
                    transaction.execute("delete from alert_channels", [])?;
                    let mut statement = transaction.prepare_cached(sql!("sqlite", "set_channels"))?;
                    for (channel, recipient) in &recipients {
                        statement.execute(params![channel, recipient])?;
                    }
                    Ok(())
                };
                file.write_product(write).await?;
            }
            Database::Postgres(server) => {
                let (channels, recipients) = columns(recipients);
                server.write_product(sql!("postgres", "set_channels"), &[&channels, &recipients]).await?;
            }
        }
        Ok(())
    }

    /// Records recipients that an alert lacks: those of channels that were set after it was raised.
    pub(super) async fn plan(&self, key: &str, recipients: &[(&'static str, String)]) -> Result<(), Error> {
        let store = self.store()?;
        match store.database() {
            Database::Sqlite(file) => {
                let (key, recipients) = (key.to_owned(), recipients.to_vec());
                let write = move |transaction: &rusqlite::Transaction<'_>| {
                    let mut statement = transaction.prepare_cached(sql!("sqlite", "plan_recipients"))?;
                    for (channel, recipient) in &recipients {
                        statement.execute(params![key, channel, recipient])?;
                    }
                    Ok(())
                };
                file.write_product(write).await?;
            }
            Database::Postgres(server) => {
                let (channels, recipients) = columns(recipients);
                let sql = sql!("postgres", "plan_recipients");
                server.write_product(sql, &[&key, &channels, &recipients]).await?;
            }
        }
        Ok(())
    }

    /// Keeps how a try went; a notice that is out stays as it is.
    pub(super) async fn record(&self, key: &str, tried: Try) -> Result<(), Error> {
        let store = self.store()?;
        let Try { channel, recipient, error } = tried;
        let now = self.clock.now().as_micros();
        let notified_at = error.is_none().then_some(now);
        match store.database() {
            Database::Sqlite(file) => {
                let key = key.to_owned();
                let write = move |transaction: &rusqlite::Transaction<'_>| {
                    let values = params![key, channel, recipient, now, notified_at, error];
                    transaction.prepare_cached(sql!("sqlite", "record_notice"))?.execute(values)
                };
                file.write_product(write).await?;
            }
            Database::Postgres(server) => {
                let sql = sql!("postgres", "record_notice");
                server.write_product(sql, &[&key, &channel, &recipient, &now, &notified_at, &error]).await?;
            }
        }
        Ok(())
    }

    fn store(&self) -> Result<Arc<dyn Store>, Error> {
        self.store.upgrade().ok_or_else(|| Error::Unavailable("the engine is closed".to_owned()))
    }
}

fn columns<'a>(recipients: &'a [(&'static str, String)]) -> (Vec<&'a str>, Vec<&'a str>) {
    recipients.iter().map(|(channel, recipient)| (*channel, recipient.as_str())).unzip()
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error it is given")]
pub(super) fn unreadable(why: tokio_postgres::Error) -> Error {
    Error::Refused(format!("alert_notices cannot be read: {why}"))
}
