//! The seed's table in SQL, and the database's restrictions.

use serde_json::json;

use crate::acceptance_seed_004::stage::{expect, on_both_stores};

#[tokio::test(flavor = "multi_thread")]
async fn the_view_provisioning_sagas_has_the_seeds_columns() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.start("a", &json!({ "correlation_id": "c" })).await;
        open.bring("b", "live").await;
        open.bring("c", "hook_creating").await;
        expect(&open.fail("c", "vercel_api").await, 200);
        open.start("a", &json!({ "correlation_id": "d" })).await;
        let sql = "select site_id, state, attempt, correlation_id, last_error, error_kind from provisioning_sagas order by site_id";
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            stage.place.rows(sql).await,
            [
                vec![text("a"), text("requested"), text("2"), text("c"), None, None],
                vec![text("b"), text("live"), text("1"), None, None, None],
                vec![text("c"), text("failed"), text("1"), None, text("it broke"), text("vercel_api")],
            ]
        );
        let dated = "select count(*) from provisioning_sagas where created_at <= updated_at";
        assert_eq!(stage.place.rows(dated).await, [[text("3")]]);
        let machine = json!({ "name": "parcel", "initial": "packed", "states": ["packed", "sent"], "terminal": ["sent"], "edges": [["packed", "sent"]] });
        open.declare(&machine).await;
        expect(&open.client.post("/v1/lifecycles/parcel/p/start", &json!({})).await, 202);
        assert_eq!(stage.place.rows("select count(*) from provisioning_sagas").await, [[text("3")]], "sites alone");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_restricts_states_and_freezes_ends() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.bring("a", "live").await;
        open.start("b", &json!({})).await;
        open.program.terminate();
        // Another program cannot change them on SQLite, whatever it writes.
        let why = |why| if stage.place.is_shared() { why } else { "only_backstitch_writes" };
        for (sql, why) in [
            ("update lifecycles set state = 'requested' where key = 'a'", why("at its end")),
            ("update lifecycles set state = 'dreaming' where key = 'b'", why("foreign key")),
            ("update lifecycles set last_error = 'x' where key = 'b'", why("check")),
            ("delete from lifecycles where key = 'b'", "not at its end"),
        ] {
            let refusal = stage.place.refusal(sql).await;
            assert!(refusal.to_lowercase().contains(why), "{sql}: {refusal}");
        }
    })
    .await;
}
