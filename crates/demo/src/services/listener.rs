//! Receives calls and responds by the service's behaviour.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::answer::{ServiceResponse, answer, mistaken};
use super::behaviour::Behaviour;
use super::shared::Shared;
use super::{request, wish};

/// Larger than any call of the server.
const LONGEST_CALL: usize = 16 * 1024 * 1024;
/// The wait when the machine has no free socket.
const OUT_OF_SOCKETS: Duration = Duration::from_millis(50);

/// The connection is closed without a response.
#[derive(Debug, thiserror::Error)]
#[error("the service hangs up")]
struct HangsUp;

pub(super) async fn run(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, shared.clone()));
            }
            Err(_) => tokio::time::sleep(OUT_OF_SOCKETS).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| respond(request, &shared));
    // Disconnects are part of the demo.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>, shared: &Shared) -> Result<ServiceResponse, HangsUp> {
    let Some(place) = request::route(request.method(), request.uri().path()) else {
        return Ok(mistaken(StatusCode::NOT_FOUND, "use POST /payment/do, /payment/undo, /inventory/do …"));
    };
    let (head, body) = request.into_parts();
    let body = Limited::new(body, LONGEST_CALL).collect().await.map_err(|_| HangsUp)?.to_bytes();
    let read = request::read(place, &head.headers, &body);
    let (service, phase) = place;
    let wished = read.and_then(|(call, input)| Ok((call, wish::of(&input, service, phase)?)));
    let (call, behaviour) = match wished {
        Ok((call, wish)) => (call, wish.unwrap_or_else(|| shared.behaviour(service, phase))),
        Err(why) => return Ok(mistaken(StatusCode::BAD_REQUEST, &why)),
    };
    // Subscribed before the call is recorded, so a release after the record is not missed.
    let mut releases = shared.releases();
    let (number, behaviour, verdict) = {
        let mut ledger = shared.ledger();
        let (number, earlier) = ledger.hear(call);
        let behaviour = behaviour.after(earlier);
        let verdict = ledger.settle(number, behaviour.work());
        (number, behaviour, verdict)
    };
    shared.tell();
    match behaviour {
        Behaviour::Hang => {
            let _ = releases.changed().await;
        }
        Behaviour::Delay(time) => tokio::time::sleep(time).await,
        _ => {}
    }
    let answer = answer(service, &behaviour, &verdict).ok_or(HangsUp)?;
    shared.ledger().answered(number, answer.status().as_u16());
    shared.tell();
    Ok(answer)
}
