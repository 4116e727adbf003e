//! A database that is readable and not writable.

use serde_json::json;

use crate::doctor::stage::open;
use crate::support::{Place, on_both, within};

/// As a server that finds no room says no.
const REFUSING: &str = "
create function backstitch.no_room() returns trigger language plpgsql as $$
begin
    raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';
end;
$$;
create trigger no_room before insert on sagas for each statement execute function no_room();
create trigger no_room before update on nodes for each statement execute function no_room();
";

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
                place.rows(REFUSING).await;
                Self::Postgres(Place::Postgres(address.clone()))
            }
        }
    }

    async fn end(self) {
        match self {
            Self::Sqlite(connection) => connection.execute_batch("rollback").unwrap(),
            Self::Postgres(place) => drop(place.rows("drop function no_room cascade").await),
        }
    }
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
                assert_eq!(refused.status, 503, "{refused:?}");
            }
        })
        .await;
        hold.end().await;
        open.is_well("writes").await;
        open.start().await;
    })
    .await;
}
