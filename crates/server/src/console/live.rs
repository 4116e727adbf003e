//! Tells a page that what it shows has changed. What that is, the page asks for itself.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use crate::app::App;
use crate::audience::Wish;
use crate::auth::Leave;
use crate::http::{Query, SagaInPath};
use crate::problem::{Kind, Problem};
use crate::routes::event_stream;

/// However much happens, a page is not asked to look more often.
const AT_MOST_EVERY: Duration = Duration::from_millis(500);
/// What other nodes do is not told here, and some things are told by nobody: they are looked for now and then.
const AT_LEAST_EVERY: Duration = Duration::from_secs(5);

const CHANGED: Bytes = Bytes::from_static(b"event: changed\ndata: \n\n");
const OVER: Bytes = Bytes::from_static(b"event: over\ndata: \n\n");

/// That something has happened anywhere, or to sagas and lifecycles of one name.
pub(super) async fn anything(
    State(app): State<App>,
    leave: Leave,
    mut query: Query,
) -> Result<Response, Problem> {
    let definition = query.text("definition").map(Arc::from);
    query.finish("definition")?;
    let told = app.audience.listen(Wish { definition, name: None }).ok_or_else(|| {
        Problem::new(Kind::TooManyRequests, "too many others listen for different things: try again later")
    })?;
    let events = stream::unfold(told, |mut told| async move {
        // Whoever has missed something has all the more reason to look.
        told.recv().await.is_ok().then_some(((), told))
    });
    let ticks = stream::unfold((), |()| async {
        tokio::time::sleep(AT_LEAST_EVERY).await;
        Some(((), ()))
    });
    Ok(event_stream(leave, paced(stream::select(events, ticks)).map(|()| CHANGED)))
}

/// That something has happened to a saga, until its end.
pub(super) async fn saga(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    leave: Leave,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let run = app.engine.find(id).await?;
    let head = app.engine.store().heads(&[id]).await.map_err(|why| Problem::of_store(&why))?;
    let seen = head.first().map_or(0, |head| head.seq);
    if head.first().is_some_and(|head| head.status.is_terminal()) {
        return Ok(event_stream(leave, stream::iter([OVER])));
    }
    let events = run.events_after(seen).map(|_| ());
    Ok(event_stream(leave, paced(events).map(|()| CHANGED).chain(stream::iter([OVER]))))
}

/// The same events, those that come in quick succession told once, after a moment.
fn paced(events: impl Stream<Item = ()> + Send + 'static) -> BoxStream<'static, ()> {
    let paced = stream::unfold(Some(Box::pin(events)), |events| async {
        let mut events = events?;
        events.next().await?;
        let until = Instant::now() + AT_MOST_EVERY;
        loop {
            tokio::select! {
                more = events.next() => if more.is_none() { return Some(((), None)) },
                () = tokio::time::sleep_until(until) => return Some(((), Some(events))),
            }
        }
    });
    paced.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_in_quick_succession_is_told_once() {
        let at = |millis: u64| async move { tokio::time::sleep(Duration::from_millis(millis)).await };
        let events = stream::iter([0, 10, 10, 2000, 10]).then(at);
        let begun = Instant::now();
        let told: Vec<u128> = paced(events).map(|()| begun.elapsed().as_millis()).collect().await;
        assert_eq!(told, [500, 2030], "three together, and two that end it");
    }
}
