//! How many messages stand where, counted by index and no further than people care.

use backstitch::Engine;
use backstitch::store::Error;
use backstitch::store::outbox::Status;
use backstitch::store::product::Database;

/// Messages of a status or a topic that are counted; more are as many.
pub(super) const COUNTED: usize = 10_000;
/// Messages of one topic that are counted: there are many topics.
pub(super) const COUNTED_OF_TOPIC: usize = 1_000;
/// Topics that are listed.
const TOPICS: i64 = 50;

/// The text of a query in a dialect.
macro_rules! sql {
    ($dialect:literal, $name:literal) => {
        include_str!(concat!("../../../queries/", $dialect, "/", $name, ".sql"))
    };
}

/// A topic, and how many of its messages there are and wait.
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) waiting: u64,
    pub(super) all: u64,
}

/// How many messages are in each status.
pub(super) async fn by_status(engine: &Engine) -> Result<Vec<(Status, u64)>, Error> {
    let most = i64::try_from(COUNTED + 1).unwrap_or(i64::MAX);
    let mut counts = Vec::new();
    for status in Status::ALL {
        let word = status.as_str();
        let count: i64 = match database(engine)? {
            Database::Sqlite(file) => {
                let read = move |connection: &rusqlite::Connection| {
                    let mut statement = connection.prepare_cached(sql!("sqlite", "count_messages"))?;
                    statement.query_row(rusqlite::params![word, most], |row| row.get(0))
                };
                file.read_product(read).await?
            }
            Database::Postgres(server) => {
                let rows = server.read_product(sql!("postgres", "count_messages"), &[&word, &most]).await?;
                rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(unreadable)?
            }
        };
        counts.push((status, count.unsigned_abs()));
    }
    Ok(counts)
}

/// The topics there are, by name.
pub(super) async fn by_topic(engine: &Engine) -> Result<Vec<Topic>, Error> {
    let most = i64::try_from(COUNTED_OF_TOPIC + 1).unwrap_or(i64::MAX);
    let rows: Vec<(String, i64, i64)> = match database(engine)? {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare_cached(sql!("sqlite", "count_topics"))?;
                let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
                statement.query_map([TOPICS, most], row)?.collect()
            };
            file.read_product(read).await?
        }
        Database::Postgres(server) => {
            let rows = server.read_product(sql!("postgres", "count_topics"), &[&TOPICS, &most]).await?;
            let row = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
            rows.iter().map(row).collect::<Result<_, _>>().map_err(unreadable)?
        }
    };
    let topic = |(name, waiting, all): (String, i64, i64)| Topic {
        name,
        waiting: waiting.unsigned_abs(),
        all: all.unsigned_abs(),
    };
    Ok(rows.into_iter().map(topic).collect())
}

fn database(engine: &Engine) -> Result<Database<'_>, Error> {
    engine
        .database()
        .ok_or_else(|| Error::Refused("an engine in memory has no outbox to look into".to_owned()))
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error it is given")]
fn unreadable(why: tokio_postgres::Error) -> Error {
    Error::Refused(format!("the outbox cannot be counted: {why}"))
}
