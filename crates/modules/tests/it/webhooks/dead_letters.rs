//! Dead letters are sent after all as new deliveries; the old ones stay: §5.5, §7.4.

use std::time::Duration;

use backstitch::kernel::delivery::Status;
use backstitch_modules::webhooks::{
    Error, Filter, NewEvent, Replay, Replayed, Requeued, RequeuedMany, Which,
};

use crate::webhooks::stage::{Place, Stage, order_created};

#[tokio::test(flavor = "multi_thread")]
async fn s7_4_a_dead_letter_is_requeued_as_a_brand_new_saga_and_stays_as_it_was() {
    for stage in Stage::each().await {
        let dead = stage.dead_letter("o-1").await;
        stage.advance(Duration::from_secs(60)).await;
        let Requeued { delivery, repeated } = stage.webhooks.dead_letters.requeue(dead.id).await.unwrap();
        assert!(!repeated && delivery != dead.id);
        let fresh = stage.saga(delivery).await;
        assert_eq!((fresh.status, fresh.attempt_count), (Status::Pending, 0));
        assert_eq!((fresh.next_attempt_at, fresh.final_error_code), (stage.now(), None));
        assert_eq!((fresh.event_id, fresh.subscription_id), (dead.event_id, dead.subscription_id));
        assert_eq!((fresh.requeue_of, fresh.webhook_id), (Some(dead.id), dead.webhook_id.clone()));

        stage.decide().await;
        let leased = stage.lease_one().await;
        assert_eq!((leased.delivery, leased.attempt), (delivery, 1));
        stage.arrived(&leased).await;
        stage.decide().await;
        assert_eq!(stage.saga(delivery).await.status, Status::Completed);
        assert_eq!(stage.saga(dead.id).await, dead, "the old one never changes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_4_requeueing_twice_gives_the_same_saga_also_at_the_same_moment_and_chains_work() {
    for stage in Stage::each().await {
        let dead = stage.dead_letter("o-1").await;
        let letters = &stage.webhooks.dead_letters;
        let (one, other) = tokio::join!(letters.requeue(dead.id), letters.requeue(dead.id));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one.delivery, other.delivery);
        assert!(one.repeated != other.repeated);
        stage.exhaust(one.delivery).await;
        assert!(letters.requeue(dead.id).await.unwrap().repeated, "it was requeued, whatever came of that");
        let next = letters.requeue(one.delivery).await.unwrap();
        let next = stage.saga(next.delivery).await;
        assert_eq!((next.requeue_of, next.webhook_id), (Some(one.delivery), dead.webhook_id));
        assert_eq!(letters.get(dead.id).await.unwrap().requeued_as, Some(one.delivery));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_dead_letter_or_has_no_subscription_is_not_requeued() {
    for stage in Stage::each().await {
        let dead = stage.dead_letter("o-1").await;
        let live = stage.saga_of(stage.tell("o-2").await.event).await;
        let letters = &stage.webhooks.dead_letters;
        for id in [live.id, 999] {
            let refused = letters.requeue(id).await.unwrap_err();
            assert!(matches!(refused, Error::UnknownDeadLetter(of) if of == id), "{refused}");
        }
        stage.webhooks.subscriptions.delete(dead.subscription_id).await.unwrap();
        let refused = letters.requeue(dead.id).await.unwrap_err();
        assert!(matches!(refused, Error::UnknownSubscription(of) if of == dead.subscription_id), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_by_page_and_requeued_by_filter_each_once() {
    for stage in Stage::each().await {
        let one = stage.subscribe(&["order.*"], 1).await;
        let other = stage.subscribe(&["order.created"], 1).await;
        let events = (0..6).map(|number| order_created(&format!("o-{number}"))).collect();
        stage.webhooks.ingest.accept_all(events).await;
        stage.decide().await;
        for leased in stage.lease().await {
            let code = if leased.lane == one.id { "http_500" } else { "timeout" };
            stage.failed(&leased, code).await;
        }
        stage.decide().await;
        let letters = &stage.webhooks.dead_letters;
        let all = Which::default();
        let first = letters.list(&all, 7, None).await.unwrap();
        let rest = letters.list(&all, 7, first.next).await.unwrap();
        assert_eq!((first.items.len(), rest.items.len(), rest.next), (7, 5, None));
        let ids: Vec<i64> = first.items.iter().chain(&rest.items).map(|letter| letter.saga_id).collect();
        assert!(ids.is_sorted_by(|newer, older| newer > older), "{ids:?}");

        let timeouts = Which { final_error_code: Some("timeout".to_owned()), ..Which::default() };
        let found = letters.list(&timeouts, 100, None).await.unwrap().items;
        assert!(found.len() == 6 && found.iter().all(|letter| letter.subscription_id == other.id));
        let of_other =
            Which { subscription_id: Some(other.id), since: Some(stage.now()), ..Which::default() };
        let some = letters.requeue_matching(&of_other, 4, None).await.unwrap();
        assert_eq!(some.requeued, 4);
        let others = letters.requeue_matching(&of_other, 100, some.next).await.unwrap();
        assert_eq!((others.requeued, others.next), (2, None));
        assert_eq!(letters.requeue_matching(&of_other, 100, None).await.unwrap().requeued, 0, "each once");
        let later = Which { since: Some(stage.now().plus(Duration::from_secs(1))), ..Which::default() };
        assert_eq!(letters.requeue_matching(&later, 100, None).await.unwrap().requeued, 0);
        let until = Which { until: Some(stage.now()), ..Which::default() };
        assert!(letters.list(&until, 100, None).await.unwrap().items.is_empty());
        let left = Which { not_requeued: true, ..Which::default() };
        assert_eq!(letters.list(&left, 100, None).await.unwrap().items.len(), 6);
        assert_eq!(
            stage.number("select count(*) from webhook_delivery_sagas where status = 'Pending'").await,
            6
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_sends_the_events_of_a_time_range_once_more_and_once_only() {
    for stage in Stage::each().await {
        let mut told = Vec::new();
        for number in 0..5 {
            told.push((stage.tell(&format!("o-{number}")).await, stage.now()));
            stage.advance(Duration::from_secs(10)).await;
        }
        let other = NewEvent { kind: "invoice.paid".to_owned(), ..order_created("i-1") };
        stage.webhooks.ingest.accept(other).await.unwrap();
        // It came after the first ones, and had the last one routed to it.
        let late = stage.subscribe(&["order.*"], 8).await;
        let routed = stage.tell("o-9").await;
        let replay = Replay {
            id: "after the outage".to_owned(),
            subscription_id: late.id,
            since: told[1].1,
            until: stage.now().plus(Duration::from_secs(1)),
            after: None,
        };
        let letters = &stage.webhooks.dead_letters;
        let all = |deliveries| Replayed { deliveries, next: None };
        let first = letters.replay(&replay).await.unwrap();
        assert_eq!(first, all(5), "four that it never had, and one that it had");
        assert_eq!(letters.replay(&replay).await.unwrap(), all(0), "the same replay again");
        let another = Replay { id: "once more".to_owned(), until: told[2].1, ..replay.clone() };
        assert_eq!(letters.replay(&another).await.unwrap(), all(1));
        let filter = Filter { event_id: Some(routed.event), ..Default::default() };
        let sagas = stage.webhooks.deliveries.list(&filter, 10, None).await.unwrap().items;
        assert_eq!(sagas.len(), 2);
        assert!(
            sagas.iter().all(|saga| saga.webhook_id == routed.webhook_id && saga.status == Status::Pending)
        );
        assert_eq!(sagas[0].replay_id.as_deref(), Some("after the outage"));

        let nobody = Replay { subscription_id: 999, ..replay.clone() };
        assert!(matches!(letters.replay(&nobody).await, Err(Error::UnknownSubscription(999))));
        let nameless = Replay { id: String::new(), ..replay };
        assert!(matches!(letters.replay(&nameless).await, Err(Error::Invalid { .. })));
    }
}

/// What one call looks at.
const ONE_CALL: usize = 10_000;

async fn tell_many(stage: &Stage, count: usize) {
    for chunk in 0..count.div_ceil(1_000) {
        let rest = (count - chunk * 1_000).min(1_000);
        let events = (0..rest).map(|number| order_created(&format!("o-{chunk}-{number}"))).collect();
        let told = stage.webhooks.ingest.accept_all(events).await;
        assert!(told.iter().all(Result::is_ok));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_replays_so_many_events_and_the_next_goes_on() {
    for stage in Stage::each().await {
        tell_many(&stage, ONE_CALL + 3).await;
        let late = stage.subscribe(&["order.*"], 8).await;
        let replay = Replay {
            id: "all".to_owned(),
            subscription_id: late.id,
            since: stage.now(),
            until: stage.now().plus(Duration::from_secs(1)),
            after: None,
        };
        let letters = &stage.webhooks.dead_letters;
        let first = letters.replay(&replay).await.unwrap();
        assert_eq!((first.deliveries, first.next.is_some()), (ONE_CALL, true));
        assert_eq!(letters.replay(&replay).await.unwrap(), Replayed { deliveries: 0, ..first }, "as before");
        let rest = letters.replay(&Replay { after: first.next, ..replay }).await.unwrap();
        assert_eq!(rest, Replayed { deliveries: 3, next: None });
    }
}

/// Dead letters as they would stand after a long time, past the rules for how they come about.
async fn letters(stage: &Stage, subscription: i64, numbers: std::ops::Range<usize>, code: &str) {
    let (from, to) = (numbers.start, numbers.end);
    stage
        .execute(&format!(
            "with recursive n (i) as (select {from} union all select i + 1 from n where i + 1 < {to})
             insert into dead_letters
                 (saga_id, event_id, subscription_id, created_at, attempt_count, final_error_code, webhook_id)
             select i, 1, {subscription}, (select min(created_at) from webhook_events), 1, '{code}', 'msg' from n"
        ))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_index_finds_is_looked_for_a_stretch_at_a_time() {
    for stage in Stage::each().await {
        let gone = stage.subscribe(&["order.*"], 8).await;
        let open = stage.subscribe(&["order.*"], 8).await;
        stage.tell("o-1").await;
        // The deliveries themselves have the first numbers.
        let (old, new) = (10..13, 13..13 + ONE_CALL);
        letters(&stage, open.id, old.clone(), "timeout").await;
        letters(&stage, gone.id, new.clone(), "timeout").await;
        letters(&stage, open.id, new.end..new.end + 2, "timeout").await;
        stage.webhooks.subscriptions.delete(gone.id).await.unwrap();
        let dead = &stage.webhooks.dead_letters;

        let which = Which {
            final_error_code: Some("timeout".to_owned()),
            until: Some(stage.now().plus(Duration::from_secs(1))),
            ..Which::default()
        };
        let nothing = Which { until: Some(stage.now()), ..which.clone() };
        let page = dead.list(&nothing, 50, None).await.unwrap();
        assert!(page.items.is_empty());
        let rest = dead.list(&nothing, 50, page.next).await.unwrap();
        assert_eq!((page.next.is_some(), rest.items.len(), rest.next), (true, 0, None));
        let page = dead.list(&which, 2, None).await.unwrap();
        assert!(page.items.len() == 2 && page.items.iter().all(|letter| letter.subscription_id == open.id));

        let some = dead.requeue_matching(&which, 1, None).await.unwrap();
        assert_eq!(some, RequeuedMany { requeued: 1, next: Some(10) });
        let some = dead.requeue_matching(&which, 1_000, some.next).await.unwrap();
        assert_eq!(
            (some.requeued, some.next.is_some()),
            (2, true),
            "it stops among those of the deleted one"
        );
        let rest = dead.requeue_matching(&which, 1_000, some.next).await.unwrap();
        assert_eq!(rest, RequeuedMany { requeued: 2, next: None });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_requeued_is_in_nobodys_way_who_counts_what_can_be() {
    for stage in Stage::each().await {
        let [gone, open] = [stage.subscribe(&["order.*"], 8).await, stage.subscribe(&["order.*"], 8).await];
        stage.tell("o-1").await;
        // No delivery has such a number.
        let first = 1_000_000;
        let (old, new) = (first..first + ONE_CALL, first + ONE_CALL..first + ONE_CALL + 3);
        letters(&stage, open.id, old.clone(), "timeout").await;
        stage
            .execute(
                "insert into webhook_delivery_sagas
                     (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, requeue_of)
                 select event_id, subscription_id, created_at, created_at, created_at, webhook_id, saga_id
                 from dead_letters",
            )
            .await
            .unwrap();
        letters(&stage, open.id, new.clone(), "timeout").await;
        letters(&stage, gone.id, new.end..new.end + 2, "timeout").await;
        stage.webhooks.subscriptions.delete(gone.id).await.unwrap();
        let dead = &stage.webhooks.dead_letters;
        let left = Which { not_requeued: true, ..Which::default() };
        let page = dead.list(&left, 50, None).await.unwrap();
        assert_eq!((page.items.len(), page.next), (5, None), "found in one look");
        let found = dead.requeueable(&left, 2).await.unwrap();
        assert_eq!((found.count, found.more), (2, true));
        let found = dead.requeueable(&left, 100).await.unwrap();
        assert_eq!((found.count, found.more, found.up_to), (3, false, i64::try_from(new.end - 1).ok()));
        let up_to = Which { up_to: i64::try_from(new.start).ok(), ..left.clone() };
        let some = dead.requeue_matching(&up_to, 100, None).await.unwrap();
        assert_eq!(some, RequeuedMany { requeued: 1, next: None });
        assert_eq!(dead.requeue_matching(&left, 100, None).await.unwrap().requeued, 2);
        assert_eq!(dead.requeueable(&left, 100).await.unwrap().count, 0);
        assert_eq!(dead.list(&Which::default(), 1, None).await.unwrap().items.len(), 1, "all stay");
        stage.execute("delete from dead_letters").await.unwrap();
        let rest = dead.list(&left, 50, None).await.unwrap();
        assert!(rest.items.is_empty(), "what is removed waits no more: {rest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_of_a_status_fill_their_pages_and_those_of_a_subscription_are_looked_for_a_stretch_at_a_time()
 {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await;
        stage.tell("first").await;
        stage.decide().await;
        tell_many(&stage, ONE_CALL).await;
        let rare = Filter { status: Some(Status::InProgress), ..Filter::default() };
        let page = stage.webhooks.deliveries.list(&rare, 50, None).await.unwrap();
        assert_eq!((page.items.len(), page.items[0].status, page.next), (1, Status::InProgress, None));
        let older = stage.webhooks.deliveries.list(&rare, 50, Some(page.items[0].id)).await.unwrap();
        assert_eq!((older.items.len(), older.next), (0, None));
        let of_subscription = Filter { subscription_id: Some(subscription.id), ..rare.clone() };
        let page = stage.webhooks.deliveries.list(&of_subscription, 50, None).await.unwrap();
        assert!(page.items.is_empty() && page.next.is_some());
        let rest = stage.webhooks.deliveries.list(&of_subscription, 50, page.next).await.unwrap();
        assert_eq!((rest.items.len(), rest.next), (1, None));
        for under_way in [rare, of_subscription] {
            let waiting = Filter { status: Some(Status::Pending), ..under_way };
            let page = stage.webhooks.deliveries.list(&waiting, 7, None).await.unwrap();
            let last = page.items.last().unwrap().id;
            assert_eq!((page.items.len(), page.next), (7, Some(last)));
            let next = stage.webhooks.deliveries.list(&waiting, 7, page.next).await.unwrap();
            assert!(next.items.len() == 7 && next.items.iter().all(|saga| saga.id < last), "{next:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_has_requeued_is_counted_behind_any_number_that_somebody_has() {
    for stage in Stage::each().await {
        stage.dead_letter("o-1").await;
        let later = match stage.place {
            Place::Sqlite(_) => "created_at + 1",
            Place::Postgres { .. } => "created_at + interval '1 second'",
        };
        let newer = format!(
            "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 10000)
             insert into dead_letters
                 (saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at)
             select 1000000 + n, event_id, subscription_id, attempt_count, final_error_code, webhook_id, {later}
             from dead_letters, numbers"
        );
        assert_eq!(stage.execute(&newer).await, Ok(10_000));
        let letters = &stage.webhooks.dead_letters;
        assert_eq!(letters.count_unrequeued().await.unwrap(), 10_000, "no further than that");
        let requeued = "insert into webhook_delivery_sagas
                 (event_id, subscription_id, next_attempt_at, created_at, updated_at, webhook_id, requeue_of)
             select event_id, subscription_id, created_at, created_at, created_at, webhook_id, saga_id
             from dead_letters where saga_id > 1000000";
        assert_eq!(stage.execute(requeued).await, Ok(10_000));
        assert_eq!(letters.count_unrequeued().await.unwrap(), 1, "the oldest of all");
    }
}
