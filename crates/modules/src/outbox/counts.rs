//! How many messages stand where, counted by index and no further than people care.

use backstitch::store::Error;
use backstitch::store::outbox::Status;
use backstitch::store::product::Database;
use backstitch::store::sql::Statement;
use backstitch::{Engine, statement};

use crate::question::{Record, Value, answered, borrowed, on_file};

/// Messages of a status that are counted; more are as many.
pub const COUNTED: usize = 10_000;
/// Messages of one topic that are counted: there are many topics.
pub const COUNTED_OF_TOPIC: usize = 1_000;
/// Topics that are listed.
const TOPICS: usize = 50;

/// A topic, and how many of its messages there are and wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// What it is called.
    pub name: String,
    /// Messages that are to be sent, now or later.
    pub waiting: u32,
    /// All that are not being sent at this moment.
    pub all: u32,
}

/// How many messages are in each status; one more than [are counted](COUNTED) where there are more.
///
/// # Errors
/// When the database cannot be read.
pub async fn by_status(engine: &Engine) -> Result<Vec<(Status, u32)>, Error> {
    let mut counts = Vec::new();
    for status in Status::ALL {
        let values = vec![status.as_str().into(), (COUNTED + 1).into()];
        let rows = read(engine, statement!(outbox::count_messages), values).await?;
        counts.push((status, rows.first().map_or(Ok(0), |row| row.count("messages"))?));
    }
    Ok(counts)
}

/// The first topics by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    /// As many as are listed.
    pub items: Vec<Topic>,
    /// Whether there are more.
    pub more: bool,
}

/// The first topics there are, by name; of each one message more than [are counted](COUNTED_OF_TOPIC) where there are more.
///
/// # Errors
/// When the database cannot be read.
pub async fn by_topic(engine: &Engine) -> Result<Topics, Error> {
    let values = vec![(TOPICS + 1).into(), (COUNTED_OF_TOPIC + 1).into()];
    let rows = read(engine, statement!(outbox::count_topics), values).await?;
    let topic = |row: &Record| {
        Ok(Topic { name: row.text("topic")?, waiting: row.count("waiting")?, all: row.count("counted")? })
    };
    let items = rows.iter().take(TOPICS).map(topic).collect::<Result<_, Error>>()?;
    Ok(Topics { items, more: rows.len() > TOPICS })
}

async fn read(engine: &Engine, asked: Statement, values: Vec<Value>) -> Result<Vec<Record>, Error> {
    match engine.database() {
        Database::Sqlite(file) => {
            file.read_product(move |connection| on_file(connection, asked.sqlite, &values)).await
        }
        Database::Postgres(server) => {
            answered(&server.read_product(asked.postgres, &borrowed(&values)).await?)
        }
    }
}
