//! Settings that are applied while somebody else changes them.

use backstitch::Draft;
use backstitch_modules::orders::{
    DEFINITION, Error, Orders, Rollback, Service, ServiceSetting, ServicesChange, TimeoutSetting, Timeouts,
    TimeoutsChange,
};
use futures::FutureExt;
use serde_json::json;

use crate::orders::stage::{Stage, Step};

/// More often than anybody tries.
const ENDLESSLY: usize = 100;

fn services(order: [&str; 3]) -> ServicesChange {
    let at =
        |name| json!({"url": format!("http://localhost/{name}"), "rollback_url": "http://localhost/undo"});
    let endpoints =
        json!({"payment": at("payment"), "inventory": at("inventory"), "logistics": at("logistics")});
    serde_json::from_value(json!({"order": order, "endpoints": endpoints})).unwrap()
}

pub(crate) const FORTH: [&str; 3] = ["payment", "inventory", "logistics"];
const BACK: [&str; 3] = ["logistics", "inventory", "payment"];

pub(crate) async fn stage(orders: &Orders, order: [&str; 3]) {
    orders.stage_setting::<ServiceSetting>(services(order)).await.unwrap();
}

/// The order of the active services and of the staged ones.
async fn standing(orders: &Orders) -> [Option<Vec<&'static str>>; 2] {
    let standing = orders.setting::<ServiceSetting>().await.unwrap();
    let names = |order: Vec<Service>| order.into_iter().map(Service::name).collect();
    [standing.active, standing.staged].map(|services| services.map(|services| names(services.order)))
}

fn payment_within(seconds: u32) -> TimeoutsChange {
    serde_json::from_value(json!({"payment": format!("{seconds}s")})).unwrap()
}

/// Of the payment.
fn seconds(timeouts: &Timeouts) -> u64 {
    timeouts.of(Service::Payment).as_secs()
}

/// Neither change is lost, and nothing waits.
async fn assert_both_stand(scene: &Stage, step: Step) {
    assert_eq!(standing(&scene.orders).await, [Some(BACK.to_vec()), None], "before {step:?}");
    let timeouts = scene.orders.setting::<TimeoutSetting>().await.unwrap();
    assert_eq!((timeouts.active.as_ref().map(seconds), timeouts.staged), (Some(7), None), "before {step:?}");
}

/// Applied services and timeouts, and a change of each that waits.
async fn stage_both(scene: &Stage) {
    stage(&scene.orders, FORTH).await;
    scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
    stage(&scene.orders, BACK).await;
    scene.orders.stage_setting::<TimeoutSetting>(payment_within(7)).await.unwrap();
}

/// Another node that declares something else.
async fn declare_another(orders: Orders) {
    let newest = orders.engine().draft(DEFINITION, None).await.unwrap().unwrap();
    let another = Draft { title: Some(format!("not {}", newest.version)), ..newest };
    orders.engine().declare(another).await.unwrap();
}

#[tokio::test]
async fn settings_are_applied_whatever_another_node_declares_at_the_same_moment() {
    for scene in Stage::each().await {
        stage(&scene.orders, BACK).await;
        scene.interfere(1, |orders| declare_another(orders).boxed());
        let applied = scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
        assert_eq!(
            applied.version, 3,
            "the first was replaced by the other's, and the other's was left alone"
        );
        assert_eq!(standing(&scene.orders).await, [Some(BACK.to_vec()), None]);
    }
}

#[tokio::test]
async fn a_change_that_is_staged_while_another_is_applied_goes_on_waiting() {
    for scene in Stage::each().await {
        stage(&scene.orders, BACK).await;
        scene.interfere(1, |orders| async move { stage(&orders, FORTH).await }.boxed());
        scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
        assert_eq!(standing(&scene.orders).await, [Some(BACK.to_vec()), Some(FORTH.to_vec())]);
        scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
        assert_eq!(standing(&scene.orders).await, [Some(FORTH.to_vec()), None]);
    }
}

#[tokio::test]
async fn timeouts_that_are_staged_while_others_are_applied_go_on_waiting() {
    for scene in Stage::each().await {
        stage(&scene.orders, FORTH).await;
        scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
        scene.orders.stage_setting::<TimeoutSetting>(payment_within(7)).await.unwrap();
        scene.interfere(1, |orders| {
            async move {
                orders.stage_setting::<TimeoutSetting>(payment_within(9)).await.unwrap();
            }
            .boxed()
        });
        scene.orders.apply_setting::<TimeoutSetting>(None).await.unwrap();
        let standing = scene.orders.setting::<TimeoutSetting>().await.unwrap();
        let both = [standing.active, standing.staged].map(|timeouts| timeouts.as_ref().map(seconds));
        assert_eq!(both, [Some(7), Some(9)]);
        scene.orders.discard_setting::<TimeoutSetting>(None).await.unwrap();
        assert!(scene.orders.setting::<TimeoutSetting>().await.unwrap().staged.is_none());
    }
}

#[tokio::test]
async fn settings_that_another_node_keeps_declaring_over_are_given_up_and_stay_staged() {
    for scene in Stage::each().await {
        stage(&scene.orders, BACK).await;
        scene.interfere(ENDLESSLY, |orders| declare_another(orders).boxed());
        let refused = scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Engine(backstitch::Error::DeclaredAtOnce(name)) if name == DEFINITION),
            "{refused}"
        );
        assert_eq!(standing(&scene.orders).await, [None, Some(BACK.to_vec())]);
    }
}

#[tokio::test]
async fn timeouts_are_applied_over_the_services_that_another_node_applies_at_the_same_moment() {
    for step in [Step::Staging, Step::Applying] {
        for scene in Stage::each().await {
            stage_both(&scene).await;
            scene.interfere_before(step, 1, |orders| {
                async move {
                    Stage::another(&orders).await.apply_setting::<ServiceSetting>(None).await.unwrap();
                }
                .boxed()
            });
            scene.orders.apply_setting::<TimeoutSetting>(None).await.unwrap();
            assert_both_stand(&scene, step).await;
        }
    }
}

#[tokio::test]
async fn services_are_applied_over_the_timeouts_that_another_node_applies_at_the_same_moment() {
    for step in [Step::Staging, Step::Applying] {
        for scene in Stage::each().await {
            stage_both(&scene).await;
            scene.interfere_before(step, 1, |orders| {
                async move {
                    Stage::another(&orders).await.apply_setting::<TimeoutSetting>(None).await.unwrap();
                }
                .boxed()
            });
            scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
            assert_both_stand(&scene, step).await;
        }
    }
}

#[tokio::test]
async fn the_first_services_do_not_replace_those_that_another_node_applies_at_the_same_moment() {
    for step in [Step::Staging, Step::Applying] {
        for scene in Stage::each().await {
            stage(&scene.orders, BACK).await;
            scene.interfere_before(step, 1, |orders| {
                async move {
                    orders.apply_setting::<ServiceSetting>(None).await.unwrap();
                }
                .boxed()
            });
            let (engine, first) = (scene.orders.engine().clone(), services(FORTH).over(None).unwrap());
            let late = Orders::open(engine, Some(first), Timeouts::default(), Rollback::default()).await;
            assert_eq!(standing(&late.unwrap()).await, [Some(BACK.to_vec()), None], "before {step:?}");
        }
    }
}

#[tokio::test]
async fn whoever_means_one_change_applies_or_discards_that_one_or_nothing() {
    for scene in Stage::each().await {
        let orders = &scene.orders;
        let revision = async || orders.setting::<ServiceSetting>().await.unwrap().revision;
        stage(orders, FORTH).await;
        let seen = revision().await;
        stage(orders, BACK).await;
        let now = revision().await;
        assert!(seen.is_some() && now.is_some() && seen != now, "{seen:?} {now:?}");
        let refusals = [
            orders.apply_setting::<ServiceSetting>(seen.as_deref()).await.map(drop).unwrap_err(),
            orders.discard_setting::<ServiceSetting>(seen.as_deref()).await.unwrap_err(),
        ];
        for refused in refusals {
            let told = now.clone().unwrap();
            assert!(
                matches!(&refused, Error::AnotherStaged { kind: "services", revision } if *revision == told),
                "{refused}"
            );
        }
        assert_eq!(standing(orders).await, [None, Some(BACK.to_vec())], "it goes on waiting");
        stage(orders, FORTH).await;
        assert_eq!(revision().await, seen, "the same change is the same");
        orders.apply_setting::<ServiceSetting>(seen.as_deref()).await.unwrap();
        assert_eq!(revision().await, None);
        let nothing = orders.discard_setting::<ServiceSetting>(seen.as_deref()).await.unwrap_err();
        assert!(matches!(nothing, Error::NothingStaged("services")), "{nothing}");

        let staged = orders.stage_setting::<TimeoutSetting>(payment_within(7)).await.unwrap();
        assert_eq!(staged.revision, orders.setting::<TimeoutSetting>().await.unwrap().revision);
        orders.stage_setting::<TimeoutSetting>(payment_within(9)).await.unwrap();
        let refused = orders.discard_setting::<TimeoutSetting>(staged.revision.as_deref()).await.unwrap_err();
        assert!(matches!(refused, Error::AnotherStaged { kind: "timeouts", .. }), "{refused}");
        let now = orders.setting::<TimeoutSetting>().await.unwrap().revision;
        orders.discard_setting::<TimeoutSetting>(now.as_deref()).await.unwrap();
        assert_eq!(orders.setting::<TimeoutSetting>().await.unwrap().staged, None);
    }
}
