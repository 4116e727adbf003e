//! Three-step sagas over HTTP: started over HTTP, each step an HTTP call.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use serde_json::json;

use super::Failure;
use super::client::Client;
use super::figures::{Figure, Times, rate};
use super::program::Program;
use super::services::Services;

const NAME: &str = "bench-three-steps";

pub(super) async fn declare(client: &Client, services: &Services) -> Result<(), Failure> {
    let step = |id: &str| {
        json!({
            "id": id,
            "action": {"http": {"method": "POST", "url": services.url("/step/do")}},
            "compensate": {"http": {"method": "POST", "url": services.url("/step/undo")}},
        })
    };
    let definition = json!({"name": NAME, "steps": [step("one"), step("two"), step("three")]});
    let path = format!("/v1/definitions/{NAME}?apply=true");
    client.call(Method::PUT, &path, Some(&definition)).await?.good()?;
    Ok(())
}

pub(super) async fn measure(
    client: &Client,
    users: usize,
    time: Duration,
    server: Option<&Program>,
) -> Result<Figure, Failure> {
    let began = Instant::now();
    let working: Vec<_> = (0..users).map(|_| tokio::spawn(user(client.clone(), began + time))).collect();
    let mut times = Times::new()?;
    for user in working {
        times.add(&user.await??)?;
    }
    let per_second = rate(times.count(), began.elapsed());
    let peak =
        server.and_then(Program::peak_mb).map(|peak| format!(", peak {peak:.0} MB")).unwrap_or_default();
    let measured = format!("{per_second:.0}/s, {}{peak}", times.shown());
    Ok(Figure::plain("sagas", format!("three HTTP steps, started over HTTP, {users} users"), measured))
}

/// Starts a saga, waits for its end, and starts the next.
async fn user(client: Client, until: Instant) -> Result<Times, Failure> {
    let mut connection = client.connect().await?;
    let mut times = Times::new()?;
    let body = Bytes::from(json!({"definition": NAME, "input": {"amount": 42}}).to_string());
    while Instant::now() < until {
        let began = Instant::now();
        let answer = connection.call(Method::POST, "/v1/sagas?wait=30", body.clone()).await?;
        if answer.status != 200 {
            return Err(format!("a saga did not end: {}", String::from_utf8_lossy(&answer.body)).into());
        }
        times.record(began.elapsed());
    }
    Ok(times)
}
