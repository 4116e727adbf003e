//! User story 1: an order is acknowledged at once, and its progress is pushed.

use backstitch_demo::services::Service;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::acceptance_seed_001::shop::{Shop, order, text, told};
use crate::acceptance_seed_001::stage::on_both_stores;
use crate::support::{Client, EventStream, create_key, within};

const ALL_HANG: [&str; 3] = ["hang:payment", "hang:inventory", "hang:logistics"];

#[tokio::test]
async fn us1_1_fr_001_fr_002_confirmation_returns_its_id_at_once() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let mut orders = Vec::new();
        for _ in 0..3 {
            let answer = shop.client.post("/v1/orders", &order(&["hang:payment"])).await;
            let confirmed = answer.json();
            assert_eq!((answer.status, &confirmed["status"]), (202, &json!("processing")));
            let tx = text(&confirmed["tx_id"]);
            assert_eq!((tx.len(), tx.matches('-').count()), (36, 4), "a UUID: {tx}");
            assert_eq!(answer.headers["location"], format!("/v1/orders/{tx}"));
            assert!(!orders.contains(&tx), "a transaction of its own");
            orders.push(tx);
        }
        for tx in &orders {
            let call = stage.asked_to_do(tx, Service::Payment).await;
            assert_eq!(call.answered, None, "the customer has had the answer all the while");
            assert_eq!(shop.outcome(tx).await, "processing");
        }
        stage.services.release();
        for tx in &orders {
            shop.ends(tx, "complete").await;
        }
    })
    .await;
}

#[tokio::test]
async fn us1_2_us1_4_fr_005_each_step_is_pushed_as_it_completes() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.confirm(&ALL_HANG).await;
        let mut stream = shop.follow(&tx, None).await;
        for (service, message) in [
            (Service::Payment, "Payment processed"),
            (Service::Inventory, "Inventory reserved"),
            (Service::Logistics, "Shipping scheduled"),
        ] {
            stage.asked_to_do(&tx, service).await;
            stage.services.release();
            // The next service hangs, so the events arrive while the order is active.
            assert_eq!(told(&mut stream, "step.succeeded", Some(service.name())).await, message);
        }
        assert_eq!(told(&mut stream, "saga.succeeded", None).await, "Order Complete");
        assert!(stream.next().await.is_none(), "the stream ends with the order");
    })
    .await;
}

#[tokio::test]
async fn us1_3_fr_007_complete_order_shows_success_everywhere() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.run(&[], "complete").await;
        assert_eq!(
            shop.messages(&tx).await,
            [
                "Order accepted",
                "Processing payment",
                "Payment processed",
                "Reserving inventory",
                "Inventory reserved",
                "Scheduling shipping",
                "Shipping scheduled",
                "Order Complete",
            ]
        );
        let order = shop.order(&tx).await;
        assert_eq!((&order["status"], &order["tx_id"]), (&json!("succeeded"), &json!(tx)));
        let states: Vec<_> = order["steps"].as_array().unwrap().iter().map(|step| &step["status"]).collect();
        assert_eq!(states, ["succeeded"; 3]);
        let log = ["U payment", "S payment", "U inventory", "S inventory", "U logistics", "S logistics"];
        assert_eq!(shop.log(&tx).await, log);
        assert_eq!(stage.in_effect(&tx), ["payment", "inventory", "logistics"]);
    })
    .await;
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn open_socket(shop: &Shop, path: &str) -> Socket {
    let address = format!("ws://{}{path}", shop.client.address);
    let (socket, _) = within(tokio_tungstenite::connect_async(address)).await.unwrap();
    socket
}

/// The next event; `None` at the end.
async fn next_of(socket: &mut Socket) -> Option<Value> {
    while let Some(Ok(message)) = within(socket.next()).await {
        if let Message::Text(text) = message {
            return Some(serde_json::from_str(&text).unwrap());
        }
    }
    None
}

async fn rest_of(mut socket: Socket) -> Vec<Value> {
    let mut told = Vec::new();
    while let Some(event) = next_of(&mut socket).await {
        told.push(event);
    }
    told
}

#[tokio::test]
async fn us1_4_websocket_and_event_stream_send_the_same() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.confirm(&["hang:inventory"]).await;
        stage.asked_to_do(&tx, Service::Inventory).await;
        let path = format!("/v1/orders/{tx}/ws");
        let mut socket = open_socket(&shop, &path).await;
        // The socket is open while the service hangs: what comes after the release is pushed.
        let mut told: Vec<Value> = next_of(&mut socket).await.into_iter().collect();
        assert_eq!(told[0]["message"], "Order accepted");
        assert_eq!(shop.outcome(&tx).await, "processing");
        stage.services.release();
        told.extend(rest_of(socket).await);
        let sent = shop.follow(&tx, None).await.rest().await;
        assert_eq!(told, sent.iter().map(|event| event.data.clone()).collect::<Vec<_>>());
        assert_eq!(told.last().unwrap()["message"], "Order Complete");
        let missed = rest_of(open_socket(&shop, &format!("{path}?after=3")).await).await;
        assert_eq!(missed, told[3..]);
    })
    .await;
}

#[tokio::test]
async fn us1_4_browser_follows_an_order_with_its_token() {
    on_both_stores(async |stage| {
        let key = create_key(&stage.db(), "client").await;
        let shop = stage.open().await;
        let confirmed = shop.client.with_key(&key).post("/v1/orders", &order(&[])).await.json();
        let (tx, token) = (text(&confirmed["tx_id"]), text(&confirmed["stream_token"]));
        let path = format!("/v1/orders/{tx}/events");
        // The browser has no key.
        let browser: &Client = &shop.client;
        let stream = EventStream::open(browser, &format!("{path}?token={token}"), None).await;
        assert_eq!(stream.rest().await.last().unwrap().data["message"], "Order Complete");
        assert_eq!(browser.get(&path).await.status, 401);
        assert_eq!(browser.post("/v1/orders", &order(&[])).await.status, 401);
    })
    .await;
}

#[tokio::test]
async fn assumption_on_sessions_keyless_server_warns_and_takes_orders() {
    on_both_stores(async |stage| {
        let mut shop = stage.open().await;
        assert!(shop.program.next_line().await.starts_with("warning: no API keys configured"));
        shop.run(&[], "complete").await;
    })
    .await;
}

#[tokio::test]
async fn fr_003_fr_004_services_are_called_in_the_default_order() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.confirm(&ALL_HANG).await;
        let mut expected = Vec::new();
        for service in [Service::Payment, Service::Inventory, Service::Logistics] {
            stage.asked_to_do(&tx, service).await;
            let before = stage.calls(&tx);
            let earlier = &before[..before.len() - 1];
            assert!(earlier.iter().all(|call| call.answered == Some(200)), "all have answered: {earlier:?}");
            expected.push(format!("do {}", service.name()));
            assert_eq!(stage.called_so_far(&tx), expected);
            stage.services.release();
        }
        shop.ends(&tx, "complete").await;
        assert_eq!(stage.called_so_far(&tx), expected);
    })
    .await;
}
