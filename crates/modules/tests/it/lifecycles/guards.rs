//! What the tables themselves do not let anybody do.

use backstitch_modules::lifecycles::sites::PATH;

use crate::lifecycles::stage::{Place, Stage};

async fn refused(stage: &Stage, statement: &str, why: &str) {
    let Err(told) = stage.execute(statement).await else { panic!("{statement} was done") };
    assert!(told.to_lowercase().contains(why), "{statement}: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_never_changed_by_any_statement() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        stage.go("s", &PATH[1..]).await;
        for change in ["state = 'requested', ended = false", "attempt = 7", "last_error = 'x'", "token = 9"] {
            refused(&stage, &format!("update lifecycles set {change}"), "at its end").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn states_are_enforced_by_reference() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        refused(&stage, "update lifecycles set state = 'paused'", "foreign key").await;
        refused(&stage, "update lifecycles set state = 'live'", "foreign key").await;
        refused(&stage, "update lifecycles set last_error = 'stale'", "check").await;
        refused(&stage, "update lifecycles set key = 'other'", "never changes").await;
        refused(&stage, "delete from lifecycles", "not at its end").await;
        refused(&stage, "update document_versions set body = '{}'", "never changes").await;
        refused(&stage, "update lifecycle_states set terminal = not terminal", "never changes").await;
        refused(&stage, "update saga_events set type = 'x'", "append-only").await;
        refused(&stage, "delete from saga_events", "append-only").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_has_the_seeds_columns() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        let columns = match &stage.place {
            Place::Sqlite(_) => "select name from pragma_table_info('provisioning_sagas')",
            Place::Postgres { .. } => {
                "select column_name::text from information_schema.columns where table_name = 'provisioning_sagas' \
                 order by ordinal_position"
            }
        };
        let expected = [
            "site_id",
            "state",
            "attempt",
            "correlation_id",
            "last_error",
            "error_kind",
            "created_at",
            "updated_at",
        ];
        assert_eq!(stage.texts(columns).await, expected);
        assert_eq!(
            stage.texts("select site_id || ' ' || state from provisioning_sagas").await,
            ["s requested"]
        );
    }
}
