//! Paused subscriptions are shown with the reason, whichever node pauses them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch::Desk as _;
use backstitch::delivery::limiter::{Limiter, LimiterSettings, Verdict};
use backstitch::delivery::membership::MembershipSettings;
use backstitch::kernel::delivery::Status;
use backstitch_modules::webhooks::{Counter, Nobody, Pause, PauseWriter, Report, Webhooks, membership};
use backstitch_testkit::service::{Reply, Service};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::webhooks::delivery_workers::{subscribe, until, work};
use crate::webhooks::stage::{Place, Stage, failure, session};

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than a node counts that is not heard of.
const SILENCE: Duration = Duration::from_secs(11);
/// How long a test waits for a pause to be shown, or not to be.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);
const FAILURES: u32 = 2;
const BROKEN: &str = "circuit breaker open after 2 failures in a row";
const RETRY_AFTER: &str = "receiver sent Retry-After";

/// A node that hands out attempts and writes its pauses, until it is dropped.
struct Node {
    limiter: Limiter<i64>,
    counter: Counter,
    _writing: AbortOnDropHandle<()>,
}

impl Node {
    async fn on(stage: &Stage, webhooks: &Webhooks) -> Self {
        let settings = LimiterSettings {
            failures_in_a_row: FAILURES,
            first_pause: MINUTE,
            ..LimiterSettings::default()
        };
        let limiter = Limiter::new(settings);
        // It tells of itself, and takes what it gains, whenever something is wanted.
        let settings = MembershipSettings { every: Duration::ZERO, ..MembershipSettings::default() };
        let membership = Arc::new(membership(&webhooks.jobs, settings));
        let dispatch = stage.dispatch_as(membership, webhooks, limiter.clone());
        let writing = tokio::spawn(PauseWriter::of(dispatch.clone()).run());
        let counter = Counter::of(dispatch, webhooks.subscriptions.clone(), Arc::new(Nobody));
        counter.get_ready().await.unwrap();
        Self { limiter, counter, _writing: AbortOnDropHandle::new(writing) }
    }

    fn fail(&self, subscription: i64) {
        for _ in 0..FAILURES {
            self.limiter.observe(&subscription, Verdict::Failing, None);
        }
    }

    fn retry_after(&self, subscription: i64, time: Duration) {
        self.limiter.observe(&subscription, Verdict::Healthy, Some(time));
    }
}

async fn pause_of(stage: &Stage, subscription: i64) -> Option<Pause> {
    stage.webhooks.pauses.of_subscriptions(&[subscription]).await.unwrap().remove(&subscription)
}

/// Waits until the pause of a subscription meets a condition.
async fn becomes(stage: &Stage, subscription: i64, meets: impl Fn(Option<&Pause>) -> bool) -> Option<Pause> {
    let end = Instant::now() + SHOWN_WITHIN;
    loop {
        let pause = pause_of(stage, subscription).await;
        if meets(pause.as_ref()) {
            return pause;
        }
        assert!(Instant::now() < end, "subscription {subscription} is still shown with {pause:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn is_paused(stage: &Stage, subscription: i64) -> Pause {
    becomes(stage, subscription, |pause| pause.is_some()).await.unwrap()
}

async fn rows(stage: &Stage) -> i64 {
    stage.number("select count(*) from webhook_pauses").await
}

/// Waits until so many rows are there.
async fn has_rows(stage: &Stage, count: i64) {
    let end = Instant::now() + SHOWN_WITHIN;
    loop {
        let found = rows(stage).await;
        if found == count {
            return;
        }
        assert!(Instant::now() < end, "there are {found} pauses instead of {count}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_breaker_is_shown_with_its_reason_until_it_closes() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await.id;
        let other = stage.subscribe(&["order.*"], 8).await.id;
        stage.tell("o-1").await;
        stage.tell("o-2").await;
        stage.decide().await;
        let node = Node::on(&stage, &stage.webhooks).await;
        node.limiter.config_changed(&subscription, stage.now());
        assert_eq!(pause_of(&stage, subscription).await, None);
        node.fail(subscription);
        let pause = is_paused(&stage, subscription).await;
        assert_eq!(pause.reason, BROKEN);
        assert!(pause.until > stage.now() && pause.until <= stage.now().plus(MINUTE), "{pause:?}");
        let both = stage.webhooks.pauses.of_subscriptions(&[subscription, other]).await.unwrap();
        assert_eq!(both, HashMap::from([(subscription, pause)]));
        node.limiter.config_changed(&subscription, stage.now().plus(MINUTE));
        assert_eq!(becomes(&stage, subscription, |pause| pause.is_none()).await, None);
        has_rows(&stage, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_delivery_that_waits_shows_the_pause() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await.id;
        let mut deliveries = Vec::new();
        for id in ["arrives", "fails", "is sent", "is due later"] {
            deliveries.push(stage.saga_of(stage.tell(id).await.event).await.id);
        }
        stage.decide().await;
        let leased = stage.lease().await;
        stage.arrived(&leased[0]).await;
        stage.failed(&leased[1], "http_500").await;
        let later = Report { retry_after: Some(60 * MINUTE), ..failure(&leased[3], "http_503") };
        stage.webhooks.jobs.report(later).await.unwrap();
        stage.decide().await;
        deliveries.push(stage.saga_of(stage.tell("has a job").await.event).await.id);
        stage.decide().await;
        deliveries.push(stage.saga_of(stage.tell("has none").await.event).await.id);
        let mut statuses = Vec::new();
        for id in &deliveries {
            statuses.push(stage.saga(*id).await.status);
        }
        let (begun, waits) = (Status::InProgress, Status::PendingRetry);
        assert_eq!(statuses, [Status::Completed, waits, begun, waits, begun, Status::Pending]);
        let node = Node::on(&stage, &stage.webhooks).await;
        node.retry_after(subscription, MINUTE);
        let pause = is_paused(&stage, subscription).await;
        assert_eq!(pause.reason, RETRY_AFTER);
        let waiting = stage.webhooks.pauses.of_deliveries(&deliveries).await.unwrap();
        let due = stage.saga(deliveries[3]).await.next_attempt_at;
        assert!(due > pause.until, "its own backoff lasts longer than the pause");
        let expected = [1, 4, 5].map(|place: usize| (deliveries[place], pause.clone()));
        assert_eq!(waiting, HashMap::from(expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_pause_is_not_shown() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await.id;
        let node = Node::on(&stage, &stage.webhooks).await;
        node.fail(subscription);
        is_paused(&stage, subscription).await;
        stage.advance(MINUTE).await;
        node.counter.get_ready().await.unwrap();
        assert_eq!(pause_of(&stage, subscription).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_of_a_node_that_is_gone_is_not_shown() {
    let stage = Stage::postgres().await;
    let subscription = stage.subscribe(&["order.*"], 8).await.id;
    let delivery = stage.saga_of(stage.tell("o-1").await.event).await.id;
    let node = Node::on(&stage, &stage.webhooks).await;
    node.fail(subscription);
    is_paused(&stage, subscription).await;
    stage.advance(SILENCE).await;
    assert_eq!(pause_of(&stage, subscription).await, None);
    assert_eq!(stage.webhooks.pauses.of_deliveries(&[delivery]).await.unwrap(), HashMap::new());
    node.counter.get_ready().await.unwrap();
    assert_eq!(pause_of(&stage, subscription).await.unwrap().reason, BROKEN, "it is heard of again");
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_removes_what_a_crash_left_in_a_file() {
    let stage = Stage::sqlite().await;
    let subscription = stage.subscribe(&["order.*"], 8).await.id;
    let node = Node::on(&stage, &stage.webhooks).await;
    node.fail(subscription);
    is_paused(&stage, subscription).await;
    drop(node);
    let stage = stage.crash().await;
    assert_eq!(rows(&stage).await, 1);
    let _node = Node::on(&stage, &stage.webhooks).await;
    has_rows(&stage, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn next_write_on_a_server_removes_what_a_crash_left() {
    let stage = Stage::postgres().await;
    let subscription = stage.subscribe(&["order.*"], 8).await.id;
    let lost = Node::on(&stage, &stage.webhooks).await;
    lost.fail(subscription);
    is_paused(&stage, subscription).await;
    drop(lost);
    stage.advance(MINUTE).await;
    let _node = Node::on(&stage, &stage.webhooks).await;
    has_rows(&stage, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_pause_of_several_nodes_is_shown() {
    let stage = Stage::postgres().await;
    let subscription = stage.subscribe(&["order.*"], 8).await.id;
    let delivery = stage.saga_of(stage.tell("o-1").await.event).await.id;
    stage.decide().await;
    let (here, there) = (stage.another().await, stage.another().await);
    let (here, there) = (Node::on(&stage, &here).await, Node::on(&stage, &there).await);
    here.fail(subscription);
    let first = is_paused(&stage, subscription).await;
    there.retry_after(subscription, 2 * MINUTE);
    let later = becomes(&stage, subscription, |pause| pause.is_some_and(|it| it.reason == RETRY_AFTER)).await;
    assert!(later.as_ref().unwrap().until > first.until, "{later:?} {first:?}");
    let waiting = stage.webhooks.pauses.of_deliveries(&[delivery]).await.unwrap();
    assert_eq!(waiting, HashMap::from([(delivery, later.unwrap())]));
    has_rows(&stage, 2).await;
    stage.advance(SILENCE).await;
    here.counter.get_ready().await.unwrap();
    assert_eq!(pause_of(&stage, subscription).await, Some(first), "the other one is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn change_and_deletion_of_a_subscription_remove_its_pauses() {
    for stage in Stage::each().await {
        let changed = stage.subscribe(&["order.*"], 8).await.id;
        let deleted = stage.subscribe(&["order.*"], 8).await.id;
        let node = Node::on(&stage, &stage.webhooks).await;
        node.fail(changed);
        node.fail(deleted);
        has_rows(&stage, 2).await;
        stage.webhooks.subscriptions.disable(changed, "no more").await.unwrap();
        assert_eq!(rows(&stage).await, 1);
        stage.webhooks.subscriptions.delete(deleted).await.unwrap();
        assert_eq!(rows(&stage).await, 0);
        // A request that was on its way then ends later.
        node.retry_after(deleted, 2 * MINUTE);
        node.retry_after(changed, 2 * MINUTE);
        is_paused(&stage, changed).await;
        assert_eq!(rows(&stage).await, 1, "a deleted subscription has none");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_pause_write_holds_up_no_delivery() {
    for stage in Stage::each().await {
        stage.obstruct("webhook_pauses", "insert", "true").await;
        let service = Service::always(|| Reply::http(204, "")).await;
        let broken = stage.subscribe(&["site.*"], 8).await.id;
        subscribe(&stage, service.url(), |_| ()).await;
        let limiter = Limiter::new(LimiterSettings {
            failures_in_a_row: 1,
            first_pause: MINUTE,
            ..LimiterSettings::default()
        });
        let dispatch = stage.dispatch_within(limiter.clone());
        let _writing = AbortOnDropHandle::new(tokio::spawn(PauseWriter::of(dispatch.clone()).run()));
        let _working = work(&stage, dispatch);
        limiter.observe(&broken, Verdict::Failing, None);
        for id in ["o-1", "o-2", "o-3"] {
            until(&stage, stage.tell(id).await.event, Status::Completed).await;
        }
        assert_eq!(pause_of(&stage, broken).await, None);
        stage.clear("webhook_pauses").await;
        assert_eq!(is_paused(&stage, broken).await.reason, "circuit breaker open after 1 failure");
    }
}

/// Holds up every insert of a pause until the lock of this number is free.
const HOLD_UP: &str = "
    create function backstitch.held_up() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock(4711);
        return new;
    end $$;
    create trigger held_up before insert on backstitch.webhook_pauses
        for each row execute function backstitch.held_up();
    select pg_advisory_lock(4711)";
const HELD_UP: &str = "select count(*) from pg_locks where locktype = 'advisory' and not granted";

#[tokio::test(flavor = "multi_thread")]
async fn pause_that_ended_during_a_lost_write_is_not_shown() {
    let stage = Stage::postgres().await;
    let subscription = stage.subscribe(&["order.*"], 8).await.id;
    let other = stage.subscribe(&["order.*"], 8).await.id;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let holding = session(address).await;
    let node = Node::on(&stage, &stage.webhooks).await;
    holding.batch_execute(HOLD_UP).await.unwrap();
    node.limiter.config_changed(&subscription, stage.now());
    node.fail(subscription);
    let held_up = async |count| {
        let end = Instant::now() + SHOWN_WITHIN;
        while stage.number(HELD_UP).await < count {
            assert!(Instant::now() < end, "fewer than {count} writes wait");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    held_up(1).await;
    node.limiter.config_changed(&subscription, stage.now().plus(MINUTE));
    node.fail(other);
    // The next write begins once the first one is given up. The server carries both out.
    held_up(2).await;
    holding.batch_execute("select pg_advisory_unlock(4711)").await.unwrap();
    is_paused(&stage, other).await;
    becomes(&stage, subscription, |pause| pause.is_none()).await;
    has_rows(&stage, 1).await;
}
