//! What is over goes by age; what is live stays.

use std::time::Duration;

use backstitch_modules::webhooks::{Ages, Error, Pruned};

use crate::stage::{Stage, order_created};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn ages(completed: u32, dead_lettered: u32, events: u32) -> Ages {
    Ages { completed: DAY * completed, dead_lettered: DAY * dead_lettered, events: DAY * events }
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
        let retention = &stage.webhooks.retention;
        stage.advance(DAY).await;
        assert_eq!(retention.prune(&ages(1, 2, 1)).await.unwrap(), Pruned::default(), "not old enough");
        stage.advance(Duration::from_secs(1)).await;
        let pruned = retention.prune(&ages(1, 2, 1)).await.unwrap();
        let expected = Pruned { deliveries: 449, jobs: 449, attempts: 449, events: 449, dead_letters: 0 };
        assert_eq!(pruned, expected);
        assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 2);
        assert_eq!(stage.number("select count(*) from webhook_events").await, 2);
        assert_eq!(stage.number("select count(*) from jobs").await, 2);
        stage.webhooks.dead_letters.get(dead.id).await.unwrap();

        let pruned = retention.prune(&ages(1, 1, 1)).await.unwrap();
        assert_eq!(pruned, Pruned { deliveries: 1, jobs: 1, attempts: 1, events: 1, dead_letters: 1 });
        assert!(matches!(stage.webhooks.dead_letters.get(dead.id).await, Err(Error::UnknownDeadLetter(_))));
        // The live one goes on as if nothing had been.
        stage.advance(DAY * 365).await;
        assert_eq!(retention.prune(&ages(1, 1, 1)).await.unwrap(), Pruned::default());
        stage.arrived(&all[0]).await;
        assert_eq!(stage.decide().await.completed, 1);
    }
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
        assert_eq!(stage.webhooks.retention.prune(&ages(1, 9, 1)).await.unwrap(), Pruned::default());
        let again = letters.requeue(dead.id).await.unwrap();
        assert!(again.repeated && again.delivery == requeued.delivery);
        stage.webhooks.retention.prune(&ages(1, 1, 1)).await.unwrap();
        stage.webhooks.retention.prune(&ages(1, 1, 1)).await.unwrap();
        assert_eq!(stage.number("select count(*) from webhook_delivery_sagas").await, 0);
        assert_eq!(stage.number("select count(*) from webhook_events").await, 0);
    }
}
