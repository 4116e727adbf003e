//! Wake-ups from other processes.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use backstitch_kernel::SagaId;
use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};
use tracing::{error, info, warn};

use super::dial::Dialler;
use super::fault;
use super::session::WAIT_WITHIN;
use crate::runtime::catch_panic;
use crate::store::documents::SAGA;
use crate::store::nodes::Notice;
use crate::store::{Error, SchemaName};

/// What the statements and functions of the database say, each on a channel that begins with the name of the schema.
const INBOX: &str = "inbox";
const START: &str = "start";
const DOCUMENT: &str = "document";
const OUTBOX: &str = "outbox";

/// Wake-ups kept for a receiver that is busy.
const KEPT: usize = 1024;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Starts to listen; from when this returns on, nothing is missed without a notice that says so.
pub(super) async fn listen(dialler: Dialler) -> Result<mpsc::Receiver<Notice>, Error> {
    let (notices, receiver) = mpsc::channel(KEPT);
    let first = connect(&dialler, &notices).await?;
    tokio::spawn(keep_listening(dialler, notices, first));
    Ok(receiver)
}

/// Whatever breaks down here, somebody listens: without it everything would come late, and nobody would know why.
async fn keep_listening(dialler: Dialler, notices: mpsc::Sender<Notice>, first: Line) {
    let mut line = Some(first);
    while let Err(panic) =
        AssertUnwindSafe(stay_connected(&dialler, &notices, line.take())).catch_unwind().await
    {
        error!(
            why = catch_panic::text(panic.as_ref()),
            "what hears of messages broke down and is started again"
        );
        sleep(LONGEST_PAUSE).await;
    }
}

async fn stay_connected(dialler: &Dialler, notices: &mpsc::Sender<Notice>, mut line: Option<Line>) {
    loop {
        if let Some(heard) = &mut line {
            tokio::select! {
                _ = &mut heard.ended => {}
                () = notices.closed() => return,
            }
        }
        warn!("the connection that hears of messages is lost: connecting again");
        let mut pause = FIRST_PAUSE;
        line = loop {
            tokio::select! {
                () = sleep(pause) => {}
                () = notices.closed() => return,
            }
            match connect(dialler, notices).await {
                Ok(line) => break Some(line),
                Err(why) => warn!(%why, "cannot hear of messages yet"),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        info!("messages are heard again");
    }
}

/// A connection that is listened on.
struct Line {
    /// The connection closes with it.
    _client: Client,
    ended: JoinHandle<()>,
}

async fn connect(dialler: &Dialler, notices: &mpsc::Sender<Notice>) -> Result<Line, Error> {
    let late = |_| Error::Unavailable(format!("no answer within {WAIT_WITHIN:?}"));
    let line = timeout(WAIT_WITHIN, listening(dialler, notices)).await.map_err(late)??;
    // Nobody there to be told is no mistake: the next look at the channel ends it all.
    let _ = notices.send(Notice::Missed).await;
    Ok(line)
}

async fn listening(dialler: &Dialler, notices: &mpsc::Sender<Notice>) -> Result<Line, Error> {
    let (client, mut connection) = dialler.dial().await.map_err(|why| fault::error(&why))?;
    let (heard, schema) = (notices.clone(), dialler.schema.clone());
    let ended = tokio::spawn(async move {
        // Whoever is slow to take notices slows this connection down, and nobody else.
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let Some(notice) = notice(&schema, &message)
                && heard.send(notice).await.is_err()
            {
                return;
            }
        }
    });
    let listen =
        [INBOX, START, DOCUMENT, OUTBOX].map(|subject| format!("listen {}_{subject};", dialler.schema));
    client.batch_execute(&listen.concat()).await.map_err(|why| fault::error(&why))?;
    Ok(Line { _client: client, ended })
}

fn notice(schema: &SchemaName, message: &AsyncMessage) -> Option<Notice> {
    let AsyncMessage::Notification(notification) = message else {
        return None;
    };
    let saga = || notification.payload().parse::<SagaId>().ok();
    let channel = notification.channel().strip_prefix(schema.as_str())?.strip_prefix('_')?;
    match channel {
        INBOX => saga().map(Notice::InboxChanged),
        START => saga().map(Notice::Started),
        // Documents of other kinds are read whenever they are used.
        DOCUMENT => (notification.payload() == SAGA).then_some(Notice::Applied),
        OUTBOX => Some(Notice::Published),
        _ => None,
    }
}
