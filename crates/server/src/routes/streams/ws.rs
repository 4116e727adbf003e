//! `GET /v1/sagas/{id}/ws`: the same over WebSocket.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use backstitch::Run;
use futures::StreamExt;
use tokio::time::{Instant, sleep_until};

use super::super::vocabulary;
use super::{EventStream, HEARTBEAT, Interrupted, Position, Wording};
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
    response(leave, &run, query, upgrade, Wording::Saga).await
}

/// The events of a saga after the position in the query.
pub(in crate::routes) async fn response(
    leave: Leave,
    run: &Run,
    mut query: Query,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    wording: Wording,
) -> Result<Response, Problem> {
    let position = Position::of_parameter(&mut query)?;
    query.text("token");
    query.finish("after or token")?;
    let events = super::of_saga(run, position, wording).await?;
    let upgrade = upgrade.map_err(|_| {
        Problem::new(
            Kind::BadHeader,
            "this is a WebSocket: connect with ws://, or use /events for server-sent events",
        )
    })?;
    let upgrade = upgrade.max_message_size(LARGEST_MESSAGE).max_frame_size(LARGEST_MESSAGE);
    Ok(upgrade.on_upgrade(move |socket| send(leave, socket, events)))
}

async fn send(leave: Leave, mut socket: WebSocket, events: Option<EventStream>) {
    let mut events = events.unwrap_or_else(|| futures::stream::empty().boxed());
    let mut beat = Instant::now() + HEARTBEAT;
    let mut unanswered = false;
    let ending = loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    if socket.send(Message::Text(event.json.into())).await.is_err() {
                        return;
                    }
                }
                Some(Err(Interrupted)) => break RESTART,
                None => break ENDED,
            },
            message = socket.recv() => match message {
                // A ping is answered by the library; what readers say is of no interest but that they do.
                Some(Ok(_)) => unanswered = false,
                Some(Err(_)) | None => return,
            },
            () = sleep_until(beat) => {
                // A live client answers a ping before the next one.
                if unanswered || socket.send(Message::Ping(bytes::Bytes::new())).await.is_err() {
                    return;
                }
                unanswered = true;
                beat = Instant::now() + HEARTBEAT;
            }
            () = leave.over() => break if leave.is_withdrawn() { WITHDRAWN } else { RESTART },
        }
    };
    // Fails if the client has gone already.
    let _ = socket.send(Message::Close(Some(CloseFrame { code: ending.0, reason: ending.1.into() }))).await;
}

const ENDED: (u16, &str) = (close_code::NORMAL, "the saga is at its end");
const RESTART: (u16, &str) = (close_code::RESTART, "come back with after=SEQ");
const WITHDRAWN: (u16, &str) = (close_code::POLICY, "the API key has expired or was revoked");
