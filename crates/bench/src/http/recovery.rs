//! The time after a crash until all active orders have ended.

use std::time::{Duration, Instant};

use hyper::Method;

use super::Failure;
use super::client::Client;
use super::figures::Figure;
use super::orders;
use super::program::Program;
use super::services::{SLOW, Services};

pub(super) async fn measure(
    mut server: Program,
    services: &Services,
    orders: usize,
) -> Result<Figure, Failure> {
    let client = Client::new(server.address(), None);
    orders::configure(&client, services).await?;
    let mut transactions = Vec::with_capacity(orders);
    for _ in 0..orders {
        let answer = client.call(Method::POST, "/v1/orders", Some(&orders::order(SLOW))).await?.good()?;
        transactions.push(orders::transaction(&answer.json()?)?);
    }
    server.kill().await?;
    let began = Instant::now();
    server.start_again().await?;
    let client = Client::new(server.address(), None);
    let mut succeeded = 0;
    for tx_id in &transactions {
        let order = orders::at_its_end(&client, tx_id).await?;
        succeeded += usize::from(order["status"] == "succeeded");
    }
    let elapsed = began.elapsed();
    server.end().await?;
    let holds = succeeded == orders && elapsed <= Duration::from_secs(30);
    let measured = format!("{succeeded} of {orders} complete {:.1} s after kill -9", elapsed.as_secs_f64());
    Ok(Figure::limited("SC-005", "active orders continue after a restart", "within 30 s", measured, holds))
}
