//! The cost of a page of sagas does not depend on the number of sagas or matches.

use backstitch::kernel::SagaId;
use backstitch::kernel::saga::Status;
use backstitch::store::{Cursor, Filter, Page, SagaStore as _};
use rusqlite::params;

use super::support::{Place, now};

const MANY: i64 = 12_000;

/// Succeeded sagas of one definition and tenant, except for the oldest, which was compensated.
fn filled() -> Place {
    let place = Place::new();
    drop(place.open());
    let connection = place.beside();
    connection
        .execute(
            "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
             insert into sagas (id, definition, version, status, created_at, updated_at)
             select unhex(printf('%032x', n)), 'report', 1, iif(n = 1, 'compensated', 'succeeded'), ?2, ?2 from numbers",
            params![MANY, now().as_micros()],
        )
        .unwrap();
    connection.execute("insert into saga_attributes select 'tenant', 'acme', id from sagas", []).unwrap();
    place
}

#[tokio::test]
async fn page_reads_a_bounded_part_of_the_list() {
    let place = filled();
    let store = place.open();
    let status = Some(Status::Compensated);
    let of_definition = Filter { definition: Some("report".to_owned()), status, ..Filter::default() };
    let attributes = [("tenant".to_owned(), "acme".to_owned())].into();
    let of_tenant = Filter { attributes, status, ..Filter::default() };
    for filter in [of_definition, of_tenant] {
        let mut before: Option<SagaId> = None;
        for _ in 0..2 {
            let Page { items, next } = store.list(&filter, &Cursor { before, limit: 10 }).await.unwrap();
            assert!(items.is_empty() && next.is_some(), "none of the newest was undone: {items:?}, {next:?}");
            before = next;
        }
        let Page { items, next } = store.list(&filter, &Cursor { before, limit: 10 }).await.unwrap();
        assert_eq!((items.len(), next), (1, None));
    }
}
