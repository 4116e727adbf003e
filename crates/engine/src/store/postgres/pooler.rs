//! Refuses poolers that hand out another session with every transaction.
//!
//! The store prepares statements, sets what its sessions need, and listens for notifications. All of that belongs to a
//! session of the server, which a pooler in transaction mode shares among its clients.

use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::dial::Dialler;
use super::fault;
use super::session::WAIT_WITHIN;
use crate::store::Error;

/// A setting that a server takes from the startup packet. A pooler refuses it, or drops it.
const MARK: &str = "-c backstitch.marked=on";
const IS_MARKED: &str = "select current_setting('backstitch.marked', true)";
const SESSION: &str = "select pg_backend_pid()";
/// `PgBouncer` says so about a setting that it does not pass on.
const WORDS_OF_PGBOUNCER: &str = "unsupported startup parameter";
/// Other clients of the pooler can come in between, so one round may show nothing.
const ROUNDS: usize = 5;

/// Whether each connection to this address is a session of its own.
///
/// # Errors
/// When the address leads to a pooler in transaction or statement mode, or the server cannot be reached.
pub(super) async fn refuse_transaction_pooling(dialler: &Dialler) -> Result<(), Error> {
    let late = |_| Error::Unavailable(format!("no answer within {WAIT_WITHIN:?}"));
    let Some(pooler) = timeout(WAIT_WITHIN, Box::pin(pooler(dialler))).await.map_err(late)?? else {
        return Ok(());
    };
    if !timeout(WAIT_WITHIN, Box::pin(shares_sessions(dialler))).await.map_err(late)?? {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the address leads to {pooler} in transaction pooling mode, which hands out another session with every \
         transaction: use session pooling (pool_mode = session) for this database, or the address of the server itself"
    )))
}

/// What stands between this process and the server, if it does not pass on what a client sets.
async fn pooler(dialler: &Dialler) -> Result<Option<&'static str>, Error> {
    let mut marked = dialler.clone();
    let options = dialler.config.get_options().map_or(MARK.to_owned(), |set| format!("{set} {MARK}"));
    marked.config.options(options);
    match session(&marked).await {
        Ok(client) => match first_value(&client, IS_MARKED).await?.as_deref() {
            Some("on") => Ok(None),
            _ => Ok(Some("a connection pooler such as PgBouncer")),
        },
        Err(why) => match why.as_db_error() {
            Some(said) if said.message().contains(WORDS_OF_PGBOUNCER) => Ok(Some("PgBouncer")),
            // The server may refuse this client whatever it sets. Without the setting, it says why.
            Some(_) => session(dialler)
                .await
                .map(|_| Some("a connection pooler such as PgBouncer"))
                .map_err(|why| fault::error(&why)),
            None => Err(fault::error(&why)),
        },
    }
}

/// Whether two connections get the same session of the server, or one connection gets several.
async fn shares_sessions(dialler: &Dialler) -> Result<bool, Error> {
    let told = |why: tokio_postgres::Error| fault::error(&why);
    let (first, second) = (session(dialler).await.map_err(told)?, session(dialler).await.map_err(told)?);
    for _ in 0..ROUNDS {
        let before = first_value(&first, SESSION).await?;
        match second.batch_execute("begin").await {
            // In statement mode a pooler refuses transactions.
            Err(why) if why.as_db_error().is_some() => return Ok(true),
            begun => begun.map_err(told)?,
        }
        // Asked first: where the pooler has one session, the other connection would wait for it.
        if first_value(&second, SESSION).await? == before || first_value(&first, SESSION).await? != before {
            return Ok(true);
        }
        second.batch_execute("rollback").await.map_err(told)?;
    }
    Ok(false)
}

/// A connection that ends when it is dropped.
async fn session(dialler: &Dialler) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = dialler.dial().await?;
    // How it ends does not matter: the next query on it reports the error.
    tokio::spawn(async { connection.await.ok() });
    Ok(client)
}

/// Without a prepared statement, which a pooler may not know in the next transaction.
async fn first_value(client: &Client, sql: &str) -> Result<Option<String>, Error> {
    let said = client.simple_query(sql).await.map_err(|why| fault::error(&why))?;
    let row = said.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(row.map(str::to_owned))
}
