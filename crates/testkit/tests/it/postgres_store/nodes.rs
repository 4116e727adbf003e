//! Several nodes, and the database's clock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use backstitch::Announced;
use backstitch::kernel::SagaId;
use backstitch::kernel::saga::Event;
use backstitch::store::documents::DocumentStore as _;
use backstitch::store::nodes::{AdoptedSaga, Epoch, Known, Node};
use backstitch::store::postgres::PostgresStore;
use backstitch::store::{
    DiagnosticsStore as _, NodeStore as _, OwnershipStore as _, SagaStore as _, Verdict,
};
use backstitch_testkit::conformance::definitions::named;

use crate::postgres_store::support::{
    end, fresh_store, go_on, log, new_id, now, row, session, start, until_blocked,
};

fn node(name: &str) -> Node {
    Node { name: name.to_owned(), lease: Duration::from_secs(600), announced: Announced::default() }
}

fn known() -> [Known; 1] {
    [Known { name: "trip".into(), version: 1 }]
}

async fn started_by(store: &PostgresStore, owner: Epoch, count: usize) -> Vec<SagaId> {
    let sagas: Vec<SagaId> = (0..count).map(|_| new_id()).collect();
    let starts = sagas.iter().map(|saga| {
        let mut commit = start(*saga);
        row(&mut commit).owner = Some(owner);
        commit
    });
    let verdicts = store.commit(&starts.collect::<Vec<_>>()).await.unwrap();
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Applied));
    sagas
}

/// Lets a node's lease expire by the database's clock.
async fn age(address: &str, epoch: Epoch) {
    let late = "update backstitch.nodes set heartbeat_at = heartbeat_at - interval '1 hour' where epoch = $1";
    assert_eq!(session(address).await.execute(late, &[&epoch]).await.unwrap(), 1);
}

fn ids(adopted: Vec<AdoptedSaga>) -> Vec<SagaId> {
    adopted.into_iter().map(|adopted| adopted.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_cannot_come_back_to_life() {
    let (store, address) = fresh_store().await;
    let dead = store.join(&node("dead")).await.unwrap();
    let heir = store.join(&node("heir")).await.unwrap();
    assert!(heir > dead);
    let sagas = started_by(&store, dead, 3).await;
    assert!(store.heartbeat(dead).await.unwrap());
    assert!(
        store.adopt(&node("heir"), heir, &known(), now(), 10).await.unwrap().sagas.is_empty(),
        "it lives"
    );

    age(&address, dead).await;
    assert!(!store.heartbeat(dead).await.unwrap(), "late is dead, even if nobody has noticed");
    let adopted = ids(store.adopt(&node("heir"), heir, &known(), now(), 10).await.unwrap().sagas);
    assert_eq!(adopted.iter().collect::<HashSet<_>>(), sagas.iter().collect::<HashSet<_>>());
    assert!(!store.heartbeat(dead).await.unwrap());
    assert!(store.adopt(&node("dead"), dead, &known(), now(), 10).await.unwrap().sagas.is_empty());
    assert_eq!(store.commit(&[go_on(sagas[0], 3, 9)]).await.unwrap(), [Verdict::Fenced]);
    let taken = Event::SagaAdopted { node: "heir".to_owned(), epoch: heir };
    assert_eq!(log(&store, sagas[0]).await[2], taken);

    // Sagas that a dead node starts after its death are not lost either.
    let late = started_by(&store, dead, 1).await;
    assert_eq!(ids(store.adopt(&node("heir"), heir, &known(), now(), 10).await.unwrap().sagas), late);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_heirs_each_saga_gets_one() {
    let (store, address) = fresh_store().await;
    let dead = store.join(&node("dead")).await.unwrap();
    let sagas = started_by(&store, dead, 500).await;
    age(&address, dead).await;
    let heirs: Vec<_> = (0..3)
        .map(|number| {
            let address = address.clone();
            tokio::spawn(async move {
                let store = PostgresStore::connect(&address).await.unwrap();
                let heir = node(&format!("heir{number}"));
                let epoch = store.join(&heir).await.unwrap();
                let mut taken = Vec::new();
                // Another node may hold all remaining sagas for a moment, so one empty result is not the end.
                let mut empty = 0;
                while empty < 20 {
                    let some = store.adopt(&heir, epoch, &known(), now(), 40).await.unwrap().sagas;
                    empty = if some.is_empty() { empty + 1 } else { 0 };
                    taken.extend(ids(some));
                }
                taken
            })
        })
        .collect();
    let mut taken = Vec::new();
    for heir in heirs {
        taken.extend(heir.await.unwrap());
    }
    assert_eq!(taken.len(), 500);
    assert_eq!(taken.iter().collect::<HashSet<_>>(), sagas.iter().collect::<HashSet<_>>());
    for saga in &sagas {
        assert_eq!(log(&store, *saga).await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_appends_while_an_heir_looks_keeps_the_saga() {
    let (store, address) = fresh_store().await;
    let slow = store.join(&node("slow")).await.unwrap();
    let heir = store.join(&node("heir")).await.unwrap();
    let sagas = started_by(&store, slow, 2).await;
    age(&address, slow).await;
    // The slow node's decision is written and not yet committed.
    let mut deciding = session(&address).await;
    let watcher = session(&address).await;
    let decision = deciding.transaction().await.unwrap();
    let verdict = store.commit_in(&decision, &go_on(sagas[0], 3, 2)).await.unwrap();
    assert_eq!(verdict, Verdict::Applied);
    let adopting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.adopt(&node("heir"), heir, &known(), now(), 10).await }
    });
    until_blocked(&watcher).await;
    decision.commit().await.unwrap();
    assert_eq!(ids(adopting.await.unwrap().unwrap().sagas), [sagas[1]]);
    let row = store.load(&[sagas[0]]).await.unwrap().pop().unwrap().summary;
    assert_eq!(row.owner, Some(slow));
    // The next adoption takes it: its owner is still dead.
    assert_eq!(ids(store.adopt(&node("heir"), heir, &known(), now(), 10).await.unwrap().sagas), [sagas[0]]);
    assert_eq!(log(&store, sagas[0]).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_during_adoption_does_not_deadlock() {
    let (store, address) = fresh_store().await;
    let slow = store.join(&node("slow")).await.unwrap();
    let heir = store.join(&node("heir")).await.unwrap();
    for _ in 0..20 {
        let sagas = started_by(&store, slow, 60).await;
        let late =
            "update backstitch.nodes set heartbeat_at = heartbeat_at - interval '1 hour' where epoch = $1";
        session(&address).await.execute(late, &[&slow]).await.unwrap();
        let ends: Vec<_> = sagas.iter().map(|saga| end(*saga, 3, Some(0))).collect();
        let me = node("heir");
        let known = known();
        let (ended, adopted) = tokio::join!(store.commit(&ends), store.adopt(&me, heir, &known, now(), 100));
        let (ended, adopted) = (ended.unwrap(), adopted.unwrap().sagas);
        let won = ended.iter().filter(|verdict| **verdict == Verdict::Applied).count();
        assert!(won + adopted.len() == 60, "{won} ended and {} adopted", adopted.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_gives_everything_back_at_once() {
    let (store, _) = fresh_store().await;
    // A definition is stored before any of its sagas can start.
    store.register(&named("trip", 1)).await.unwrap();
    let leaving = store.join(&node("leaving")).await.unwrap();
    let staying = store.join(&node("staying")).await.unwrap();
    let sagas = started_by(&store, leaving, 5).await;
    let theirs = started_by(&store, staying, 2).await;
    assert_eq!(store.next_wake(&known()).await.unwrap(), None);
    store.leave(leaving).await.unwrap();
    assert!(!store.heartbeat(leaving).await.unwrap());
    assert!(store.next_wake(&known()).await.unwrap().is_some());
    let other = [Known { name: "trip".into(), version: 2 }];
    assert!(store.adopt(&node("staying"), staying, &other, now(), 10).await.unwrap().sagas.is_empty());
    let counts = store.counts(&other).await.unwrap();
    assert_eq!((counts.unregistered[0].version, counts.unregistered[0].sagas), (1, 5));
    let first = store.adopt(&node("staying"), staying, &known(), now(), 3).await.unwrap().sagas;
    let rest = store.adopt(&node("staying"), staying, &known(), now(), 3).await.unwrap().sagas;
    assert_eq!((first.len(), rest.len()), (3, 2));
    let adopted: HashSet<_> = ids(first).into_iter().chain(ids(rest)).collect();
    assert_eq!(adopted, sagas.into_iter().collect());
    assert_eq!(log(&store, theirs[0]).await.len(), 2, "a living node's sagas are left alone");
}
