//! What is over goes by age; what is live stays.

use std::time::Duration;

use backstitch_modules::webhooks::{Ages, Error, NewEvent, Replay, Which};

use crate::webhooks::pruned::{BATCHES, Pruned, prune, prune_areas};
use crate::webhooks::stage::{Place, Stage, order_created, session};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn ages(completed: u32, dead_lettered: u32, events: u32) -> Ages {
    let days = |count| Some(DAY * count);
    Ages { completed: days(completed), dead_lettered: days(dead_lettered), events: days(events) }
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_deliveries_go_by_age_with_all_that_is_theirs_and_live_ones_stay() {
    for stage in Stage::each().await {
        let dead = stage.dead_letter("dead").await;
        let events = (0..450).map(|number| order_created(&format!("o-{number}"))).collect();
        stage.webhooks.ingest.accept_all(events).await;
        stage.decide().await;
        let mut all = Vec::new();
        loop {
            let leased = stage.lease().await;
            if leased.is_empty() {
                break;
            }
            all.extend(leased);
        }
        let reports = all[1..].iter().map(|leased| stage.arrived(leased));
        futures::future::join_all(reports).await;
        stage.decide().await;
        stage.advance(DAY).await;
        assert_eq!(prune(&stage, &ages(1, 2, 1)).await, Pruned::default(), "not old enough");
        stage.advance(Duration::from_secs(1)).await;
        let pruned = prune(&stage, &ages(1, 2, 1)).await;
        let expected = Pruned { deliveries: 449, jobs: 449, attempts: 449, events: 449, ..Pruned::default() };
        assert_eq!(pruned, expected);
        assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 2);
        assert_eq!(stage.number("select count(*) from webhook_events").await, 2);
        assert_eq!(stage.number("select count(*) from jobs").await, 2);
        stage.webhooks.dead_letters.get(dead.id).await.unwrap();

        let pruned = prune(&stage, &ages(1, 1, 1)).await;
        let expected =
            Pruned { deliveries: 1, jobs: 1, attempts: 1, events: 1, dead_letters: 1, more: false };
        assert_eq!(pruned, expected);
        assert!(matches!(stage.webhooks.dead_letters.get(dead.id).await, Err(Error::UnknownDeadLetter(_))));
        // The live one goes on as if nothing had been.
        stage.advance(DAY * 365).await;
        assert_eq!(prune(&stage, &ages(1, 1, 1)).await, Pruned::default());
        stage.arrived(&all[0]).await;
        assert_eq!(stage.decide().await.completed, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_age_is_kept_for_ever() {
    for stage in Stage::each().await {
        stage.dead_letter("dead").await;
        stage.advance(DAY * 3650).await;
        assert_eq!(prune(&stage, &Ages::default()).await, Pruned::default());
        let only_events = Ages { events: Some(DAY), ..Ages::default() };
        assert_eq!(prune(&stage, &only_events).await, Pruned::default());
        let only_dead = Ages { dead_lettered: Some(DAY), ..Ages::default() };
        let pruned = prune(&stage, &only_dead).await;
        assert_eq!((pruned.deliveries, pruned.dead_letters, pruned.events), (1, 1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_is_exported_before_with_its_attempts_and_its_event() {
    for stage in Stage::each().await {
        let dead = stage.dead_letter("dead").await;
        stage.advance(DAY * 2).await;
        stage.engine.prune_with(stage.webhooks.retention(&ages(1, 1, 1)));
        while stage.engine.removed().last_run.is_none() {
            tokio::task::yield_now().await;
        }
        let removed = stage.engine.removed().removed;
        assert_eq!((removed["deliveries"], removed["dead_letters"], removed["events"]), (1, 1, 1));
        let deliveries = stage.shelf.of_kind("delivery");
        assert_eq!((deliveries.len(), deliveries[0]["id"].as_i64()), (1, Some(dead.id)));
        assert_eq!(deliveries[0]["status"], "DeadLettered");
        let attempts = deliveries[0]["attempts"].as_array().unwrap();
        assert_eq!((attempts.len() as u64, &attempts[0]["status"]), (removed["attempts"], &"Failed".into()));
        let events = stage.shelf.of_kind("event");
        assert_eq!((events.len(), &events[0]["uid"]), (1, &"dead".into()));
        assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 0);
    }
}

/// Only a file lets anybody write what is no text.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_or_an_event_that_cannot_be_read_stays_and_keeps_nothing_else() {
    let stage = Stage::sqlite().await;
    stage.subscribe(&["order.*"], 8).await;
    for id in ["o-1", "o-2", "o-3"] {
        stage.tell(id).await;
    }
    stage.decide().await;
    for leased in stage.lease().await {
        stage.arrived(&leased).await;
    }
    assert_eq!(stage.decide().await.completed, 3);
    for (table, damage) in [
        (
            "webhook_attempts",
            "update webhook_attempts set error = cast(x'ff' as text)
                where saga_id = (select min(id) from webhook_delivery_sagas)",
        ),
        ("webhook_events", "update webhook_events set payload = cast(x'ff' as text) where uid = 'o-2'"),
    ] {
        stage.execute_unguarded(table, damage).await;
    }
    stage.advance(DAY * 2).await;
    for rounds in 1..=2 {
        // Whoever comes to it begins a round.
        stage.engine.prune_with(stage.webhooks.retention(&ages(1, 1, 1)));
        while stage.engine.removed().failed < rounds {
            tokio::task::yield_now().await;
        }
        let told = stage.engine.removed();
        assert_eq!((told.removed["deliveries"], told.removed["events"]), (2, 1), "{told:?}");
        let held_up = told.held_up.unwrap();
        assert!(held_up.contains("delivery ") && held_up.contains("event "), "{held_up}");
    }
    assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 1);
    assert_eq!(stage.number("select count(*) from webhook_events where uid in ('o-1', 'o-2')").await, 2);
    let exported = stage.shelf.of_kind("event");
    assert_eq!((exported.len(), &exported[0]["uid"]), (1, &"o-3".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_delivery_stays_as_long_as_its_dead_letter_so_that_nobody_requeues_it_twice() {
    for stage in Stage::each().await {
        let dead = stage.dead_letter("o-1").await;
        let letters = &stage.webhooks.dead_letters;
        let requeued = letters.requeue(dead.id).await.unwrap();
        stage.decide().await;
        stage.arrived(&stage.lease_one().await).await;
        stage.decide().await;
        stage.advance(DAY * 2).await;
        assert_eq!(prune(&stage, &ages(1, 9, 1)).await, Pruned::default());
        let again = letters.requeue(dead.id).await.unwrap();
        assert!(again.repeated && again.delivery == requeued.delivery);
        prune(&stage, &ages(1, 1, 1)).await;
        prune(&stage, &ages(1, 1, 1)).await;
        assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 0);
        assert_eq!(stage.number("select count(*) from webhook_events").await, 0);
    }
}

/// Events that one call looks at: 200 a page.
const ONE_CALL: usize = BATCHES * 200;

async fn tell_many(stage: &Stage, kind: &str, count: usize) {
    let event = |number| NewEvent {
        kind: kind.to_owned(),
        ..order_created(&format!("{kind}-{number}-{}", stage.now().as_micros()))
    };
    let told = stage.webhooks.ingest.accept_all((0..count).map(event).collect()).await;
    assert!(told.len() == count && told.iter().all(Result::is_ok));
}

fn events(events: usize, more: bool) -> Pruned {
    Pruned { events, more, ..Pruned::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_looks_at_so_much_and_the_next_goes_on_past_events_that_still_have_deliveries() {
    for stage in Stage::each().await {
        let areas = stage.webhooks.retention(&ages(1, 1, 1));
        stage.subscribe(&["order.*"], 8).await;
        tell_many(&stage, "order.created", ONE_CALL).await;
        stage.advance(Duration::from_secs(1)).await;
        tell_many(&stage, "invoice.paid", ONE_CALL + 7).await;
        stage.advance(DAY * 2).await;
        assert_eq!(prune_areas(&stage, &areas).await, events(0, true), "all have deliveries");
        assert_eq!(prune_areas(&stage, &areas).await, events(ONE_CALL, true));
        assert_eq!(prune_areas(&stage, &areas).await, events(7, false));
        tell_many(&stage, "invoice.paid", 3).await;
        stage.advance(DAY * 2).await;
        let next = prune_areas(&stage, &areas).await;
        assert_eq!(next, events(3, false), "what cannot go is not gone through again");

        stage.decide().await;
        for leased in &stage.lease().await[..2] {
            stage.arrived(leased).await;
        }
        stage.decide().await;
        stage.advance(DAY * 2).await;
        let ended = Pruned { deliveries: 2, jobs: 2, attempts: 2, ..events(2, false) };
        assert_eq!(prune_areas(&stage, &areas).await, ended, "with their last deliveries");
        let live = ONE_CALL - 2;
        assert_eq!(stage.number("select count(*) from webhook_events").await, i64::try_from(live).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_outlives_its_deliveries_until_it_is_old_enough() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        stage.tell("o-1").await;
        stage.decide().await;
        stage.arrived(&stage.lease_one().await).await;
        stage.decide().await;
        stage.advance(DAY * 2).await;
        let pruned = prune(&stage, &ages(1, 1, 9)).await;
        assert_eq!((pruned.deliveries, pruned.events), (1, 0));
        stage.advance(DAY * 8).await;
        assert_eq!(prune(&stage, &ages(1, 1, 9)).await, events(1, false));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_that_prune_at_once_neither_waits_and_all_goes_once() {
    let stage = Stage::postgres().await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let other = stage.another().await;
    stage.subscribe(&["order.*"], 8).await;
    tell_many(&stage, "order.created", 450).await;
    tell_many(&stage, "invoice.paid", 450).await;
    stage.decide().await;
    loop {
        let leased = stage.lease().await;
        if leased.is_empty() {
            break;
        }
        futures::future::join_all(leased.iter().map(|leased| stage.arrived(leased))).await;
    }
    stage.decide().await;
    stage.advance(DAY * 2).await;

    let mut pruning = session(address).await;
    let turn = pruning.transaction().await.unwrap();
    turn.execute("select pg_advisory_xact_lock(hashtext('backstitch webhook retention'))", &[])
        .await
        .unwrap();
    turn.execute("select from webhook_events where type = 'invoice.paid' for update", &[]).await.unwrap();
    let [ours, theirs] = [&stage.webhooks, &other].map(|webhooks| webhooks.retention(&ages(1, 1, 1)));
    assert_eq!(prune_areas(&stage, &ours).await, Pruned::default());
    turn.rollback().await.unwrap();

    let mut all = Pruned::default();
    // Who finds the other at it leaves the rest for later.
    for _ in 0..50 {
        let (one, two) = tokio::join!(prune_areas(&stage, &ours), prune_areas(&stage, &theirs));
        for pruned in [one, two] {
            all.deliveries += pruned.deliveries;
            all.jobs += pruned.jobs;
            all.events += pruned.events;
        }
    }
    assert_eq!((all.deliveries, all.jobs, all.events), (450, 450, 900));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_being_sent_once_more_is_not_pruned_and_goes_later() {
    let stage = Stage::postgres().await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let areas = stage.webhooks.retention(&ages(1, 1, 1));
    let event = stage.tell("o-1").await.event;
    stage.advance(DAY * 2).await;
    let mut replaying = session(address).await;
    let replay = replaying.transaction().await.unwrap();
    replay.execute("select from webhook_events where id = $1 for key share", &[&event]).await.unwrap();
    assert_eq!(prune_areas(&stage, &areas).await, Pruned::default());
    replay.rollback().await.unwrap();
    assert_eq!(prune_areas(&stage, &areas).await, events(1, false));
}

/// Whether somebody waits for a lock before `instead` ends.
async fn is_waited_for<T>(stage: &Stage, instead: &tokio::task::JoinHandle<T>) -> bool {
    let waiting = "select count(*) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'";
    loop {
        if instead.is_finished() {
            return false;
        }
        if stage.number(waiting).await > 0 {
            return true;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pruned_while_it_is_replayed_or_requeued_gets_no_delivery() {
    let stage = Stage::postgres().await;
    let Place::Postgres { address, .. } = &stage.place else { return };
    let dead = stage.dead_letter("o-1").await;
    let mut pruning = session(address).await;
    let letters = stage.webhooks.dead_letters.clone();
    let replay = Replay {
        id: "again".to_owned(),
        subscription_id: dead.subscription_id,
        since: dead.created_at,
        until: stage.now().plus(DAY),
        after: None,
    };
    // Its guard would refuse an event that has a delivery.
    pruning.batch_execute("alter table webhook_events disable trigger user").await.unwrap();
    let prune = pruning.transaction().await.unwrap();
    prune.execute("delete from webhook_events where id = $1", &[&dead.event_id]).await.unwrap();
    let both = tokio::spawn(async move {
        (letters.replay(&replay).await.unwrap(), letters.requeue_matching(&Which::default(), 10, None).await)
    });
    assert!(is_waited_for(&stage, &both).await, "it takes hold of the event");
    prune.commit().await.unwrap();
    let (replayed, requeued) = both.await.unwrap();
    assert_eq!((replayed.deliveries, requeued.unwrap().requeued), (0, 0));
    assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 1);
}
