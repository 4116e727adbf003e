//! Orders, compared with the limits of seed 001.

use std::time::{Duration, Instant};

use backstitch::clock::{Clock, SystemClock};
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use super::Failure;
use super::client::{Client, Connection};
use super::figures::{Figure, Times, percent, rate};
use super::services::{REFUSED, STUCK, Services};
use super::streams::Stream;

const SERVICES: &str = "/v1/admin/config/services";
/// Orders that fail.
const FAILING: usize = 100;
/// Orders with a rollback that fails.
const UNDOABLE: usize = 3;

pub(super) fn order(customer: &str) -> Value {
    json!({
        "order_id": "bench", "customer_id": customer, "items": [{"sku": "book", "quantity": 1}], "amount": 19.9,
    })
}

/// Configures these services for orders; returns the previous settings.
pub(crate) async fn configure(client: &Client, services: &Services) -> Result<Value, Failure> {
    let before = client.call(Method::GET, SERVICES, None).await?.good()?.json()?;
    let order = ["payment", "inventory", "logistics"];
    apply(client, &json!({"order": order, "endpoints": services.endpoints()})).await?;
    Ok(before["active"].clone())
}

/// Restores the previous settings, if there were any.
pub(super) async fn restore(client: &Client, before: Value) -> Result<(), Failure> {
    if before.is_null() { Ok(()) } else { apply(client, &before).await }
}

async fn apply(client: &Client, change: &Value) -> Result<(), Failure> {
    client.call(Method::PUT, SERVICES, Some(change)).await?.good()?;
    client.call(Method::POST, &format!("{SERVICES}/apply"), None).await?.good()?;
    Ok(())
}

/// The observations of one user.
struct Seen {
    acknowledged: Times,
    told: Times,
    finished: Times,
    failed: u64,
}

impl Seen {
    fn new() -> Result<Self, Failure> {
        Ok(Self { acknowledged: Times::new()?, told: Times::new()?, finished: Times::new()?, failed: 0 })
    }
}

pub(super) async fn measure(client: &Client, users: usize, time: Duration) -> Result<Vec<Figure>, Failure> {
    let began = Instant::now();
    let working: Vec<_> = (0..users).map(|_| tokio::spawn(user(client.clone(), began + time))).collect();
    let mut all = Seen::new()?;
    for user in working {
        let seen = user.await??;
        all.acknowledged.add(&seen.acknowledged)?;
        all.told.add(&seen.told)?;
        all.finished.add(&seen.finished)?;
        all.failed += seen.failed;
    }
    let asked = all.acknowledged.count() + all.failed;
    let (per_second, errors) = (rate(all.finished.count(), began.elapsed()), percent(all.failed, asked));
    let Seen { acknowledged, told, finished, .. } = &all;
    let degraded = acknowledged.millis(0.99) > 500.0 || errors > 0.1 || per_second < 100.0;
    Ok(vec![
        Figure::limited(
            "SC-001",
            "orders are acknowledged",
            "within 200 ms",
            acknowledged.shown(),
            acknowledged.millis(0.99) <= 200.0,
        ),
        Figure::limited(
            "SC-002",
            &format!("{users} users for {} s", time.as_secs()),
            "100/s, p99 500 ms, errors 0.1%",
            format!("{per_second:.0}/s, p99 {:.1} ms, errors {errors:.2}%", acknowledged.millis(0.99)),
            !degraded,
        ),
        Figure::limited(
            "SC-003",
            "an event reaches its reader",
            "within 1 s",
            told.shown(),
            told.millis(0.99) <= 1000.0,
        ),
        Figure::limited(
            "SC-010",
            "an order is worked off",
            "within 3 s",
            finished.shown(),
            finished.millis(0.99) <= 3000.0,
        ),
    ])
}

/// Confirms an order, follows it to its end, and confirms the next.
async fn user(client: Client, until: Instant) -> Result<Seen, Failure> {
    let mut connection = client.connect().await?;
    let mut seen = Seen::new()?;
    let body = Bytes::from(order("bench").to_string());
    while Instant::now() < until {
        if one_order(&mut connection, &body, &mut seen).await.is_err() {
            seen.failed += 1;
            connection = client.connect().await?;
        }
    }
    Ok(seen)
}

async fn one_order(connection: &mut Connection, body: &Bytes, seen: &mut Seen) -> Result<(), Failure> {
    let began = Instant::now();
    let answer = connection.call(Method::POST, "/v1/orders", body.clone()).await?.good()?;
    seen.acknowledged.record(began.elapsed());
    let tx_id = transaction(&answer.json()?)?;
    let asked = SystemClock.now();
    let mut stream = Stream::open(connection, &format!("/v1/orders/{tx_id}/events")).await?;
    let mut last = String::new();
    while let Some(event) = stream.next().await? {
        seen.told.record(event.age(asked));
        if event.is_last() {
            seen.finished.record(began.elapsed());
        }
        last = event.r#type;
    }
    if last == "saga.succeeded" { Ok(()) } else { Err(format!("an order ended with {last}").into()) }
}

pub(super) fn transaction(answer: &Value) -> Result<String, Failure> {
    Ok(answer["tx_id"].as_str().ok_or("an order has no transaction")?.to_owned())
}

/// Confirms orders of this customer and waits for their ends.
async fn ended(client: &Client, customer: &str, count: usize) -> Result<Vec<Value>, Failure> {
    let mut transactions = Vec::with_capacity(count);
    for _ in 0..count {
        let answer = client.call(Method::POST, "/v1/orders", Some(&order(customer))).await?.good()?;
        transactions.push(transaction(&answer.json()?)?);
    }
    let mut orders = Vec::with_capacity(count);
    for tx_id in transactions {
        orders.push(at_its_end(client, &tx_id).await?);
    }
    Ok(orders)
}

/// Waits for the end of an order.
pub(super) async fn at_its_end(client: &Client, tx_id: &str) -> Result<Value, Failure> {
    loop {
        let path = format!("/v1/orders/{tx_id}?wait=60");
        let order = client.call(Method::GET, &path, None).await?.good()?.json()?;
        if matches!(order["status"].as_str(), Some("succeeded" | "compensated" | "failed")) {
            return Ok(order);
        }
    }
}

async fn log(client: &Client, tx_id: &str) -> Result<Vec<String>, Failure> {
    let log = client.call(Method::GET, &format!("/v1/orders/{tx_id}/log"), None).await?.good()?.json()?;
    let entry = |entry: &Value| {
        format!(
            "{} {}",
            entry["status"].as_str().unwrap_or("?"),
            entry["service"].as_str().unwrap_or("order")
        )
    };
    Ok(log["items"].as_array().into_iter().flatten().map(entry).collect())
}

/// Failing orders, and orders with a failing rollback.
pub(super) async fn rolled_back(client: &Client) -> Result<Vec<Figure>, Failure> {
    let refused = ended(client, REFUSED, FAILING).await?;
    let compensated = refused.iter().filter(|order| order["status"] == "compensated").count();
    let whole = ["U payment", "S payment", "U inventory", "F inventory", "R payment", "D order"];
    let mut complete = 0;
    for order in &refused {
        complete += usize::from(log(client, &transaction(order)?).await? == whole);
    }
    let stuck = ended(client, STUCK, UNDOABLE).await?;
    let mut latest = Duration::ZERO;
    for order in &stuck {
        latest = latest.max(told_after(client, &transaction(order)?).await?);
    }
    Ok(vec![
        Figure::limited(
            "SC-004",
            "failed orders are rolled back by themselves",
            "100%",
            format!("{compensated} of {FAILING}"),
            compensated == FAILING,
        ),
        Figure::limited(
            "SC-007",
            "failed orders with a complete log",
            "100%",
            format!("{complete} of {FAILING}"),
            complete == FAILING,
        ),
        Figure::limited(
            "SC-006",
            "an alert reports a failed rollback",
            "within 1 min",
            format!("{:.2} s at most, of {UNDOABLE}", latest.as_secs_f64()),
            latest <= Duration::from_secs(60),
        ),
    ])
}

/// The time from a failed rollback to its alert.
async fn told_after(client: &Client, tx_id: &str) -> Result<Duration, Failure> {
    let began = Instant::now();
    loop {
        let page = client.call(Method::GET, "/v1/admin/alerts", None).await?.good()?.json()?;
        let alerts = page["items"].as_array().cloned().unwrap_or_default();
        let alert = alerts.iter().find(|alert| alert["tx_id"] == *tx_id);
        if let Some((told, at)) =
            alert.and_then(|alert| Some((time(&alert["notified_at"])?, time(&alert["occurred_at"])?)))
        {
            return Ok(Duration::from_micros(u64::try_from(told - at).unwrap_or(0)));
        }
        if began.elapsed() > Duration::from_secs(120) {
            return Err("no alert about a failed rollback".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn time(value: &Value) -> Option<i64> {
    value.as_str()?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond)
}

/// Changes the order of the services while orders run.
pub(super) async fn changed_without_restart(client: &Client, services: &Services) -> Result<Figure, Failure> {
    let load = tokio::spawn(user(client.clone(), Instant::now() + Duration::from_secs(2)));
    let order = ["inventory", "payment", "logistics"];
    apply(client, &json!({"order": order, "endpoints": services.endpoints()})).await?;
    let after = ended(client, "bench", 1).await?;
    let first = log(client, &transaction(&after[0])?).await?.first().cloned().unwrap_or_default();
    let failed = load.await??.failed;
    let holds = first == "U inventory" && failed == 0;
    let measured = format!("the next order begins with {first}; {failed} orders failed meanwhile");
    Ok(Figure::limited("SC-008", "a change is applied under load", "no restart", measured, holds))
}
