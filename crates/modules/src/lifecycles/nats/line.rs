//! The connection to the broker, for all messages under way. It comes and goes; what is said about a message does not depend
//! on the connection over which it came.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::{Client, ConnectOptions, Event, ServerAddr, Subject};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::config::{BadConfig, Config};
use crate::outgoing::nats::Unconnected;

const MADE_WITHIN: Duration = Duration::from_secs(5);
/// The client tries this once after a loss; then it is done with, and a new one is made.
const RECONNECTS: usize = 1;
/// How long the broker may take to confirm something.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);
/// How often it is asked, as long as it is there.
const CONFIRMATIONS: usize = 10;
const BETWEEN_CONFIRMATIONS: Duration = Duration::from_millis(250);
/// How long is waited for last words to be on their way.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Whom to speak to, and over what at the moment.
pub(super) struct Line {
    servers: Vec<ServerAddr>,
    options: ConnectOptions,
    newest: watch::Sender<Option<Client>>,
}

/// One connection, and whether it is lost.
pub(super) struct Connected {
    pub(super) client: Client,
    lost: watch::Receiver<bool>,
}

impl Connected {
    pub(super) async fn lost(&mut self) {
        // Whoever would tell is gone as well.
        let _ = self.lost.wait_for(|is_lost| *is_lost).await;
    }
}

impl Line {
    pub(super) fn to(config: &Config) -> Result<Self, BadConfig> {
        let access = config.access();
        let servers = access.servers().map_err(|why| BadConfig::of(&why))?;
        let name = format!("backstitch {}", config.machine);
        let options = access.options(name, MADE_WITHIN).map_err(|why| BadConfig::of(&why))?;
        Ok(Self { servers, options, newest: watch::Sender::default() })
    }

    /// Makes a connection, over which everything is said from now on; or why there is none.
    pub(super) async fn connect(&self) -> Result<Connected, String> {
        let (telling, lost) = watch::channel(false);
        let telling = Arc::new(telling);
        let options = self.options.clone().max_reconnects(RECONNECTS).event_callback(move |event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                telling.send_replace(true);
            }
            async {}
        });
        let client =
            options.connect(self.servers.clone()).await.map_err(|why| match Unconnected::from(&why) {
                Unconnected::NotAuthorized(told) | Unconnected::Down(told) => told,
            })?;
        self.newest.send_replace(Some(client.clone()));
        Ok(Connected { client, lost })
    }

    /// There is no connection any more.
    pub(super) fn down(&self) {
        self.newest.send_replace(None);
    }

    /// Says something about a message, if somebody may hear it.
    pub(super) async fn say(&self, to: &Subject, what: AckKind) {
        let client = self.newest.borrow().clone();
        if let Some(client) = client
            && let Err(error) = client.publish(to.clone(), what.into()).await
        {
            tracing::debug!(%error, "the broker was not told about a message");
        }
    }

    /// Says something about a message until the broker has confirmed it; whether it has.
    pub(super) async fn confirm(&self, to: &Subject, what: AckKind) -> bool {
        let mut newest = self.newest.subscribe();
        for _ in 0..CONFIRMATIONS {
            let client = match newest.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(client)) => client.clone(),
                _ => return false,
            };
            let asked = client.request(to.clone(), what.into());
            if let Ok(Ok(_)) = timeout(CONFIRMED_WITHIN, asked).await {
                return true;
            }
            sleep(BETWEEN_CONFIRMATIONS).await;
        }
        false
    }

    /// Sees that what was said is on its way.
    pub(super) async fn hang_up(&self) {
        let client = self.newest.send_replace(None);
        if let Some(client) = client
            && !matches!(timeout(LAST_WORDS, client.flush()).await, Ok(Ok(())))
        {
            tracing::debug!("the broker may not have heard the last words about some messages");
        }
    }
}
