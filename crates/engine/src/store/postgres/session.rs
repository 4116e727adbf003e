//! Connections: how they are made, what is set on each, and who may use which.

use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket, tls::NoTlsStream};

use super::fault;
use crate::store::Error;

/// Batches written at the same time: while one waits for the disk, the server works on the other.
pub const WRITERS: usize = 2;
/// One for each writer and one more, so that nobody waits for a committer that waits for a lost connection.
const COMMITTING: usize = WRITERS + 1;
/// Questions asked at the same time; more would only wait for the same cores.
const ASKING: usize = 8;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const WAIT_WITHIN: Duration = Duration::from_secs(10);
/// A peer that is silent for this long is looked after, and given up when it does not answer.
const SILENCE: Duration = Duration::from_secs(15);

/// What every connection needs, whatever the server's or the role's defaults are.
const ALWAYS: &str = "
    set search_path = backstitch, public;
    set synchronous_commit = on;
    set default_transaction_isolation = 'read committed';
    set default_transaction_read_only = off;
    set client_min_messages = warning;
    set statement_timeout = '30s';
";

/// A committer's statement is prepared once and planned once, maybe while the tables are empty. It touches only rows
/// it knows by key, so the plan is pinned to what is right at any size: index probes and hash joins. Without
/// nested loops estimates are enormous, and compiling a plan for them would take longer than all else.
pub const WRITER_SETTINGS: &str = "
    set plan_cache_mode = force_generic_plan;
    set enable_seqscan = off;
    set enable_nestloop = off;
    set enable_mergejoin = off;
    set jit = off;
    set lock_timeout = '500ms';
    set statement_timeout = '15s';
";

/// Everything else is asked seldom and with few or many rows in mind: each time gets its own plan.
const WHEN_ASKING: &str = "
    set plan_cache_mode = force_custom_plan;
    set jit = off;
";

/// The connections of one store. A lost one is replaced when the next is asked for.
pub(super) struct Sessions {
    address: Config,
    committing: Pool,
    asking: Pool,
    /// One connection that does nothing else, so that no load keeps a node from saying that it lives.
    beating: Pool,
}

impl Sessions {
    /// Reads the address; nothing is connected yet.
    pub(super) fn at(url: &str) -> Result<Self, Error> {
        let mut address: Config = url.parse().map_err(|_| Error::BadAddress(without_password(url)))?;
        if address.get_ssl_mode() == SslMode::Require {
            return Err(Error::Refused(
                "the address asks for TLS (sslmode=require), which this program does not speak yet: use a local \
                 socket, a private network or a TLS tunnel, and sslmode=disable"
                    .to_owned(),
            ));
        }
        if address.get_application_name().is_none() {
            address.application_name("backstitch");
        }
        if address.get_connect_timeout().is_none() {
            address.connect_timeout(CONNECT_WITHIN);
        }
        address.keepalives_idle(SILENCE);
        if address.get_tcp_user_timeout().is_none() {
            address.tcp_user_timeout(SILENCE);
        }
        Ok(Self {
            committing: pool(&address, COMMITTING, WRITER_SETTINGS)?,
            asking: pool(&address, ASKING, WHEN_ASKING)?,
            beating: pool(&address, 1, WHEN_ASKING)?,
            address,
        })
    }

    /// A connection for a batch of decisions.
    pub(super) async fn to_commit(&self) -> Result<Object, PoolError> {
        self.committing.get().await
    }

    /// A connection for anything but a batch.
    pub(super) async fn to_ask(&self) -> Result<Object, Error> {
        self.asking.get().await.map_err(|why| fault::no_connection(&why))
    }

    /// The connection of the heartbeat.
    pub(super) async fn to_beat(&self) -> Result<Object, Error> {
        self.beating.get().await.map_err(|why| fault::no_connection(&why))
    }

    /// Where the database is.
    pub(super) fn address(&self) -> &Config {
        &self.address
    }
}

/// A connection outside the pools, whose messages the caller reads.
pub(super) async fn dial(address: &Config) -> Result<(Client, Connection<Socket, NoTlsStream>), Error> {
    address.connect(NoTls).await.map_err(|why| fault::error(&why))
}

fn pool(address: &Config, size: usize, settings: &'static str) -> Result<Pool, Error> {
    let checked = ManagerConfig {
        // Whether the connection is known to be closed. Anything more would cost a round trip each time.
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = Manager::from_config(address.clone(), NoTls, checked);
    Pool::builder(manager)
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(WAIT_WITHIN))
        .create_timeout(Some(WAIT_WITHIN))
        .post_create(Hook::async_fn(move |client, _| {
            Box::pin(async move {
                let set = client.batch_execute(&[ALWAYS, settings].concat()).await;
                set.map_err(HookError::Backend)
            })
        }))
        .build()
        .map_err(|why| Error::Refused(why.to_string()))
}

/// An address that can be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // `host=… password=…`: rather show too little.
        return url
            .split_whitespace()
            .filter(|part| !part.starts_with("password"))
            .collect::<Vec<_>>()
            .join(" ");
    };
    match rest.rsplit_once('@') {
        Some((login, place)) => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{place}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://me:se:cr@et@host/db", "postgres://me@host/db"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("postgres://host/db", "postgres://host/db"),
            ("host=a password=b user=c", "host=a user=c"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_said_to_be_none() {
        let refused = Sessions::at("postgres://me:secret@host:port/db").err();
        let told = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(told.contains("postgres://me@host:port/db"), "{told}");
    }

    #[test]
    fn tls_is_not_promised() {
        let refused = Sessions::at("postgres://host/db?sslmode=require").err();
        assert!(matches!(refused, Some(Error::Refused(_))));
    }
}
