//! Sums of money, as both databases keep them.

use backstitch_modules::orders::{Order, Orders, ServiceSetting};
use serde_json::value::RawValue;

use crate::orders::settings::{FORTH, stage};
use crate::orders::stage::{Stage, texts};

/// As they may be written, and as they are kept. A number has the digits that a double has room for, and is refused if it
/// has more; text keeps them all.
const AMOUNTS: [(&str, &str); 8] = [
    ("0", "0"),
    ("10.50", "10.5"),
    ("19.9", "19.9"),
    ("1e2", "100.0"),
    ("12345678901234567890", "12345678901234567890"),
    ("0.1e-6", "1e-7"),
    (r#""12345678901234567890.12""#, "12345678901234567890.12"),
    (r#""010.50""#, "010.50"),
];

async fn confirm(orders: &Orders, amount: &str) {
    let amount = RawValue::from_string(amount.to_owned()).unwrap();
    let order = format!(
        r#"{{"order_id": "o", "customer_id": "c", "items": [{{"sku": "s", "quantity": 1}}], "amount": {amount}}}"#
    );
    let order: Order = serde_json::from_str(&order).unwrap();
    orders.confirm(&order, None).await.unwrap();
}

/// The amounts in the table, as text, in the order of their confirmation.
async fn kept(orders: &Orders) -> Vec<String> {
    texts(orders, "select cast(amount as text) from orders order by tx_id").await
}

#[tokio::test]
async fn an_amount_is_kept_as_it_was_confirmed_on_both_databases() {
    for scene in Stage::each().await {
        stage(&scene.orders, FORTH).await;
        scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
        for (written, _) in AMOUNTS {
            confirm(&scene.orders, written).await;
        }
        assert_eq!(kept(&scene.orders).await, AMOUNTS.map(|(_, kept)| kept));
    }
}
