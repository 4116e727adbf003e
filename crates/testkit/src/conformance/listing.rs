//! The list of sagas: newest first, complete, in pages.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use backstitch::store::{Cursor, Filter, LogHead};
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Status;

use super::Fixture;
use super::make::{apply, saga, started, started_with, updated};

/// All ids that match, read in pages of this size.
async fn pages(fixture: &dyn Fixture, filter: &Filter, limit: usize) -> Vec<SagaId> {
    let store = fixture.store();
    let mut ids = Vec::new();
    let mut before = None;
    loop {
        let page = store.list(filter, &Cursor { before, limit }).await.unwrap();
        assert!(page.items.len() <= limit);
        assert!(page.next.is_none() || page.items.len() == limit, "a page in the middle is full");
        ids.extend(page.items.iter().map(|row| row.id));
        before = page.next;
        if before.is_none() {
            return ids;
        }
    }
}

/// Thirty sagas of two definitions, six statuses, ten customers and three correlation ids.
async fn thirty(fixture: &dyn Fixture) {
    for number in 1..=30 {
        let statuses = Status::ALL;
        let commit = started_with(saga(number), fixture.now(), |row| {
            row.definition = if number % 2 == 0 { "deploy".into() } else { "refund".into() };
            row.status = statuses[usize::try_from(number % 6).unwrap()];
            row.correlation_id = (number % 4 != 0).then(|| format!("c{}", number % 4));
            row.attributes = [
                ("customer".to_owned(), (number % 10).to_string()),
                ("region".to_owned(), (number % 3).to_string()),
            ]
            .into();
        });
        apply(&*fixture.store(), commit).await;
    }
}

/// Whether a saga of [`thirty`] matches.
type Matches = fn(u64) -> bool;

fn filters() -> Vec<(Filter, Matches)> {
    let attribute = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    vec![
        (Filter::default(), |_| true),
        (Filter { status: Some(Status::ALL[1]), ..Filter::default() }, |number| number % 6 == 1),
        (Filter { definition: Some("deploy".to_owned()), ..Filter::default() }, |number| number % 2 == 0),
        (Filter { correlation_id: Some("c3".to_owned()), ..Filter::default() }, |number| number % 4 == 3),
        (Filter { attributes: [attribute("customer", "7")].into(), ..Filter::default() }, |number| {
            number % 10 == 7
        }),
        (
            Filter {
                attributes: [attribute("customer", "7"), attribute("region", "1")].into(),
                ..Filter::default()
            },
            |number| number % 10 == 7 && number % 3 == 1,
        ),
        (
            Filter {
                status: Some(Status::Succeeded),
                definition: Some("deploy".to_owned()),
                ..Filter::default()
            },
            |number| number % 6 == 2,
        ),
        (
            Filter {
                status: Some(Status::Running),
                definition: Some("refund".to_owned()),
                ..Filter::default()
            },
            |number| number % 6 == 1,
        ),
        (
            Filter {
                status: Some(Status::Failed),
                definition: Some("refund".to_owned()),
                correlation_id: Some("c3".to_owned()),
                attributes: [attribute("region", "0")].into(),
                ..Filter::default()
            },
            |number| number % 6 == 3 && number % 4 == 3,
        ),
        (
            Filter {
                definition: Some("deploy".to_owned()),
                status: Some(Status::Running),
                ..Filter::default()
            },
            |_| false,
        ),
        (Filter { correlation_id: Some("nobody".to_owned()), ..Filter::default() }, |_| false),
        (Filter { attributes: [attribute("customer", "nobody")].into(), ..Filter::default() }, |_| false),
    ]
}

/// Every filter with every page size finds every saga once, newest first.
pub async fn every_filter_finds_all_of_its_sagas_newest_first(fixture: &dyn Fixture) {
    thirty(fixture).await;
    for (filter, matches) in filters() {
        let expected: Vec<_> = (1..=30).rev().filter(|number| matches(*number)).map(saga).collect();
        for limit in [1, 3, 10, 30, 100] {
            assert_eq!(pages(fixture, &filter, limit).await, expected, "{filter:?} by {limit}");
        }
    }
}

/// New sagas neither shift nor repeat pages that are being read.
pub async fn pages_stay_as_they_are_while_new_sagas_start(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    for number in 1..=4 {
        apply(&*store, started(saga(number), now)).await;
    }
    let first = store.list(&Filter::default(), &Cursor { before: None, limit: 2 }).await.unwrap();
    apply(&*store, started(saga(5), now)).await;
    let second = store.list(&Filter::default(), &Cursor { before: first.next, limit: 2 }).await.unwrap();
    let ids: Vec<_> = first.items.iter().chain(&second.items).map(|row| row.id).collect();
    assert_eq!(ids, [saga(4), saga(3), saga(2), saga(1)]);
    assert_eq!(second.next, None);
}

/// A list shows and finds sagas by their current state.
pub async fn a_saga_is_found_by_what_it_is_now(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    apply(&*store, updated(saga(1), 2, now, |row| row.status = Status::Compensating)).await;
    let with = |status| Filter { status: Some(status), ..Filter::default() };
    assert_eq!(pages(fixture, &with(Status::Running), 10).await, []);
    assert_eq!(pages(fixture, &with(Status::Compensating), 10).await, [saga(1)]);
    let page = store.list(&Filter::default(), &Cursor { before: None, limit: 1 }).await.unwrap();
    assert_eq!(page.items[0].status, Status::Compensating);
    assert_eq!(page.next, None, "a full last page is the last");
}

/// The newest event number is returned for each existing saga.
pub async fn heads_tell_how_far_logs_go(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    for number in 1..=3 {
        apply(&*store, started(saga(number), now)).await;
    }
    let before = store.heads(&[saga(1)]).await.unwrap()[0];
    apply(&*store, updated(saga(2), before.seq + 1, now, |row| row.status = Status::Compensating)).await;
    let mut heads = store.heads(&[saga(2), saga(1), saga(9)]).await.unwrap();
    heads.sort_by_key(|head| head.log);
    let further = LogHead { log: saga(2), seq: before.seq + 1 };
    assert_eq!(heads, [before, further], "and nobody hears of others");
    assert_eq!(store.heads(&[]).await.unwrap(), []);
}
