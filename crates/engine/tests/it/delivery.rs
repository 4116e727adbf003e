//! The delivery runtime, on a policy whose store is a list in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstitch::delivery::limiter::{Limiter, LimiterSettings, Limits, Verdict};
use backstitch::delivery::{
    Ask, AttemptEnd, AttemptTimes, Claim, ClaimPolicy, Claimer, DeliveryPolicy, DeliveryRuntime, LeaseBatch,
    Outcome, PartitionPage, Schedule, Unsettled,
};
use backstitch::group_commit::Pace;
use backstitch::secs;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const TIMEOUT: Duration = secs(10);
const LEASE: Duration = secs(20);

/// What happens to an item.
#[derive(Clone, Copy)]
enum Receiver {
    Answers(Duration),
    Panics,
}

/// What was written about an item.
type Settlement = (u32, &'static str);

/// One partition with these items.
struct Items {
    due: Mutex<VecDeque<u32>>,
    /// How long the store takes to lease.
    lease_takes: Duration,
}

impl ClaimPolicy for Items {
    type Key = u32;
    type Partition = u32;
    type Route = ();
    type Item = u32;
    type Claimant = ();
    type Error = String;

    async fn prepare(&self) -> Result<(), String> {
        Ok(())
    }

    async fn page(&self, _: Option<&u32>) -> Result<PartitionPage<u32, u32>, String> {
        let open = if self.due.lock().unwrap().is_empty() { Vec::new() } else { vec![1] };
        Ok(PartitionPage {
            open,
            closed: Vec::new(),
            next: None,
            is_whole: true,
            more: false,
            next_due: None,
        })
    }

    async fn chosen(&self, _: &[u32]) -> Result<PartitionPage<u32, u32>, String> {
        self.page(None).await
    }

    fn key(&self, partition: &u32) -> u32 {
        *partition
    }

    fn limits(&self, _: &u32) -> Option<Limits> {
        Some(Limits { concurrency: 100, rate: None })
    }

    fn route(&self, _: u32) -> Option<Arc<()>> {
        Some(Arc::new(()))
    }

    fn times(&self, (): &(), (): ()) -> AttemptTimes {
        AttemptTimes { timeout: TIMEOUT, lease: LEASE }
    }

    async fn lease(&self, asks: &[Ask<Self>], (): ()) -> Result<LeaseBatch<u32, u32>, String> {
        sleep(self.lease_takes).await;
        let mut due = self.due.lock().unwrap();
        let most = asks.iter().map(|ask| ask.most).sum::<usize>().min(due.len());
        let items = due.drain(..most).map(|item| (1, item)).collect();
        Ok(LeaseBatch { items, more: false, again_at: None })
    }
}

struct Post {
    claimer: Claimer<Items>,
    receiver: Receiver,
    at_once: usize,
    running: AtomicUsize,
    most_running: AtomicUsize,
    /// What the store says to the next batches: the places that it rejects, or does not take.
    store: Mutex<VecDeque<Unsettled>>,
    batches: AtomicUsize,
    durable: Mutex<Vec<Settlement>>,
    lost: Mutex<Vec<Settlement>>,
    woken: Notify,
}

impl Post {
    fn new(items: u32, receiver: Receiver) -> Self {
        Self::on(Items { due: Mutex::new((0..items).collect()), lease_takes: Duration::ZERO }, receiver)
    }

    fn on(items: Items, receiver: Receiver) -> Self {
        Self {
            claimer: Claimer::new(items, Limiter::new(LimiterSettings::default())),
            receiver,
            at_once: usize::MAX,
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            store: Mutex::default(),
            batches: AtomicUsize::new(0),
            durable: Mutex::default(),
            lost: Mutex::default(),
            woken: Notify::new(),
        }
    }

    fn durable(&self) -> Vec<Settlement> {
        let mut durable = self.durable.lock().unwrap().clone();
        durable.sort_unstable();
        durable
    }
}

impl DeliveryPolicy for Post {
    type Claims = Items;
    type Response = &'static str;
    type Settlement = Settlement;

    fn claimer(&self) -> &Claimer<Items> {
        &self.claimer
    }

    fn claimant(&self) {}

    fn schedule(&self) -> Schedule {
        Schedule {
            batch: 100,
            poll_interval: secs(1),
            store_retry: secs(1),
            pace: Pace::unlimited(),
            settlers: 1,
            poll_when_settled: false,
        }
    }

    async fn woken(&self) {
        self.woken.notified().await;
    }

    async fn maintain(&self) -> Result<(), String> {
        Ok(())
    }

    fn attempts_at_once(&self, (): &()) -> usize {
        self.at_once
    }

    async fn attempt(&self, _: &Claim<Items>) -> &'static str {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_running.fetch_max(running, Ordering::Relaxed);
        match self.receiver {
            Receiver::Answers(after) => sleep(after).await,
            Receiver::Panics => panic!("on purpose"),
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
        "done"
    }

    fn judge(&self, claim: &Claim<Items>, end: AttemptEnd<&'static str>) -> Outcome<Settlement> {
        let result = match end {
            AttemptEnd::Answered(answer) => answer,
            AttemptEnd::TimedOut => "timed out",
            AttemptEnd::Panicked => "panicked",
        };
        Outcome { settlement: (claim.item, result), verdict: Verdict::Healthy, retry_after: None }
    }

    fn give_back(&self, claim: &Claim<Items>) -> Settlement {
        (claim.item, "given back")
    }

    async fn settle(&self, _: &[Settlement]) -> Unsettled {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.store.lock().unwrap().pop_front().unwrap_or_default()
    }

    fn settled(&self, settlement: &Settlement) {
        self.durable.lock().unwrap().push(*settlement);
    }

    fn lost(&self, settlement: &Settlement) {
        self.lost.lock().unwrap().push(*settlement);
    }
}

/// Delivers for so long, and then until everything has ended.
async fn deliver(post: Post, time: Duration) -> Arc<Post> {
    let post = Arc::new(post);
    DeliveryRuntime::new(post.clone()).run(sleep(time)).await;
    post
}

fn failed(error: &str) -> Unsettled {
    Unsettled::all(1, &error)
}

#[tokio::test(start_paused = true)]
async fn items_of_a_partition_are_attempted_so_many_at_once() {
    let post = Post { at_once: 3, ..Post::new(10, Receiver::Answers(secs(1))) };
    let post = deliver(post, secs(30)).await;
    assert_eq!(post.durable(), (0..10).map(|item| (item, "done")).collect::<Vec<_>>());
    assert_eq!(post.most_running.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_hangs_or_panics_is_judged() {
    let post = deliver(Post::new(1, Receiver::Answers(secs(3600))), secs(30)).await;
    assert_eq!(post.durable(), [(0, "timed out")]);
    let post = deliver(Post::new(2, Receiver::Panics), secs(30)).await;
    assert_eq!(post.durable(), [(0, "panicked"), (1, "panicked")]);
    assert_eq!(post.claimer.limiter().free(), LimiterSettings::default().places, "no place is lost");
}

#[tokio::test(start_paused = true)]
async fn item_leased_too_late_is_given_back() {
    let items = Items { due: Mutex::new([0].into()), lease_takes: secs(11) };
    let post = deliver(Post::on(items, Receiver::Answers(secs(1))), secs(30)).await;
    assert_eq!(post.durable(), [(0, "given back")]);
    assert_eq!(post.most_running.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn item_that_waited_too_long_for_its_turn_is_given_back() {
    let post = Post { at_once: 1, ..Post::new(3, Receiver::Answers(secs(9))) };
    let post = deliver(post, secs(60)).await;
    assert_eq!(post.durable(), [(0, "done"), (1, "done"), (2, "given back")]);
}

#[tokio::test(start_paused = true)]
async fn result_is_kept_until_the_store_takes_it() {
    let post = Post::new(1, Receiver::Answers(secs(1)));
    post.store.lock().unwrap().extend((0..5).map(|_| failed("no connection")));
    let post = deliver(post, secs(30)).await;
    assert_eq!((post.durable(), post.batches.load(Ordering::Relaxed)), (vec![(0, "done")], 6));
}

#[tokio::test(start_paused = true)]
async fn result_is_lost_once_its_lease_has_expired() {
    let post = Post::new(1, Receiver::Answers(secs(1)));
    post.store.lock().unwrap().extend((0..1000).map(|_| failed("no connection")));
    let began = Instant::now();
    let post = deliver(post, secs(2)).await;
    assert_eq!(post.durable(), []);
    assert_eq!(*post.lost.lock().unwrap(), [(0, "done")]);
    assert!(began.elapsed() >= LEASE, "a shutdown waits for it as long");
}

#[tokio::test(start_paused = true)]
async fn rejected_result_is_tried_again_and_holds_up_no_shutdown() {
    let rejected = || Unsettled { rejected: vec![0], ..Unsettled::default() };
    let post = Post::new(1, Receiver::Answers(secs(1)));
    post.store.lock().unwrap().extend([rejected(), rejected()]);
    let post = deliver(post, secs(10)).await;
    assert_eq!(post.durable(), [(0, "done")]);
    let post = Post::new(1, Receiver::Answers(secs(1)));
    post.store.lock().unwrap().extend((0..1000).map(|_| rejected()));
    let began = Instant::now();
    let post = deliver(post, secs(3)).await;
    assert_eq!(post.durable(), []);
    assert!(began.elapsed() < secs(5), "a shutdown does not wait for a repair");
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_attempts_and_gives_back_what_waits() {
    let post = Post { at_once: 2, ..Post::new(5, Receiver::Answers(secs(5))) };
    let post = deliver(post, secs(1)).await;
    let given_back = |item| (item, "given back");
    assert_eq!(post.durable(), [(0, "done"), (1, "done"), given_back(2), given_back(3), given_back(4)]);
}

#[tokio::test(start_paused = true)]
async fn wake_up_is_heard_before_the_poll_interval() {
    let post = Arc::new(Post::new(0, Receiver::Answers(Duration::ZERO)));
    let runtime = DeliveryRuntime::new(post.clone());
    let publish = async {
        sleep(Duration::from_millis(100)).await;
        post.claimer.policy().due.lock().unwrap().push_back(7);
        post.woken.notify_one();
        sleep(Duration::from_millis(100)).await;
    };
    runtime.run(publish).await;
    assert_eq!(post.durable(), [(7, "done")]);
}
