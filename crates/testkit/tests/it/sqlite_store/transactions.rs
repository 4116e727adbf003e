//! A start inside the caller's transaction.

use backstitch::store::sqlite::commit_in;
use backstitch::store::{Commit, Verdict};
use backstitch_testkit::conformance::make::{apply, claim, load, saga, seqs, started};

use super::support::{Place, now};

#[tokio::test]
async fn start_commits_or_rolls_back_with_the_callers_rows() {
    let place = Place::new();
    let store = place.open();
    let mut own = place.beside();
    own.execute_batch("create table orders (id integer primary key)").unwrap();

    let transaction = own.transaction().unwrap();
    transaction.execute("insert into orders values (1)", []).unwrap();
    assert_eq!(commit_in(&transaction, &started(saga(1), now())).unwrap(), Verdict::Applied);
    transaction.rollback().unwrap();
    assert!(load(&store, saga(1)).await.is_none());

    let transaction = own.transaction().unwrap();
    transaction.execute("insert into orders values (1)", []).unwrap();
    assert_eq!(commit_in(&transaction, &started(saga(1), now())).unwrap(), Verdict::Applied);
    assert!(load(&store, saga(1)).await.is_none(), "nothing is there before the commit");
    transaction.commit().unwrap();
    assert_eq!(seqs(&store, saga(1)).await, [1]);
    let orders: i64 = own.query_row("select count(*) from orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);
}

#[tokio::test]
async fn refused_start_leaves_the_transaction_unchanged() {
    let place = Place::new();
    let store = place.open();
    apply(&store, Commit { claim: Some(claim("used", 1)), ..started(saga(1), now()) }).await;
    let mut own = place.beside();
    own.execute_batch("create table orders (id integer primary key)").unwrap();
    let transaction = own.transaction().unwrap();
    transaction.execute("insert into orders values (1)", []).unwrap();
    let try_in = |commit| commit_in(&transaction, &commit).unwrap();

    assert_eq!(try_in(started(saga(1), now())), Verdict::Fenced);
    let again = Commit { claim: Some(claim("used", 1)), ..started(saga(2), now()) };
    assert_eq!(try_in(again), Verdict::Replay(saga(1)));
    let other = Commit { claim: Some(claim("used", 2)), ..started(saga(2), now()) };
    assert!(matches!(try_in(other), Verdict::Conflict { .. }));
    let mut twice = started(saga(3), now());
    twice.events.extend(twice.events.clone());
    assert!(matches!(try_in(twice), Verdict::Rejected(_)));

    transaction.commit().unwrap();
    let orders: i64 = own.query_row("select count(*) from orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);
    for number in [2, 3] {
        assert!(load(&store, saga(number)).await.is_none());
        assert_eq!(seqs(&store, saga(number)).await, [0; 0]);
    }
}
