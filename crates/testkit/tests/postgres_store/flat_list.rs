//! What a page of the list of sagas costs does not depend on how many there are, however little of it matches.

use backstitch::kernel::SagaId;
use backstitch::kernel::saga::Status;
use backstitch::store::postgres::{PostgresStore, pool_at};
use backstitch::store::{Cursor, Filter, Page, Store as _};
use backstitch_testkit::postgres::fresh_database;

/// Sagas of one definition that succeeded, but for the oldest, which was undone; all of one tenant.
const FILL: &str = "
    insert into sagas (id, definition, version, status, created_at, updated_at)
    select lpad(to_hex(n), 32, '0')::uuid, 'report', 1, case n when 1 then 'compensated' else 'succeeded' end, now(), now()
    from generate_series(1, 12000) as n;
    insert into saga_attributes (saga_id, name, value) select id, 'tenant', 'acme' from sagas;
";

#[tokio::test]
async fn a_page_looks_at_a_stretch_of_the_list_which_goes_on_behind_it() {
    let address = fresh_database().await;
    let store = PostgresStore::connect(&address).await.unwrap();
    pool_at(&address, 1).unwrap().get().await.unwrap().batch_execute(FILL).await.unwrap();
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
