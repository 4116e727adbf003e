//! An order goes with its saga.

use std::time::Duration;

use backstitch::Status;
use backstitch_modules::orders::{Order, ServiceSetting};
use serde_json::json;

use crate::orders::settings::{FORTH, stage};
use crate::orders::stage::{Stage, texts};

#[tokio::test]
async fn an_order_goes_with_its_saga_and_no_other_does() {
    for scene in Stage::each().await {
        stage(&scene.orders, FORTH).await;
        scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
        let mut sagas = Vec::new();
        for id in ["first", "second"] {
            let order = json!({
                "order_id": id, "customer_id": "c", "items": [{"sku": "s", "quantity": 1}], "amount": 1
            });
            let order: Order = serde_json::from_value(order).unwrap();
            let ended = scene.orders.confirm(&order, None).await.unwrap().outcome().await.unwrap();
            assert_eq!(ended.status, Status::Succeeded);
            sagas.push(ended.id);
        }
        let store = scene.orders.engine().store();
        let remove = || store.remove_sagas(&sagas[..1], Status::Succeeded, Duration::ZERO);
        while remove().await.unwrap().sagas == 0 {
            tokio::task::yield_now().await;
        }
        let left = texts(&scene.orders, "select order_id from orders order by order_id").await;
        assert_eq!(left, ["second"]);
    }
}
