//! Many at once on one key: one wins, the others are told, and the log has no gap.

use backstitch::Payload;
use backstitch_modules::lifecycles::sites::PATH;
use backstitch_modules::lifecycles::{Error, Failure, Given, Lifecycles, Wish};
use tokio::task::JoinSet;

use crate::lifecycles::stage::{SITES, Stage};

const AT_ONCE: usize = 1000;

async fn race(nodes: &[Lifecycles], to: &'static str) -> (usize, usize) {
    let mut asking = JoinSet::new();
    for number in 0..AT_ONCE {
        let node = nodes[number % nodes.len()].clone();
        asking.spawn(async move { node.transition(SITES, "s", to, None).await });
    }
    let (mut won, mut refused) = (0, 0);
    while let Some(outcome) = asking.join_next().await {
        match outcome.unwrap() {
            Ok(_) => won += 1,
            Err(Error::Refused { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    (won, refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_conflicting_transitions_one_wins_each_edge() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        let nodes = [stage.lifecycles.clone()];
        for to in &PATH[1..4] {
            assert_eq!(race(&nodes, to).await, (1, AT_ONCE - 1), "to {to}");
        }
        assert_eq!(stage.log("s").await.len(), 4);
        stage.audit(SITES, "s").await;
        assert_eq!(stage.texts("select topic from outbox").await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_on_one_database_do_not_both_win() {
    let stage = Stage::postgres().await;
    stage.provide_sites().await;
    let (other_engine, other) = stage.another().await;
    stage.start("s").await;
    let nodes = [stage.lifecycles.clone(), other.clone()];
    for to in &PATH[1..] {
        assert_eq!(race(&nodes, to).await, (1, AT_ONCE - 1), "to {to}");
    }
    stage.audit(SITES, "s").await;
    drop((nodes, other));
    other_engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_many_begin_at_once_on_two_nodes_begins_once_and_counts_them_all() {
    let stage = Stage::postgres().await;
    stage.provide_sites().await;
    let (other_engine, other) = stage.another().await;
    let nodes = [stage.lifecycles.clone(), other.clone()];
    let mut asking = JoinSet::new();
    for number in 0..200 {
        let node = nodes[number % 2].clone();
        let key = format!("s{}", number % 4);
        asking.spawn(async move { node.start(SITES, &key, Given::default()).await.unwrap() });
    }
    let begun = asking.join_all().await.iter().filter(|moved| moved.from.is_none()).count();
    assert_eq!(begun, 4, "each key begins once");
    for key in ["s0", "s1", "s2", "s3"] {
        assert_eq!(stage.get(key).await.instance.attempt, 50);
        stage.audit(SITES, key).await;
    }
    drop((nodes, other));
    other_engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_decide_about_what_they_saw_one_is_heeded() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        let seq = stage.get("s").await.instance.seq;
        let wishes = [
            Wish::Start,
            Wish::Transition { to: PATH[1].to_owned(), data: Payload::null() },
            Wish::Fail(Failure { kind: "internal".to_owned(), message: "by hand".to_owned() }),
        ];
        let mut asking = JoinSet::new();
        for number in 0..60 {
            let (node, wish) = (stage.lifecycles.clone(), wishes[number % 3].clone());
            asking.spawn(async move { node.if_still_at(SITES, "s", seq, wish).await });
        }
        let outcomes = asking.join_all().await;
        let late = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::MovedOn { .. }))).count();
        let heeded = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!((heeded, late), (1, 59), "{outcomes:?}");
        assert_eq!(stage.log("s").await.len(), 2);
        stage.audit(SITES, "s").await;
    }
}
