//! The files of a cleanly closed store.

use backstitch::{Context, Engine, Saga, Status, Step, StepResult};

use crate::sqlite_store::support::Place;

async fn nothing(_: Context<u32>) -> StepResult<()> {
    Ok(())
}

#[tokio::test]
async fn after_an_orderly_end_the_file_alone_has_everything() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let engine = Engine::open(&format!("sqlite:{}", place.path().display())).await.unwrap();
    engine.register(Saga::builder("order").step(Step::new("pay", nothing)).build().unwrap()).unwrap();
    let mut sagas = Vec::new();
    for number in 0..5_u32 {
        let run = engine.start("order", &number).await.unwrap();
        sagas.push(run.id());
        assert_eq!(run.outcome().await.unwrap().status, Status::Succeeded);
    }
    engine.shutdown().await.unwrap();

    std::fs::copy(place.path(), elsewhere.path()).unwrap();
    let engine = Engine::open(&format!("sqlite:{}", elsewhere.path().display())).await.unwrap();
    for saga in sagas {
        assert_eq!(engine.load(saga).await.unwrap().unwrap().status, Status::Succeeded);
    }
}

#[tokio::test]
async fn reader_of_the_file_does_not_fail_a_shutdown() {
    let place = Place::new();
    let engine = Engine::open(&format!("sqlite:{}", place.path().display())).await.unwrap();
    engine.register(Saga::builder("order").step(Step::new("pay", nothing)).build().unwrap()).unwrap();
    let reader = place.beside();
    reader.execute_batch("begin; select count(*) from sagas").unwrap();
    // The reader's snapshot is older than this row, so the row must stay in the WAL.
    let run = engine.start("order", &1_u32).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Succeeded);
    engine.shutdown().await.unwrap();
    let count = |row: &rusqlite::Row<'_>| row.get::<_, u32>(0);
    let joined = place.beside().query_row("select count(*) from nodes", [], count).unwrap();
    assert_eq!(joined, 0, "it has left");
}
