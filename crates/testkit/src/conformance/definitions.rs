//! Documents: versions never change, and each name has an active one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::store::InFlight;
use backstitch::store::documents::{Becomes, Document, DocumentVersion, SAGA};
use backstitch_kernel::Payload;
use backstitch_kernel::saga::Status;

use super::Fixture;
use super::make::{apply, node, owned, saga, started, started_with, updated};

fn version(version: u32, fingerprint: u64) -> DocumentVersion {
    let body = Payload::parse(format!(r#"{{"steps": [], "is": {version}}}"#)).unwrap();
    DocumentVersion { name: "deploy".into(), version, fingerprint: Some(fingerprint), body }
}

/// A definition is read back unchanged, with its fingerprint.
pub async fn a_definition_is_read_back_as_it_was_kept(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = version(1, u64::MAX - 1);
    assert_eq!(store.register(&first).await.unwrap(), first);
    assert_eq!(store.document_version(SAGA, "deploy", Some(1)).await.unwrap(), Some(first.clone()));
    assert_eq!(store.document_version(SAGA, "deploy", None).await.unwrap(), Some(first));
}

/// A version cannot be changed; a second writer gets the first one.
pub async fn a_version_never_changes(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = version(1, 1);
    store.register(&first).await.unwrap();
    assert_eq!(store.register(&version(1, 2)).await.unwrap(), first);
    assert_eq!(store.document_version(SAGA, "deploy", Some(1)).await.unwrap(), Some(first));
}

/// Versions coexist, and the highest is found without its number.
pub async fn the_highest_version_is_found_without_its_number(fixture: &dyn Fixture) {
    let store = fixture.store();
    for number in [2, 10, 9] {
        store.register(&version(number, u64::from(number))).await.unwrap();
    }
    assert_eq!(store.document_version(SAGA, "deploy", None).await.unwrap(), Some(version(10, 10)));
    assert_eq!(store.document_version(SAGA, "deploy", Some(2)).await.unwrap(), Some(version(2, 2)));
}

/// An unknown definition is not found.
pub async fn an_unknown_definition_is_not_there(fixture: &dyn Fixture) {
    let store = fixture.store();
    store.register(&version(1, 1)).await.unwrap();
    assert_eq!(store.document_version(SAGA, "refund", None).await.unwrap(), None);
    assert_eq!(store.document_version(SAGA, "deploy", Some(2)).await.unwrap(), None);
}

/// Definitions survive the process.
pub async fn a_definition_is_there_for_the_next_process(fixture: &dyn Fixture) {
    fixture.store().register(&version(1, 1)).await.unwrap();
    fixture.reopen().await;
    assert_eq!(fixture.store().document_version(SAGA, "deploy", None).await.unwrap(), Some(version(1, 1)));
}

/// A version of a definition.
#[must_use]
pub fn named(name: &str, number: u32) -> DocumentVersion {
    DocumentVersion { name: name.into(), ..version(number, u64::from(number)) }
}

async fn stage(fixture: &dyn Fixture, number: u32) -> bool {
    fixture
        .store()
        .add_version(SAGA, &version(number, u64::from(number)).into(), Becomes::Staged)
        .await
        .unwrap()
}

async fn declared(fixture: &dyn Fixture, name: &str) -> Option<Document> {
    let mut found = fixture.store().documents(SAGA, Some(name)).await.unwrap();
    assert!(found.len() <= 1);
    found.pop()
}

/// The active version of `deploy`, the staged one, and all there are.
async fn standing(fixture: &dyn Fixture) -> (Option<u32>, Option<u32>, Vec<u32>) {
    let Document { name, active, staged, versions, .. } = declared(fixture, "deploy").await.unwrap();
    assert_eq!(&*name, "deploy");
    (active, staged, versions.iter().map(|version| version.number).collect())
}

/// A staged version waits until it is applied.
pub async fn a_staged_version_waits_to_be_applied(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert!(stage(fixture, 1).await);
    assert_eq!(store.document_version(SAGA, "deploy", Some(1)).await.unwrap(), Some(version(1, 1)));
    assert_eq!(standing(fixture).await, (None, Some(1), vec![1]));
    assert_eq!(store.apply_staged(SAGA, "deploy", None).await.unwrap(), Some(1));
    assert_eq!(standing(fixture).await, (Some(1), None, vec![1]));
}

/// Versions count up without gaps, and none is staged twice.
pub async fn only_the_next_version_is_staged(fixture: &dyn Fixture) {
    assert!(!stage(fixture, 2).await, "the first is 1");
    assert!(declared(fixture, "deploy").await.is_none());
    assert!(stage(fixture, 1).await);
    assert!(!stage(fixture, 1).await, "somebody else has just taken it");
    assert!(!stage(fixture, 3).await);
    assert_eq!(standing(fixture).await, (None, Some(1), vec![1]));
    assert_eq!(fixture.store().document_version(SAGA, "deploy", None).await.unwrap(), Some(version(1, 1)));
}

/// A name registered in code cannot be declared.
pub async fn a_name_that_belongs_to_code_is_not_declared(fixture: &dyn Fixture) {
    fixture.store().register(&version(1, 1)).await.unwrap();
    assert!(!stage(fixture, 1).await);
    assert!(!stage(fixture, 2).await);
    assert!(declared(fixture, "deploy").await.is_none());
    assert_eq!(fixture.store().documents(SAGA, None).await.unwrap(), []);
    assert_eq!(fixture.store().apply_staged(SAGA, "deploy", None).await.unwrap(), None);
}

/// Staging replaces a staged version; the active one stays.
pub async fn staging_replaces_what_was_staged(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert!(stage(fixture, 1).await);
    assert!(stage(fixture, 2).await);
    assert_eq!(standing(fixture).await, (None, Some(2), vec![1, 2]));
    assert_eq!(store.apply_staged(SAGA, "deploy", None).await.unwrap(), Some(2));
    assert!(stage(fixture, 3).await);
    assert!(stage(fixture, 4).await);
    assert_eq!(standing(fixture).await, (Some(2), Some(4), vec![1, 2, 3, 4]), "both at once");
    assert_eq!(store.apply_staged(SAGA, "deploy", None).await.unwrap(), Some(4));
    assert_eq!(standing(fixture).await, (Some(4), None, vec![1, 2, 3, 4]));
}

/// Applying an expected version applies that one or nothing.
pub async fn only_the_version_that_is_meant_is_applied(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert_eq!(store.apply_staged(SAGA, "deploy", Some(1)).await.unwrap(), None, "it was not declared");
    stage(fixture, 1).await;
    stage(fixture, 2).await;
    for other in [1, 3, u32::MAX] {
        assert_eq!(store.apply_staged(SAGA, "deploy", Some(other)).await.unwrap(), None, "{other}");
    }
    assert_eq!(standing(fixture).await, (None, Some(2), vec![1, 2]), "what is staged goes on waiting");
    assert_eq!(store.apply_staged(SAGA, "deploy", Some(2)).await.unwrap(), Some(2));
    assert_eq!(store.apply_staged(SAGA, "deploy", Some(2)).await.unwrap(), None, "it is not staged any more");
    assert_eq!(standing(fixture).await, (Some(2), None, vec![1, 2]));
}

/// Activation stores a version and makes it active in one transaction; nothing stays staged.
pub async fn a_version_is_kept_and_active_together_or_not_at_all(fixture: &dyn Fixture) {
    let store = fixture.store();
    let activate = async |number: u32| {
        store.add_version(SAGA, &version(number, u64::from(number)).into(), Becomes::Active).await.unwrap()
    };
    assert!(!activate(2).await, "the first is 1");
    assert!(declared(fixture, "deploy").await.is_none());
    assert!(activate(1).await);
    assert_eq!(standing(fixture).await, (Some(1), None, vec![1]));
    assert_eq!(store.document_version(SAGA, "deploy", None).await.unwrap(), Some(version(1, 1)));
    stage(fixture, 2).await;
    for taken in [1, 2, 4] {
        assert!(!activate(taken).await, "{taken}");
    }
    assert_eq!(standing(fixture).await, (Some(1), Some(2), vec![1, 2]), "whoever is refused changes nothing");
    assert!(activate(3).await);
    assert_eq!(standing(fixture).await, (Some(3), None, vec![1, 2, 3]));
    store.register(&named("code", 1)).await.unwrap();
    assert!(
        !store.add_version(SAGA, &named("code", 2).into(), Becomes::Active).await.unwrap(),
        "that name belongs to code"
    );
    assert!(declared(fixture, "code").await.is_none());
}

/// Documents of different kinds may have the same name and have separate versions.
pub async fn documents_of_different_kinds_share_no_names(fixture: &dyn Fixture) {
    let store = fixture.store();
    let other = DocumentVersion { fingerprint: None, ..version(1, 0) };
    assert!(stage(fixture, 1).await);
    assert!(stage(fixture, 2).await);
    assert!(store.add_version("other", &other.clone().into(), Becomes::Active).await.unwrap());
    assert_eq!(standing(fixture).await, (None, Some(2), vec![1, 2]));
    assert_eq!(store.document_version("other", "deploy", None).await.unwrap(), Some(other));
    assert_eq!(store.discard_staged("other", "deploy", None).await.unwrap(), None);
    assert_eq!(store.apply_staged("other", "deploy", Some(2)).await.unwrap(), None);
    let found = store.durable_document("other", "deploy").await.unwrap().unwrap();
    assert_eq!((found.active, found.staged, found.versions.len()), (Some(1), None, 1));
}

/// A document has the time of its last staging, apply or discard.
pub async fn a_document_knows_when_it_changed_last(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut before = fixture.now();
    stage(fixture, 1).await;
    for change in 0..4 {
        let changed_at = declared(fixture, "deploy").await.unwrap().changed_at;
        assert!(before <= changed_at && changed_at <= fixture.now(), "{change}: {changed_at:?}");
        fixture.advance(Duration::from_secs(60)).await;
        before = fixture.now();
        match change {
            0 => assert!(store.apply_staged(SAGA, "deploy", None).await.unwrap().is_some()),
            1 => assert!(stage(fixture, 2).await),
            2 => assert!(store.discard_staged(SAGA, "deploy", None).await.unwrap().is_some()),
            _ => {}
        }
    }
}

/// Of concurrent activations of the next version one succeeds, and the others leave nothing.
pub async fn of_many_who_activate_a_version_at_once_one_is_taken(fixture: &dyn Fixture) {
    let store = fixture.store();
    for number in 1..=5 {
        let putting = (0..8).map(|who| {
            let (store, definition) = (store.clone(), version(number, who));
            async move { store.add_version(SAGA, &definition.into(), Becomes::Active).await.unwrap() }
        });
        let taken = futures::future::join_all(putting).await;
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
        assert_eq!(standing(fixture).await, (Some(number), None, (1..=number).collect()));
    }
}

/// Discarding an expected version discards that one or nothing.
pub async fn only_the_version_that_is_meant_is_discarded(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert_eq!(store.discard_staged(SAGA, "deploy", Some(1)).await.unwrap(), None, "it was not declared");
    stage(fixture, 1).await;
    stage(fixture, 2).await;
    for other in [1, 3, u32::MAX] {
        assert_eq!(store.discard_staged(SAGA, "deploy", Some(other)).await.unwrap(), None, "{other}");
    }
    assert_eq!(standing(fixture).await, (None, Some(2), vec![1, 2]), "what is staged goes on waiting");
    assert_eq!(store.discard_staged(SAGA, "deploy", Some(2)).await.unwrap(), Some(2));
    assert_eq!(
        store.discard_staged(SAGA, "deploy", Some(2)).await.unwrap(),
        None,
        "it is not staged any more"
    );
    assert_eq!(standing(fixture).await, (None, None, vec![1, 2]));
}

/// The number of a discarded version is not used again.
pub async fn a_discarded_version_leaves_its_number_behind(fixture: &dyn Fixture) {
    let store = fixture.store();
    stage(fixture, 1).await;
    store.apply_staged(SAGA, "deploy", None).await.unwrap();
    stage(fixture, 2).await;
    assert_eq!(store.discard_staged(SAGA, "deploy", None).await.unwrap(), Some(2));
    assert_eq!(standing(fixture).await, (Some(1), None, vec![1, 2]));
    assert!(!stage(fixture, 2).await);
    assert!(stage(fixture, 3).await);
    assert_eq!(standing(fixture).await, (Some(1), Some(3), vec![1, 2, 3]));
}

/// Without a staged version, apply and discard change nothing.
pub async fn what_is_not_staged_is_neither_applied_nor_discarded(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert_eq!(store.apply_staged(SAGA, "deploy", None).await.unwrap(), None);
    assert_eq!(store.discard_staged(SAGA, "deploy", None).await.unwrap(), None);
    stage(fixture, 1).await;
    store.apply_staged(SAGA, "deploy", None).await.unwrap();
    assert_eq!(store.apply_staged(SAGA, "deploy", None).await.unwrap(), None);
    assert_eq!(store.discard_staged(SAGA, "deploy", None).await.unwrap(), None);
    assert_eq!(standing(fixture).await, (Some(1), None, vec![1]));
}

/// Declarations are listed by name, each version with its time.
pub async fn declarations_are_listed_by_name(fixture: &dyn Fixture) {
    let store = fixture.store();
    for (name, number) in [("refund", 1), ("Zebra", 1), ("deploy", 1), ("refund", 2)] {
        let before = fixture.now();
        assert!(store.add_version(SAGA, &named(name, number).into(), Becomes::Staged).await.unwrap());
        fixture.advance(Duration::from_secs(60)).await;
        let newest = *declared(fixture, name).await.unwrap().versions.last().unwrap();
        assert_eq!(newest.number, number);
        assert!(before <= newest.created_at && newest.created_at <= fixture.now(), "{newest:?}");
    }
    store.register(&named("code", 1)).await.unwrap();
    let all = store.documents(SAGA, None).await.unwrap();
    let names: Vec<(&str, usize)> = all.iter().map(|found| (&*found.name, found.versions.len())).collect();
    assert_eq!(names, [("Zebra", 1), ("deploy", 1), ("refund", 2)]);
    let refund = declared(fixture, "refund").await.unwrap();
    assert_eq!(Some(&refund), all.last());
    assert!(refund.versions[0].created_at < refund.versions[1].created_at);
    assert!(declared(fixture, "code").await.is_none());
}

/// Active sagas are counted by version.
pub async fn sagas_in_flight_are_counted_by_version(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    assert_eq!(store.in_flight("deploy").await.unwrap(), []);
    let sagas = [
        ("deploy", 1, Status::Pending),
        ("deploy", 1, Status::Running),
        ("deploy", 1, Status::Succeeded),
        ("deploy", 2, Status::Compensated),
        ("deploy", 10, Status::Compensating),
        ("deploy", 10, Status::Failed),
        ("refund", 1, Status::Running),
    ];
    for ((definition, version, status), number) in sagas.into_iter().zip(1..) {
        store.register(&named(definition, version)).await.unwrap();
        let commit = started_with(saga(number), now, |row| {
            row.definition = definition.into();
            row.version = version;
            row.status = status;
        });
        apply(&*store, commit).await;
    }
    let epoch = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(20), now, epoch)).await;
    apply(&*store, started_with(saga(21), now, |row| row.wake_at = Some(now))).await;
    apply(&*store, started(saga(22), now)).await;
    apply(&*store, updated(saga(22), 2, now, |row| row.paused = true)).await;
    let counted = [InFlight { version: 1, sagas: 5 }, InFlight { version: 10, sagas: 1 }];
    assert_eq!(store.in_flight("deploy").await.unwrap(), counted);
    assert_eq!(store.in_flight("refund").await.unwrap(), [InFlight { version: 1, sagas: 1 }]);
}

/// Declarations survive the process.
pub async fn declarations_are_there_for_the_next_process(fixture: &dyn Fixture) {
    stage(fixture, 1).await;
    fixture.store().apply_staged(SAGA, "deploy", None).await.unwrap();
    stage(fixture, 2).await;
    let before = declared(fixture, "deploy").await;
    fixture.reopen().await;
    assert_eq!(declared(fixture, "deploy").await, before);
    assert_eq!(standing(fixture).await, (Some(1), Some(2), vec![1, 2]));
    assert_eq!(fixture.store().apply_staged(SAGA, "deploy", None).await.unwrap(), Some(2));
}
