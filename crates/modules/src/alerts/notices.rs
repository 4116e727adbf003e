//! Who has been told of an alert, as the database keeps it.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use backstitch::clock::Clock;
use backstitch::store::product::Database;
use backstitch::store::{Error, Store};
use backstitch::{Engine, Timestamp, sql};
use rusqlite::params;

/// A row by the names of its columns, which both databases have, though not the word for getting one.
macro_rules! read {
    ($row:ident.$get:ident) => {
        Ok(($row.$get("created_at")?, $row.$get("channel")?, $row.$get("recipient")?))
    };
}

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
                    let mut statement = connection.prepare_cached(sql!(sqlite / alerts::told_so_far))?;
                    statement.query_map([key], |row| read!(row.get))?.collect::<rusqlite::Result<Vec<_>>>()
                };
                file.read_product(read).await?
            }
            Database::Postgres(server) => {
                let rows = server.read_product(sql!(postgres / alerts::told_so_far), &[&key]).await?;
                let row = |row: &tokio_postgres::Row| read!(row.try_get);
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
                    let mut statement = transaction.prepare_cached(sql!(sqlite / alerts::set_channels))?;
                    for (channel, recipient) in &recipients {
                        statement.execute(params![channel, recipient])?;
                    }
                    Ok(())
                };
                file.write_product(write).await?;
            }
            Database::Postgres(server) => {
                let (channels, recipients) = columns(recipients);
                server
                    .write_product(sql!(postgres / alerts::set_channels), &[&channels, &recipients])
                    .await?;
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
                    let mut statement = transaction.prepare_cached(sql!(sqlite / alerts::plan_recipients))?;
                    for (channel, recipient) in &recipients {
                        statement.execute(params![key, channel, recipient])?;
                    }
                    Ok(())
                };
                file.write_product(write).await?;
            }
            Database::Postgres(server) => {
                let (channels, recipients) = columns(recipients);
                let sql = sql!(postgres / alerts::plan_recipients);
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
                    transaction.prepare_cached(sql!(sqlite / alerts::record_notice))?.execute(values)
                };
                file.write_product(write).await?;
            }
            Database::Postgres(server) => {
                let sql = sql!(postgres / alerts::record_notice);
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
