//! The view `transaction_log`, whatever services say.

use std::sync::Arc;

use async_trait::async_trait;
use backstitch::store::product::Database;
use backstitch::{Attempt, Caller, Payload, StepError};
use backstitch_modules::orders::{Order, Orders, ServiceSetting};
use serde_json::json;

use crate::orders::settings::{FORTH, stage};
use crate::orders::stage::Stage;

/// Looks like the escape of a NUL character, but says that there is a backslash.
const WHY: &str = r"no lorry for C:\u0000";

/// Services whose words contain what `PostgreSQL` cannot show; the last one refuses.
struct Strange;

#[async_trait]
impl Caller for Strange {
    async fn call(&self, _: &Payload, attempt: &Attempt<'_>) -> Result<Payload, StepError> {
        if attempt.step().as_str() == "logistics" {
            return Err(StepError::refused(WHY).with_code("\0\0NO\\\0LORRY"));
        }
        Ok(Payload::parse(r#"{"receipt":"a\u0000b"}"#).unwrap())
    }
}

/// Service, status and error of every entry there is.
async fn view(orders: &Orders) -> Vec<[Option<String>; 3]> {
    let sql = "select service, status, error from transaction_log order by tx_id, seq";
    match orders.engine().database() {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare(sql)?;
                let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
                rows.collect()
            };
            file.read_product(read).await.unwrap()
        }
        Database::Postgres(server) => {
            let rows = server.read_product(sql, &[]).await.unwrap();
            rows.iter().map(|row| [row.get(0), row.get(1), row.get(2)]).collect()
        }
    }
}

#[tokio::test]
async fn the_view_can_be_read_whatever_characters_services_answer_with() {
    for scene in Stage::each_calling(Arc::new(Strange)).await {
        stage(&scene.orders, FORTH).await;
        scene.orders.apply_setting::<ServiceSetting>(None).await.unwrap();
        let order = json!({
            "order_id": "o", "customer_id": "c", "items": [{"sku": "s", "quantity": 1}], "amount": 1
        });
        let order: Order = serde_json::from_value(order).unwrap();
        scene.orders.confirm(&order, None).await.unwrap().outcome().await.unwrap();
        let entry = |service: &str, status: &str, error: Option<&str>| {
            let service = Some(service).filter(|service| !service.is_empty());
            [service, Some(status), error].map(|text| text.map(str::to_owned))
        };
        let entries = [
            entry("payment", "U", None),
            entry("payment", "S", None),
            entry("inventory", "U", None),
            entry("inventory", "S", None),
            entry("logistics", "U", None),
            entry("logistics", "F", Some(WHY)),
            entry("inventory", "R", None),
            entry("payment", "R", None),
            entry("", "D", None),
        ];
        assert_eq!(view(&scene.orders).await, entries);
    }
}
