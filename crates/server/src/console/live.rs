//! Tells a page that what it shows has changed. What that is, the page asks for itself.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use backstitch::watch::{EventFilter, Subscription};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use crate::app::App;
use crate::auth::Leave;
use crate::http::{Query, SagaInPath};
use crate::problem::{Kind, Problem};
use crate::routes::event_stream;

/// However much happens, a page is not asked to look more often.
const AT_MOST_EVERY: Duration = Duration::from_millis(500);
/// Events of other nodes are not published here, and some changes have no event: the page looks for them at this interval.
const AT_LEAST_EVERY: Duration = Duration::from_secs(5);

const CHANGED: Bytes = Bytes::from_static(b"event: changed\ndata: \n\n");
const OVER: Bytes = Bytes::from_static(b"event: over\ndata: \n\n");

/// Changes anywhere, or of sagas and lifecycles of one name. Events before the subscription are not sent, so the first item is
/// always that there may be something new.
pub(super) async fn anything(
    State(app): State<App>,
    leave: Leave,
    mut query: Query,
) -> Result<Response, Problem> {
    let definition = query.text("definition").map(Arc::from);
    query.finish("definition")?;
    let events = app.events.subscribe(EventFilter { definition, name: None }).ok_or_else(|| {
        Problem::new(Kind::TooManyRequests, "too many others listen for different things: try again later")
    })?;
    let first = stream::iter([()]);
    Ok(event_stream(leave, paced(first.chain(news(events))).map(|()| CHANGED)))
}

/// One item per event or [`Gap`](backstitch::Gap), and one per interval without any. Ends when the subscription does, so that the page
/// connects again.
fn news(events: Subscription<Bytes>) -> impl Stream<Item = ()> + Send {
    stream::unfold(events, |mut events| async move {
        tokio::select! {
            event = events.next() => event.map(|_| ((), events)),
            () = tokio::time::sleep(AT_LEAST_EVERY) => Some(((), events)),
        }
    })
}

/// That something has happened to a saga since its page was made, until its end.
pub(super) async fn saga(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    leave: Leave,
    mut query: Query,
) -> Result<Response, Problem> {
    let seen = query.number("after", 0, i64::MAX.unsigned_abs())?;
    query.finish("after")?;
    let run = app.engine.find(id).await?;
    let newest = run.newest_event().await?;
    if newest.event.is_terminal() {
        return Ok(event_stream(leave, stream::iter([OVER])));
    }
    // After a number that is still to come, nothing would be sent.
    let events = run.events_after(seen.unwrap_or(newest.seq).min(newest.seq));
    Ok(event_stream(
        leave,
        until_the_end(events.map(|event| event.map(|recorded| recorded.event.is_terminal()))),
    ))
}

/// That there are events, and then that it is over, which only the last of them says: a stream that breaks off is asked for anew.
fn until_the_end<E: Send + 'static>(
    ends: impl Stream<Item = Result<bool, E>> + Send + 'static,
) -> BoxStream<'static, Bytes> {
    let is_over = Arc::new(AtomicBool::new(false));
    let seen = is_over.clone();
    let events = ends.take_while(|event| ready(event.is_ok())).map(move |event| {
        // A failed rollback that was taken up again has more to say.
        seen.store(matches!(event, Ok(true)), Ordering::Relaxed);
    });
    let over = stream::once(async move { is_over.load(Ordering::Relaxed).then_some(OVER) });
    paced(events).map(|()| CHANGED).chain(over.filter_map(ready)).boxed()
}

/// The same items; those in quick succession become one, after a moment.
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
    use backstitch::watch::Broadcast;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn events_in_quick_succession_are_sent_once() {
        let at = |millis: u64| async move { tokio::time::sleep(Duration::from_millis(millis)).await };
        let events = stream::iter([0, 10, 10, 2000, 10]).then(at);
        let begun = Instant::now();
        let told: Vec<u128> = paced(events).map(|()| begun.elapsed().as_millis()).collect().await;
        assert_eq!(told, [500, 2030], "three together, and two that end it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_breaks_off_does_not_say_that_it_is_over() {
        let heard = async |events: Vec<Result<bool, ()>>| {
            until_the_end(stream::iter(events)).collect::<Vec<_>>().await
        };
        assert_eq!(heard(vec![Ok(false), Ok(true)]).await, [CHANGED, OVER]);
        assert_eq!(heard(vec![Ok(false), Err(())]).await, [CHANGED]);
        assert_eq!(heard(vec![Ok(true), Ok(false), Err(())]).await, [CHANGED], "it was taken up again");
        assert!(heard(vec![Err(())]).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_page_is_sent_a_change_and_goes_on() {
        let broadcast = Broadcast::new(1);
        let mut news = Box::pin(news(broadcast.subscribe(EventFilter::default()).unwrap()));
        let publish = || broadcast.publish(&"orders".into(), "saga.started", || Some(Bytes::new()));
        (0..3).for_each(|_| publish());
        let begun = Instant::now();
        // That something was missed, and what was not.
        for _ in 0..2 {
            assert_eq!(news.next().await, Some(()));
        }
        publish();
        assert_eq!(news.next().await, Some(()));
        assert_eq!(begun.elapsed(), Duration::ZERO, "without waiting for the next look");
        assert_eq!(news.next().await, Some(()), "now and then");
        assert_eq!(begun.elapsed(), AT_LEAST_EVERY);
        broadcast.disconnect_all();
        assert_eq!(news.next().await, None, "they come back");
    }
}
