//! A database that can be read and not written.

use serde_json::json;

use crate::stage::open;
use crate::support::{Place, on_both, within};

/// Keeps everybody else from writing.
enum Hold {
    Sqlite(rusqlite::Connection),
    Postgres(Place),
}

impl Hold {
    async fn on(place: &Place) -> Self {
        match place {
            Place::Sqlite(_) => {
                let db = place.db();
                let connection = rusqlite::Connection::open(db.strip_prefix("sqlite:").unwrap()).unwrap();
                connection.execute_batch("begin immediate").unwrap();
                Self::Sqlite(connection)
            }
            Place::Postgres(address) => {
                let place = Place::Postgres(address.clone());
                read_only(&place, "on").await;
                Self::Postgres(place)
            }
        }
    }

    async fn end(self) {
        match self {
            Self::Sqlite(connection) => connection.execute_batch("rollback").unwrap(),
            Self::Postgres(place) => read_only(&place, "off").await,
        }
    }
}

/// Whether sessions may write from now on. Those that there are end, since they would go on as they began.
async fn read_only(place: &Place, value: &str) {
    let name = place.rows("select current_database()").await.remove(0).remove(0).unwrap();
    place
        .rows(&format!(
            "begin read write; alter database \"{name}\" set default_transaction_read_only = {value}; commit;
             select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_written_is_found_until_it_can() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        open.declare().await;
        assert_eq!(open.found("writes").await, []);
        let hold = Hold::on(&place).await;
        within(async {
            while open.found("writes").await != [("error".to_owned(), String::new())] {
                let refused = open.client.post("/v1/sagas", &json!({ "definition": "parcel" })).await;
                assert_ne!(refused.status, 202, "{refused:?}");
            }
        })
        .await;
        hold.end().await;
        open.is_well("writes").await;
        open.start().await;
    })
    .await;
}
