//! How a connection to the server is made.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{info, warn};

use super::hosts::{self, Hosts};
use super::{durability, tls};
use crate::store::SchemaName;

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Makes connections to one database.
#[derive(Clone)]
pub(super) struct Dialler {
    /// The schema that these connections work in.
    pub(super) schema: SchemaName,
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    pub(super) hosts: Arc<Hosts>,
}

impl Dialler {
    /// A connection whose messages the caller reads, to the first host that answers in its share of the time.
    pub(super) async fn dial(&self) -> Result<(Client, Connection<Socket, Stream>), Error> {
        self.hosts.connect(&self.config, hosts::resolve, |host| self.dial_host(host)).await
    }

    async fn dial_host(&self, host: Config) -> Result<(Client, Connection<Socket, Stream>), Error> {
        let dialled = host.connect(self.tls.clone()).await;
        let Err(why) = &dialled else { return dialled };
        if host.get_ssl_mode() != SslMode::Prefer || !only_with_tls(why) {
            return dialled;
        }
        // To prefer TLS is to go without it where it does not work, as libpq does.
        let mut plain = host;
        plain.ssl_mode(SslMode::Disable).connect(self.tls.clone()).await
    }
}

/// Whether the same could succeed without TLS: it failed itself, or the server lets nobody in with it.
fn only_with_tls(error: &Error) -> bool {
    tls::is_why(error) || error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Reads what the server sends, until the connection ends. A commit that stopped waiting for the synchronous standby ends
/// it: the request under way then has an unknown outcome, although the server reports success.
async fn read_messages(mut connection: Connection<Socket, Stream>) {
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) if durability::is_cancelled_wait(&notice) => {
                warn!(
                    why = notice.message(),
                    "commit may not be replicated; closing the connection, its outcome is looked up"
                );
                return;
            }
            Ok(AsyncMessage::Notice(notice)) => info!(said = notice.message(), "notice of the database"),
            Ok(_) => {}
            Err(why) => {
                warn!(%why, "a connection to the database is lost");
                return;
            }
        }
    }
}

type Dialled<'a> = Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for Dialler {
    fn connect(&self, _: &Config) -> Dialled<'_> {
        Box::pin(async {
            let (client, connection) = self.dial().await?;
            Ok((client, tokio::spawn(read_messages(connection))))
        })
    }
}
