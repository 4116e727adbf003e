//! Messages per second: how fast a full outbox empties, compared with the store's own statements.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstitch::clock::SystemClock;
use backstitch::outbox::{Route, Routes};
use backstitch::sink::LogSink;
use backstitch::store::outbox::{Listing, Report, Sent, Share, Status};
use backstitch::store::postgres::PostgresStore;
use backstitch::store::sqlite::SqliteStore;
use backstitch::store::{Store, outbox::Outgoing};
use backstitch::{Engine, Options};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

use super::stream::Stream;
use super::target::Target;
use super::{Args, Failure};

const TOPIC: &str = "orders";
/// Concurrent messages.
const AT_ONCE: usize = 64;
/// Concurrent publishers.
const PUBLISHERS: usize = 256;
/// Messages per group of the bare loop.
const GROUP: usize = 2048;
/// Poll interval for the end.
const GLANCE: Duration = Duration::from_millis(5);

/// One run.
#[derive(Serialize)]
struct Figures {
    store: String,
    adapter: &'static str,
    messages: usize,
    published_per_s: f64,
    drained_per_s: f64,
    floor_per_s: f64,
    floor_ratio: f64,
    bytes_per_message: Option<u64>,
}

/// Fills an outbox, empties it, and prints the rate; the best round counts.
pub(super) async fn run(args: &Args, messages: usize) -> Result<(), Failure> {
    let mut best: Option<Figures> = None;
    for _ in 0..args.rounds {
        let figures = round(args, messages).await?;
        best = Some(match best {
            None => figures,
            Some(best) => Figures {
                published_per_s: best.published_per_s.max(figures.published_per_s),
                drained_per_s: best.drained_per_s.max(figures.drained_per_s),
                floor_per_s: best.floor_per_s.max(figures.floor_per_s),
                ..figures
            },
        });
    }
    let Some(mut best) = best else { return Ok(()) };
    best.floor_ratio = best.drained_per_s / best.floor_per_s;
    if args.json {
        crate::print::line(format_args!("{}", serde_json::to_string(&best)?))?;
        return Ok(());
    }
    crate::print::line(format_args!(
        "{:<9} {:<7} {:>9} {:>12} {:>10} {:>10} {:>6} {:>8}",
        "store", "adapter", "messages", "published/s", "drained/s", "floor/s", "ratio", "B/msg"
    ))?;
    crate::print::line(format_args!(
        "{:<9} {:<7} {:>9} {:>12.0} {:>10.0} {:>10.0} {:>6.2} {:>8}",
        best.store,
        best.adapter,
        best.messages,
        best.published_per_s,
        best.drained_per_s,
        best.floor_per_s,
        best.floor_ratio,
        best.bytes_per_message.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
    ))?;
    Ok(())
}

async fn round(args: &Args, messages: usize) -> Result<Figures, Failure> {
    let target = Target::make(&args.store).await?;
    let published = publish(&target, messages).await?;
    let drained = match &args.nats {
        None => drain(&target, messages, Route::to(Arc::new(LogSink))).await?,
        Some(url) => drain_into_stream(&target, messages, url).await?,
    };
    let bytes = target.bytes().await?;
    let bare = target.sibling().await?;
    publish(&bare, messages).await?;
    let floor = empty_bare(&bare, messages).await?;
    bare.remove().await?;
    target.remove().await?;
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
    let rate = |time: Duration| messages as f64 / time.as_secs_f64();
    Ok(Figures {
        store: args.store_name(),
        adapter: if args.nats.is_some() { "nats" } else { "log" },
        messages,
        published_per_s: rate(published),
        drained_per_s: rate(drained),
        floor_per_s: rate(floor),
        floor_ratio: 0.0,
        bytes_per_message: bytes.map(|bytes| bytes / messages.max(1) as u64),
    })
}

async fn open(target: &Target, routes: Routes) -> Result<Engine, Failure> {
    let address =
        target.address().ok_or("an outbox in memory has nothing to show: use sqlite or postgres://…")?;
    Ok(Engine::open_with(&address, Options { routes, ..Options::default() }).await?)
}

/// Fills the outbox while nothing is sent.
async fn publish(target: &Target, messages: usize) -> Result<Duration, Failure> {
    let engine = open(target, Routes::none()).await?;
    let began = Instant::now();
    let order = |nth: usize| {
        let engine = &engine;
        async move {
            let order =
                serde_json::json!({ "order_id": nth, "sku": "A-100", "quantity": 2, "amount": "19.90" });
            engine.publish(TOPIC, &format!("order-{nth}"), &order).await
        }
    };
    stream::iter(0..messages)
        .map(order)
        .buffer_unordered(PUBLISHERS)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let elapsed = began.elapsed();
    engine.shutdown().await?;
    Ok(elapsed)
}

/// Sends all messages to a stream, and checks that the stream has them.
async fn drain_into_stream(target: &Target, messages: usize, url: &str) -> Result<Duration, Failure> {
    let stream = Stream::make(url).await?;
    let drained = drain(target, messages, stream.route(TOPIC)?).await;
    let arrived = stream.messages().await;
    stream.remove().await?;
    match (drained?, arrived?) {
        (elapsed, arrived) if arrived == messages as u64 => Ok(elapsed),
        (_, arrived) => Err(format!("the stream has {arrived} of {messages}").into()),
    }
}

/// Sends all messages, and checks that each is settled.
async fn drain(target: &Target, messages: usize, route: Route) -> Result<Duration, Failure> {
    let route = Route { concurrency: AT_ONCE, ..route };
    let began = Instant::now();
    let engine = open(target, Routes::none().with(TOPIC, route)).await?;
    while is_waiting(&engine).await? {
        tokio::time::sleep(GLANCE).await;
    }
    let elapsed = began.elapsed();
    let out = engine
        .messages(&Listing { status: Some(Status::Succeeded), ..Listing::default() }, messages + 1)
        .await?;
    engine.shutdown().await?;
    if out.len() == messages {
        Ok(elapsed)
    } else {
        Err(format!("{} of {messages} are out", out.len()).into())
    }
}

/// Whether any message is unsettled, by a query too cheap to affect the measurement.
async fn is_waiting(engine: &Engine) -> Result<bool, Failure> {
    for status in [Status::Pending, Status::Sending, Status::Failed] {
        let listing = Listing { status: Some(status), ..Listing::default() };
        if !engine.messages(&listing, 1).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The store's own statements and nothing else.
async fn empty_bare(target: &Target, messages: usize) -> Result<Duration, Failure> {
    let address = target.address().unwrap_or_default();
    let store: Box<dyn Store> = match address.strip_prefix("sqlite:") {
        Some(path) => Box::new(SqliteStore::open(path.as_ref(), Arc::new(SystemClock))?),
        None => Box::new(PostgresStore::connect(&address).await?),
    };
    let share = Share { topic: TOPIC.to_owned(), limit: GROUP, lease: Duration::from_secs(60) };
    let began = Instant::now();
    let mut left = messages;
    while left > 0 {
        let claimed = store.claim_outbox(std::slice::from_ref(&share), "bench").await?;
        let delivered = |outgoing: &Outgoing| Sent {
            id: outgoing.id,
            lock: outgoing.lock,
            report: Report::Delivered(None),
        };
        let sent: Vec<Sent> = claimed.iter().map(delivered).collect();
        store.settle_outbox(&sent).await?;
        left = left.saturating_sub(sent.len());
    }
    Ok(began.elapsed())
}
