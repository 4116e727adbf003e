//! How a connection to the server is made.

use std::pin::Pin;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::warn;

use super::tls;

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Makes connections to one database.
#[derive(Clone)]
pub(super) struct Dialler {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Dialler {
    /// A connection whose messages the caller reads.
    pub(super) async fn dial(&self) -> Result<(Client, Connection<Socket, Stream>), Error> {
        let dialled = self.config.connect(self.tls.clone()).await;
        let Err(why) = &dialled else { return dialled };
        if self.config.get_ssl_mode() != SslMode::Prefer || !only_with_tls(why) {
            return dialled;
        }
        // To prefer TLS is to go without it where it does not work, as libpq does.
        let mut plain = self.config.clone();
        plain.ssl_mode(SslMode::Disable).connect(self.tls.clone()).await
    }
}

/// Whether the same could succeed without TLS: it failed itself, or the server lets nobody in with it.
fn only_with_tls(error: &Error) -> bool {
    tls::is_why(error) || error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

type Dialled<'a> = Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for Dialler {
    fn connect(&self, _: &Config) -> Dialled<'_> {
        Box::pin(async {
            let (client, connection) = self.dial().await?;
            let reading = tokio::spawn(async {
                if let Err(why) = connection.await {
                    warn!(%why, "a connection to the database is lost");
                }
            });
            Ok((client, reading))
        })
    }
}
