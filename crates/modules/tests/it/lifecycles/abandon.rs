//! Sites that end while they wait for GitHub: abandoned by an operator, or because their pause expires.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstitch_modules::lifecycles::sites::{AWAITING_GITHUB, Endpoints, PATH};
use backstitch_modules::lifecycles::{
    AbandonReason, Ages, Error, Event, Failure, Filter, Given, Refused, Wish,
};
use backstitch_testkit::shelf::Shelf;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::lifecycles::retention::removing;
use crate::lifecycles::stage::{SITES, Stage, drive, refusal};

/// Sites that are driven from outside and wait for GitHub no longer than this.
async fn provide_expiring_sites(stage: &Stage, pause: Duration) {
    let endpoints = Endpoints { pause_expires: Some(pause), ..Endpoints::default() };
    stage.lifecycles.provide_sites(&endpoints).await.unwrap();
}

/// Starts sites that wait for GitHub.
async fn paused(stage: &Stage, keys: &[&str]) {
    for key in keys {
        stage.start(key).await;
        stage.go(key, &[PATH[1], AWAITING_GITHUB]).await;
    }
}

async fn until_abandoned(stage: &Stage, key: &str) {
    let began = Instant::now();
    while began.elapsed() < backstitch_testkit::PATIENCE {
        if stage.get(key).await.instance.abandoned {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{key} is not abandoned: {:?}", stage.log(key).await.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_site_ends_in_its_pause_state() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        paused(&stage, &["s"]).await;
        let moved = stage.lifecycles.abandon(SITES, "s", "ada: the owner left").await.unwrap();
        assert_eq!(moved.from.as_deref(), Some(AWAITING_GITHUB));
        let standing = stage.get("s").await;
        assert_eq!(standing, moved.standing, "the row is what was answered");
        assert!(standing.ended && standing.instance.abandoned);
        assert_eq!(&*standing.instance.state, AWAITING_GITHUB);
        let last = stage.log("s").await.pop().unwrap();
        let reason = AbandonReason::Requested { note: "ada: the owner left".to_owned() };
        assert_eq!(last.event, Event::Abandoned { state: AWAITING_GITHUB.into(), attempt: 1, reason });
        stage.audit(SITES, "s").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_an_abandoned_site() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        paused(&stage, &["s"]).await;
        stage.lifecycles.abandon(SITES, "s", "left").await.unwrap();
        let before = (stage.get("s").await, stage.log("s").await);
        let failure = Failure { kind: "internal".to_owned(), message: String::new() };
        for refused in [
            refusal(stage.lifecycles.start(SITES, "s", Given::default()).await),
            refusal(stage.lifecycles.transition(SITES, "s", PATH[1], None).await),
            refusal(stage.lifecycles.fail(SITES, "s", failure).await),
            refusal(stage.lifecycles.abandon(SITES, "s", "again").await),
        ] {
            assert_eq!(refused, Refused::Abandoned { state: AWAITING_GITHUB.into() });
        }
        for change in ["state = 'requested'", "abandoned = false", "attempt = 7", "token = 9"] {
            let refused = stage.execute(&format!("update lifecycles set {change}")).await.unwrap_err();
            assert!(refused.contains("at its end"), "{change}: {refused}");
        }
        assert_eq!((stage.get("s").await, stage.log("s").await), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_takes_no_abandoned_row_that_is_due() {
    for stage in Stage::each().await {
        provide_expiring_sites(&stage, Duration::from_secs(3600)).await;
        paused(&stage, &["s"]).await;
        let refused = stage.execute("update lifecycles set abandoned = true").await.unwrap_err();
        assert!(refused.to_lowercase().contains("check"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_paused_site_can_be_abandoned_and_with_a_note() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        let refused = refusal(stage.lifecycles.abandon(SITES, "s", "left").await);
        assert_eq!(refused, Refused::NotPaused { state: PATH[0].into() });
        let unknown = stage.lifecycles.abandon(SITES, "nothing", "left").await;
        assert!(matches!(unknown, Err(Error::UnknownKey { .. })), "{unknown:?}");
        for note in ["", "  "] {
            let refused = stage.lifecycles.abandon(SITES, "s", note).await;
            assert!(matches!(refused, Err(Error::Invalid { field: "note", .. })), "{note:?}: {refused:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_site_is_published_once() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        paused(&stage, &["s"]).await;
        stage.lifecycles.abandon(SITES, "s", "left").await.unwrap();
        stage.lifecycles.abandon(SITES, "s", "left").await.unwrap_err();
        let topics = stage.texts("select topic from outbox order by id").await;
        let expected = ["source_resolving", AWAITING_GITHUB, "abandoned"]
            .map(|last| format!("sites.provisioning.{last}"));
        assert_eq!(topics, expected);
        let told = stage.texts("select payload from outbox order by id").await.pop().unwrap();
        let mut told: Value = serde_json::from_str(&told).unwrap();
        assert!(told.as_object_mut().unwrap().remove("at").unwrap().is_string());
        let expected = json!({
            "type": "SiteProvisionAbandoned", "machine": SITES, "key": "s", "site_id": "s", "state": AWAITING_GITHUB,
            "attempt": 1, "correlation_id": null, "reason": "requested", "seq": 4
        });
        assert_eq!(told, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_start_and_an_abandonment_one_wins() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        let keys: Vec<String> = (0..50).map(|number| format!("s{number}")).collect();
        paused(&stage, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let mut asking = JoinSet::new();
        for key in keys.clone() {
            let (starter, abandoner) = (stage.lifecycles.clone(), stage.lifecycles.clone());
            asking.spawn(async move {
                tokio::join!(
                    starter.start(SITES, &key, Given::default()),
                    abandoner.abandon(SITES, &key, "left")
                )
            });
        }
        for (started, abandoned) in asking.join_all().await {
            match (started, abandoned) {
                (Ok(_), refused @ Err(_)) => {
                    assert_eq!(refusal(refused), Refused::NotPaused { state: PATH[1].into() });
                }
                (refused @ Err(_), Ok(_)) => {
                    assert_eq!(refusal(refused), Refused::Abandoned { state: AWAITING_GITHUB.into() });
                }
                both => panic!("{both:?}"),
            }
        }
        for key in keys {
            stage.audit(SITES, &key).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandonment_of_an_older_page_is_refused() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        paused(&stage, &["s"]).await;
        let seen = stage.get("s").await.instance.seq;
        stage.start("s").await;
        stage.go("s", &[AWAITING_GITHUB]).await;
        let wish = Wish::Abandon { note: "left".to_owned() };
        let stale = stage.lifecycles.if_still_at(SITES, "s", seen, wish.clone()).await;
        assert!(matches!(stale, Err(Error::MovedOn { .. })), "{stale:?}");
        let seen = stage.get("s").await.instance.seq;
        assert!(stage.lifecycles.if_still_at(SITES, "s", seen, wish).await.unwrap().standing.ended);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_expires_abandons_its_site() {
    for stage in Stage::each().await {
        provide_expiring_sites(&stage, Duration::from_millis(20)).await;
        paused(&stage, &["s"]).await;
        let driving = stage.drive();
        until_abandoned(&stage, "s").await;
        let last = stage.log("s").await.pop().unwrap();
        assert!(matches!(last.event, Event::Abandoned { reason: AbandonReason::Expired, .. }), "{last:?}");
        assert_eq!(stage.get("s").await.holder(), None);
        stage.audit(SITES, "s").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_expires_after_a_restart_and_no_earlier() {
    for stage in Stage::each().await {
        provide_expiring_sites(&stage, Duration::from_secs(3600)).await;
        paused(&stage, &["later"]).await;
        provide_expiring_sites(&stage, Duration::from_millis(20)).await;
        paused(&stage, &["now"]).await;
        let stage = stage.crash().await;
        let driving = stage.drive();
        until_abandoned(&stage, "now").await;
        assert!(!stage.get("later").await.ended, "it keeps the version it was started with");
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_abandon_an_expired_pause_once() {
    let stage = Stage::postgres().await;
    provide_expiring_sites(&stage, Duration::from_millis(20)).await;
    let (other_engine, other) = stage.another().await;
    let keys: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    paused(&stage, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let driving = [stage.drive(), drive(&other)];
    for key in &keys {
        until_abandoned(&stage, key).await;
        stage.audit(SITES, key).await;
    }
    for driving in driving {
        driving.stop().await;
    }
    drop(other);
    other_engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_sites_are_counted_apart_from_those_under_way() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        paused(&stage, &["left", "waits"]).await;
        stage.lifecycles.abandon(SITES, "left", "left").await.unwrap();
        let abandoned = stage.lifecycles.abandoned_up_to(SITES, 10).await.unwrap();
        let [count] = &abandoned[..] else { panic!("{abandoned:?}") };
        assert_eq!((&*count.state, count.count), (AWAITING_GITHUB, 1));
        assert_eq!(stage.lifecycles.machines.versions(SITES, 10).await.unwrap()[0].in_flight, 1);
        let filter = Filter { state: Some(AWAITING_GITHUB.to_owned()), correlation_id: None };
        let page = stage.lifecycles.list(SITES, &filter, None, 10).await.unwrap();
        let ended: Vec<bool> = page.items.iter().map(|standing| standing.ended).collect();
        assert_eq!(ended, [false, true], "newest first");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_removes_abandoned_sites_and_no_waiting_ones() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        paused(&stage, &["left", "waits"]).await;
        let left = stage.lifecycles.abandon(SITES, "left", "left").await.unwrap().standing.id;
        let shelf = Arc::new(Shelf::default());
        let ages = Ages { ended: Some(Duration::from_millis(20)), dead_letters: None };
        let (engine, lifecycles, _place) = removing(stage, ages, &shelf).await;
        let began = Instant::now();
        while lifecycles.get(SITES, "left").await.is_ok() {
            assert!(began.elapsed() < backstitch_testkit::PATIENCE, "it is still there");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(lifecycles.log(left, 0, 100).await.unwrap(), []);
        assert!(!lifecycles.get(SITES, "waits").await.unwrap().ended);
        let lines = shelf.of_kind("lifecycle");
        assert_eq!((lines.len(), &lines[0]["abandoned"]), (1, &json!(true)));
        let again = lifecycles.start(SITES, "left", Given::default()).await.unwrap();
        assert_eq!((again.from, again.standing.instance.attempt), (None, 1));
        drop(lifecycles);
        engine.shutdown().await.unwrap();
    }
}
