//! Definitions: a version is what it was when it was first kept.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use backstitch::store::nodes::Registered;
use backstitch_kernel::Payload;

use super::Fixture;

fn version(version: u32, fingerprint: u64) -> Registered {
    let body = Payload::parse(format!(r#"{{"steps": [], "is": {version}}}"#)).unwrap();
    Registered { name: "deploy".into(), version, fingerprint, body }
}

/// What is kept is what was given, to the last bit of the fingerprint.
pub async fn a_definition_is_read_back_as_it_was_kept(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = version(1, u64::MAX - 1);
    assert_eq!(store.register(&first).await.unwrap(), first);
    assert_eq!(store.definition("deploy", Some(1)).await.unwrap(), Some(first.clone()));
    assert_eq!(store.definition("deploy", None).await.unwrap(), Some(first));
}

/// A version that exists is not changed; whoever comes second learns what it is.
pub async fn a_version_never_changes(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = version(1, 1);
    store.register(&first).await.unwrap();
    assert_eq!(store.register(&version(1, 2)).await.unwrap(), first);
    assert_eq!(store.definition("deploy", Some(1)).await.unwrap(), Some(first));
}

/// Versions stand beside each other, and the highest is found without naming it.
pub async fn the_highest_version_is_found_without_its_number(fixture: &dyn Fixture) {
    let store = fixture.store();
    for number in [2, 10, 9] {
        store.register(&version(number, u64::from(number))).await.unwrap();
    }
    assert_eq!(store.definition("deploy", None).await.unwrap(), Some(version(10, 10)));
    assert_eq!(store.definition("deploy", Some(2)).await.unwrap(), Some(version(2, 2)));
}

/// What nobody kept is not there.
pub async fn an_unknown_definition_is_not_there(fixture: &dyn Fixture) {
    let store = fixture.store();
    store.register(&version(1, 1)).await.unwrap();
    assert_eq!(store.definition("refund", None).await.unwrap(), None);
    assert_eq!(store.definition("deploy", Some(2)).await.unwrap(), None);
}

/// Definitions outlive the process that brought them.
pub async fn a_definition_is_there_for_the_next_process(fixture: &dyn Fixture) {
    fixture.store().register(&version(1, 1)).await.unwrap();
    fixture.reopen().await;
    assert_eq!(fixture.store().definition("deploy", None).await.unwrap(), Some(version(1, 1)));
}
