//! Settings that are applied while somebody else changes them.

use backstitch::{Draft, Timestamp};
use backstitch_modules::orders::{DEFINITION, Error, Orders, Service, ServicesChange};
use futures::FutureExt;
use serde_json::json;

use crate::stage::Stage;

/// More often than anybody tries.
const ENDLESSLY: usize = 100;

fn services(order: [&str; 3]) -> ServicesChange {
    let at =
        |name| json!({"url": format!("http://localhost/{name}"), "rollback_url": "http://localhost/undo"});
    let endpoints =
        json!({"payment": at("payment"), "inventory": at("inventory"), "logistics": at("logistics")});
    serde_json::from_value(json!({"order": order, "endpoints": endpoints})).unwrap()
}

const BACK: [&str; 3] = ["logistics", "inventory", "payment"];

async fn stage(orders: &Orders, order: [&str; 3]) {
    orders.stage_services(services(order), Timestamp::default()).await.unwrap();
}

/// The order of the active services and of the staged ones.
async fn standing(orders: &Orders) -> [Option<Vec<&'static str>>; 2] {
    let standing = orders.services().await.unwrap();
    let names = |order: Vec<Service>| order.into_iter().map(Service::name).collect();
    [standing.active, standing.staged].map(|services| services.map(|services| names(services.order)))
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
        let applied = scene.orders.apply_services().await.unwrap();
        assert_eq!(
            applied.version, 3,
            "the first was replaced by the other's, and the other's was left alone"
        );
        assert_eq!(standing(&scene.orders).await, [Some(BACK.to_vec()), None]);
    }
}

#[tokio::test]
async fn settings_that_another_node_keeps_declaring_over_are_given_up_and_stay_staged() {
    for scene in Stage::each().await {
        stage(&scene.orders, BACK).await;
        scene.interfere(ENDLESSLY, |orders| declare_another(orders).boxed());
        let refused = scene.orders.apply_services().await.unwrap_err();
        assert!(
            matches!(&refused, Error::Engine(backstitch::Error::DeclaredAtOnce(name)) if name == DEFINITION),
            "{refused}"
        );
        assert_eq!(standing(&scene.orders).await, [None, Some(BACK.to_vec())]);
    }
}
