//! Messages of one instance arrive in the order of its log, across all topics of a pattern.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::stream;
use async_trait::async_trait;
use backstitch::outbox::{Route, Routes};
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch_modules::lifecycles::sites::PATH;
use backstitch_modules::outbox::Nats;
use backstitch_testkit::PATIENCE;
use backstitch_testkit::nats::NatsServer;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::lifecycles::stage::Stage;
use crate::outbox_adapters::stage::{PATIENT, add_stream, nats, sink_of};

const PATTERN: &str = "sites.provisioning.*";

/// A site and the state that a message tells.
type Told = (String, String);

fn told(payload: &Value) -> Told {
    let text = |field: &str| payload[field].as_str().unwrap().to_owned();
    (text("key"), text("to_state"))
}

/// All transitions of a site.
fn path(site: &str) -> Vec<Told> {
    PATH[1..].iter().map(|state| (site.to_owned(), (*state).to_owned())).collect()
}

/// Fails or holds some messages, and passes all others on.
#[derive(Clone)]
struct Obstacle {
    next: Arc<dyn Sink>,
    /// How many sends of these fail.
    failing: Arc<Mutex<HashMap<Told, u32>>>,
    /// Sends of this one wait for a permit.
    held: Option<Told>,
    permits: Arc<Semaphore>,
}

impl Obstacle {
    fn before(next: Arc<dyn Sink>) -> Self {
        Self { next, failing: Arc::default(), held: None, permits: Arc::new(Semaphore::new(0)) }
    }

    fn failing(self, site: &str, state: &str, sends: u32) -> Self {
        self.failing.lock().unwrap().insert((site.to_owned(), state.to_owned()), sends);
        self
    }

    fn route(&self) -> Route {
        let backoff = vec![Duration::from_millis(10)];
        let timeout = Some(PATIENCE);
        Route { backoff, timeout, max_attempts: Some(3), ..Route::to(Arc::new(self.clone())) }
    }
}

#[async_trait]
impl Sink for Obstacle {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        let told = told(&message.payload.decode().unwrap());
        if self.held.as_ref() == Some(&told) {
            self.permits.acquire().await.unwrap().forget();
        }
        if let Some(left) = self.failing.lock().unwrap().get_mut(&told)
            && *left > 0
        {
            *left -= 1;
            return Err(Undelivered::new("no_ack", "not now"));
        }
        self.next.send(message).await
    }
}

/// Keeps what arrives.
#[derive(Clone, Default)]
struct Post(Arc<Mutex<Vec<Told>>>);

impl Post {
    fn arrived(&self) -> Vec<Told> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl Sink for Post {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        self.0.lock().unwrap().push(told(&message.payload.decode().unwrap()));
        Ok(Receipt::default())
    }
}

fn of(site: &str, arrived: &[Told]) -> Vec<Told> {
    arrived.iter().filter(|(of, _)| of == site).cloned().collect()
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn provision(stage: &Stage, site: &str) {
    stage.start(site).await;
    stage.go(site, &PATH[1..]).await;
}

/// What a stream holds, in its order.
async fn read(stream: &stream::Stream) -> Vec<Told> {
    let last = stream.get_info().await.unwrap().state.last_sequence;
    let mut read = Vec::new();
    for place in 1..=last {
        let kept = stream.get_raw_message(place).await.unwrap();
        read.push(told(&serde_json::from_slice(&kept.payload).unwrap()));
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_topic_keeps_the_order_of_a_site_in_nats() {
    for nth in 0..2 {
        let server = NatsServer::start().await;
        let subjects = vec!["sites.>".to_owned()];
        let config = stream::Config { name: "SITES".to_owned(), subjects, ..stream::Config::default() };
        let stream = add_stream(&server.url(), config).await;
        let to_sites =
            Nats { subject: Some("sites".to_owned()), stream: "SITES".to_owned(), ..nats(&server.url()) };
        let broker = sink_of(PATTERN, to_sites, PATIENT);
        let obstacle = Obstacle::before(broker).failing("held", "source_resolving", 1);
        let obstacle = Obstacle { held: Some(("held".to_owned(), "hook_created".to_owned())), ..obstacle };
        let routes = Routes::none().with(PATTERN, obstacle.route());
        let [sqlite, postgres] = Stage::each_sending(&routes).await;
        let stage = if nth == 0 { sqlite } else { postgres };
        stage.provide_sites().await;
        provision(&stage, "held").await;
        provision(&stage, "other").await;
        until("the other site is live", async || of("other", &read(&stream).await).len() == 7).await;
        until("the site is held", async || of("held", &read(&stream).await).len() == 5).await;
        obstacle.permits.add_permits(1);
        until("the site is live", async || read(&stream).await.len() == 14).await;
        let arrived = read(&stream).await;
        assert_eq!((of("held", &arrived), of("other", &arrived)), (path("held"), path("other")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_message_lets_the_next_state_go() {
    let post = Post::default();
    let obstacle = Obstacle::before(Arc::new(post.clone())).failing("s", "source_resolved", 3);
    let routes = Routes::none().with(PATTERN, obstacle.route());
    for stage in Stage::each_sending(&routes).await {
        obstacle.failing.lock().unwrap().insert(("s".to_owned(), "source_resolved".to_owned()), 3);
        post.0.lock().unwrap().clear();
        stage.provide_sites().await;
        provision(&stage, "s").await;
        until("the site is live", async || post.arrived().last() == path("s").last()).await;
        let expected: Vec<Told> =
            path("s").into_iter().filter(|(_, state)| state != "source_resolved").collect();
        assert_eq!(post.arrived(), expected);
        let aborted = stage.texts("select topic from outbox where status = 'aborted'").await;
        assert_eq!(aborted, ["sites.provisioning.source_resolved"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_without_a_route_holds_up_no_routed_one() {
    let post = Post::default();
    let route = Obstacle::before(Arc::new(post.clone())).route();
    let routes = Routes::none().with("sites.provisioning.live", route);
    for stage in Stage::each_sending(&routes).await {
        post.0.lock().unwrap().clear();
        stage.provide_sites().await;
        provision(&stage, "s").await;
        until("the site is live", async || !post.arrived().is_empty()).await;
        assert_eq!(post.arrived(), path("s")[6..]);
    }
}
