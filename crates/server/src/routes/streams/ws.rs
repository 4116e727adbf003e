//! `GET /v1/sagas/{id}/ws`: the same over WebSocket.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use backstitch::Run;
use futures::StreamExt;
use tokio::time::{Instant, sleep_until};

use super::super::vocabulary;
use super::{Events, HEARTBEAT, Since, Told};
use crate::app::App;
use crate::auth::Leave;
use crate::http::{Query, SagaInPath};
use crate::problem::{Described, Kind, Problem};

/// Readers say next to nothing.
const LARGEST_MESSAGE: usize = 4096;

/// What happens to a saga, as it happens: one text message an event. The socket is closed after the saga's end.
#[utoipa::path(get, path = "/v1/sagas/{id}/ws", tag = "sagas",
    params(
        ("id" = String, Path, description = "The saga", format = Uuid),
        ("after" = Option<u64>, Query, description = "The number of the last event that was read", maximum = 2_147_483_647),
        ("token" = Option<String>, Query, description = "The saga's stream token, instead of a key"),
    ),
    responses(
        (status = 101, description = "The events", body = vocabulary::Event),
        (status = 400, description = "Not a WebSocket, or a parameter is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is no such saga", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn saga_socket(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    leave: Leave,
    query: Query,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let run = app.engine.find(id).await?;
    answer(&app, leave, run, query, upgrade, Told::OfSaga).await
}

/// The events that a reader has missed and those to come, in these words.
pub(in crate::routes) async fn answer(
    app: &App,
    leave: Leave,
    run: Run,
    mut query: Query,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    told: Told,
) -> Result<Response, Problem> {
    let since = Since::of_parameter(&mut query)?;
    query.text("token");
    query.finish("after or token")?;
    let events = super::events_after(app, &run, since).await?;
    let upgrade = upgrade.map_err(|_| {
        Problem::new(
            Kind::BadHeader,
            "this is a WebSocket: connect with ws://, or use /events for server-sent events",
        )
    })?;
    let upgrade = upgrade.max_message_size(LARGEST_MESSAGE).max_frame_size(LARGEST_MESSAGE);
    Ok(upgrade.on_upgrade(move |socket| tell(leave, socket, events, told)))
}

async fn tell(leave: Leave, mut socket: WebSocket, events: Option<Events>, told: Told) {
    let mut events = events.unwrap_or_else(|| Box::pin(futures::stream::empty()));
    let mut beat = Instant::now() + HEARTBEAT;
    let mut unanswered = false;
    let ending = loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(recorded)) => {
                    let Ok(text) = serde_json::to_string(&told.view(&recorded).await) else { break INTERNAL };
                    if socket.send(Message::Text(text.into())).await.is_err() {
                        return;
                    }
                }
                Some(Err(_)) => break RESTART,
                None => break ENDED,
            },
            message = socket.recv() => match message {
                // A ping is answered by the library; what readers say is of no interest but that they do.
                Some(Ok(_)) => unanswered = false,
                Some(Err(_)) | None => return,
            },
            () = sleep_until(beat) => {
                // Whoever lives answers a ping before the next one.
                if unanswered || socket.send(Message::Ping(bytes::Bytes::new())).await.is_err() {
                    return;
                }
                unanswered = true;
                beat = Instant::now() + HEARTBEAT;
            }
            () = leave.over() => break if leave.is_withdrawn() { WITHDRAWN } else { RESTART },
        }
    };
    // Whoever does not wait for the farewell has gone already.
    let _ = socket.send(Message::Close(Some(CloseFrame { code: ending.0, reason: ending.1.into() }))).await;
}

const ENDED: (u16, &str) = (close_code::NORMAL, "the saga is at its end");
const RESTART: (u16, &str) = (close_code::RESTART, "come back with after=SEQ");
const WITHDRAWN: (u16, &str) = (close_code::POLICY, "the API key has expired or was revoked");
const INTERNAL: (u16, &str) = (close_code::ERROR, "an event cannot be told");
