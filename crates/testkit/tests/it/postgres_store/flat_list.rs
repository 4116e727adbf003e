//! The cost of a page of sagas does not depend on the number of sagas or matches.

use backstitch::kernel::SagaId;
use backstitch::kernel::saga::Status;
use backstitch::store::postgres::{PostgresStore, pool_at};
use backstitch::store::{Cursor, Filter, Page, SagaStore as _};
use backstitch_testkit::postgres::fresh_database;

/// Succeeded sagas of one definition and tenant, except for the oldest, which was compensated.
const FILL: &str = "
    insert into sagas (id, definition, version, status, created_at, updated_at)
    select lpad(to_hex(n), 32, '0')::uuid, 'report', 1, case n when 1 then 'compensated' else 'succeeded' end, now(), now()
    from generate_series(1, 12000) as n;
    insert into saga_attributes (saga_id, name, value) select id, 'tenant', 'acme' from sagas;
";

#[tokio::test]
async fn page_reads_a_bounded_part_of_the_list() {
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

/// Running sagas, one with a rare status. Any read makes the thousand newest leave that status before the next read.
const LEAVING: &str = "
    insert into sagas (id, definition, version, status, owner, created_at, updated_at)
    select lpad(to_hex(n), 32, '0')::uuid, case n when 6500 then 'rare' else 'report' end, 1, 'running', 1, now(), now()
    from generate_series(1, 12000) as n;
    alter table sagas rename to all_sagas;
    create function leave() returns boolean language plpgsql volatile as $$
    begin
        update all_sagas set status = 'compensating'
        where id in (select id from all_sagas where status = 'running' order by id desc limit 1000);
        return true;
    end $$;
    create view sagas as select * from all_sagas where (select leave());
";

#[tokio::test]
async fn changing_statuses_skip_no_saga_between_pages() {
    let address = fresh_database().await;
    let store = PostgresStore::connect(&address).await.unwrap();
    let pool = pool_at(&address, 1).unwrap();
    let session = pool.get().await.unwrap();
    session.batch_execute(LEAVING).await.unwrap();
    let rare = Some("rare".to_owned());
    let filter = Filter { definition: rare, status: Some(Status::Running), ..Filter::default() };
    let Page { items, next } = store.list(&filter, &Cursor { before: None, limit: 10 }).await.unwrap();
    assert!(items.is_empty() && next.is_some(), "it is not among the newest: {items:?}, {next:?}");
    let left = session.query_one("select count(*) from all_sagas where status = 'compensating'", &[]).await;
    assert!(left.unwrap().get::<_, i64>(0) >= 1000, "nobody left");
    let Page { items, .. } = store.list(&filter, &Cursor { before: next, limit: 10 }).await.unwrap();
    assert_eq!(items.len(), 1, "it was skipped");
}
