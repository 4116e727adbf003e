//! Two nodes, restarted in turn under load.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;

use super::super::target::Target;
use super::Failure;
use super::client::{Client, Connection};
use super::figures::{Figure, percent};
use super::orders;
use super::program::Node;
use super::services::Services;

/// The nodes' addresses; none for a stopped node.
type Places = Arc<RwLock<[Option<std::net::SocketAddr>; 2]>>;

pub(super) async fn measure(
    store: &str,
    services: &Services,
    users: usize,
    time: Duration,
) -> Result<Figure, Failure> {
    let target = Target::make(store).await?;
    let db = target.address().ok_or("two nodes need a server: use postgres://…")?;
    let mut nodes = [Some(Node::start(&db).await?), Some(Node::start(&db).await?)];
    let places: Places = Arc::default();
    for (number, node) in nodes.iter().enumerate() {
        put(&places, number, node.as_ref().map(Node::address));
    }
    let first = nodes[0].as_ref().ok_or("a node is gone")?.address();
    orders::configure(&Client::new(first, None), services).await?;
    let until = Instant::now() + time;
    let working: Vec<_> =
        (0..users).map(|number| tokio::spawn(user(places.clone(), number, until))).collect();
    for (number, place) in nodes.iter_mut().enumerate() {
        tokio::time::sleep(time / 4).await;
        // Like a load balancer: a stopping node gets no new requests.
        put(&places, number, None);
        if let Some(node) = place.take() {
            node.end().await?;
        }
        let node = Node::start(&db).await?;
        put(&places, number, Some(node.address()));
        *place = Some(node);
    }
    let (mut asked, mut failed) = (0, 0);
    for user in working {
        let (of_this_one, failures) = user.await??;
        asked += of_this_one;
        failed += failures;
    }
    for node in nodes.into_iter().flatten() {
        node.end().await?;
    }
    target.remove().await?;
    let errors = percent(failed, asked);
    let measured = format!("{failed} of {asked} orders failed ({errors:.3}%)");
    Ok(Figure::limited(
        "SC-009",
        "both nodes are restarted under load",
        "errors 0.1%",
        measured,
        errors <= 0.1,
    ))
}

fn put(places: &Places, number: usize, place: Option<std::net::SocketAddr>) {
    places.write().unwrap_or_else(PoisonError::into_inner)[number] = place;
}

/// Confirms orders on a running node, and follows them on any.
async fn user(places: Places, number: usize, until: Instant) -> Result<(u64, u64), Failure> {
    let (mut asked, mut failed) = (0, 0);
    let mut connection: Option<(std::net::SocketAddr, Connection)> = None;
    while Instant::now() < until {
        let Some(place) = place_for(&places, number) else { continue };
        if connection.as_ref().is_none_or(|(known, _)| *known != place) {
            connection = Some((place, Client::new(place, None).connect().await?));
        }
        asked += 1;
        let Some((_, open)) = &mut connection else { continue };
        match confirm(open).await {
            Err(_) => {
                failed += 1;
                connection = None;
            }
            Ok(tx_id) => {
                if follow(open, &tx_id).await.is_err() {
                    // A stopping node closes its connections after the current response: the order is followed on the
                    // other node.
                    connection = None;
                    failed += u64::from(!followed_elsewhere(&places, number, &tx_id).await);
                }
            }
        }
    }
    Ok((asked, failed))
}

/// A running node, as a load balancer chooses one.
fn place_for(places: &Places, number: usize) -> Option<std::net::SocketAddr> {
    let places = places.read().unwrap_or_else(PoisonError::into_inner);
    let up: Vec<_> = places.iter().flatten().collect();
    up.get(number % up.len().max(1)).copied().copied()
}

async fn confirm(connection: &mut Connection) -> Result<String, Failure> {
    let body = Bytes::from(orders::order("bench").to_string());
    let answer = connection.call(Method::POST, "/v1/orders", body).await?.good()?;
    orders::transaction(&answer.json()?)
}

async fn follow(connection: &mut Connection, tx_id: &str) -> Result<(), Failure> {
    connection.call(Method::GET, &format!("/v1/orders/{tx_id}?wait=10"), Bytes::new()).await?.good()?;
    Ok(())
}

async fn followed_elsewhere(places: &Places, number: usize, tx_id: &str) -> bool {
    let Some(place) = place_for(places, number) else { return false };
    match Client::new(place, None).connect().await {
        Ok(mut connection) => follow(&mut connection, tx_id).await.is_ok(),
        Err(_) => false,
    }
}
