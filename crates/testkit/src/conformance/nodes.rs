//! Node epochs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::Fixture;
use super::make::node;

/// Every epoch is higher than all earlier ones.
pub async fn every_life_has_a_higher_number(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = store.join(&node()).await.unwrap();
    store.leave(first).await.unwrap();
    let second = store.join(&node()).await.unwrap();
    assert!(second > first, "{second} after {first}");
    drop(store);
    fixture.reopen().await;
    let third = fixture.store().join(&node()).await.unwrap();
    assert!(third > second, "{third} after {second}");
}

/// A joined node is alive.
pub async fn a_node_that_joined_is_alive(fixture: &dyn Fixture) {
    let store = fixture.store();
    let epoch = store.join(&node()).await.unwrap();
    assert!(store.heartbeat(epoch).await.unwrap());
    assert!(store.heartbeat(epoch).await.unwrap());
}

/// An unknown epoch is not alive.
pub async fn a_number_that_nobody_got_is_not_alive(fixture: &dyn Fixture) {
    let store = fixture.store();
    let epoch = store.join(&node()).await.unwrap();
    assert!(!store.heartbeat(epoch + 1).await.unwrap());
}

/// A node is listed with its name from joining to leaving.
pub async fn a_node_is_listed_from_its_joining_to_its_leaving(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert_eq!(store.nodes(10).await.unwrap(), []);
    let epoch = store.join(&node()).await.unwrap();
    store.heartbeat(epoch).await.unwrap();
    let [listed] = store.nodes(10).await.unwrap().try_into().unwrap();
    assert_eq!((listed.epoch, listed.name.as_str(), listed.lives), (epoch, "a", true));
    assert!(listed.heartbeat_at >= listed.started_at, "{listed:?}");
    assert_eq!(store.nodes(0).await.unwrap(), []);
    store.leave(epoch).await.unwrap();
    assert_eq!(store.nodes(10).await.unwrap(), []);
}

/// A node that left is not alive.
pub async fn a_node_that_left_is_not_alive(fixture: &dyn Fixture) {
    let store = fixture.store();
    let epoch = store.join(&node()).await.unwrap();
    store.leave(epoch).await.unwrap();
    assert!(!store.heartbeat(epoch).await.unwrap());
}
