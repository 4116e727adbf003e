//! What ended long ago goes with its log, and nothing else does.

use std::sync::Arc;
use std::time::Duration;

use backstitch::kernel::lifecycle::codec;
use backstitch::outbox::Routes;
use backstitch::retention::Retention;
use backstitch::{Engine, Options};
use backstitch_modules::lifecycles::sites::PATH;
use backstitch_modules::lifecycles::{Ages, Error, Failure, Given, Lifecycles};
use backstitch_testkit::shelf::Shelf;
use serde_json::Value;

use crate::lifecycles::services::Services;
use crate::lifecycles::stage::{Place, SITES, Stage, lifecycles};

const SOON: Option<Duration> = Some(Duration::from_millis(20));

/// A process on the stage's database that removes, in the place of the one that was there.
pub(crate) async fn removing(stage: Stage, ages: Ages, shelf: &Arc<Shelf>) -> (Engine, Lifecycles, Place) {
    let Stage { lifecycles: first, engine, place, .. } = stage;
    let store = engine.store().clone();
    drop(first);
    engine.shutdown().await.unwrap();
    let options = Options {
        routes: Routes::none(),
        tick: Duration::from_millis(10),
        retention: Retention { archive: Some(shelf.clone()), ..Retention::default() },
        ..Options::default()
    };
    let engine = Engine::on_store(store, options).await.unwrap();
    let lifecycles = lifecycles(&engine, &Arc::new(Services::default()));
    engine.prune_with(lifecycles.retention(ages));
    (engine, lifecycles, place)
}

async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..3000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_goes_with_its_log_and_its_key_begins_anew() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        for key in ["done", "failed", "live"] {
            stage.start(key).await;
        }
        stage.go("done", &PATH[1..]).await;
        stage.go("live", &PATH[1..3]).await;
        let failure = Failure { kind: "quota_exceeded".to_owned(), message: "no more".to_owned() };
        stage.lifecycles.fail(SITES, "failed", failure).await.unwrap();
        let (done, live, failed) =
            (stage.get("done").await, stage.get("live").await, stage.get("failed").await);
        assert!(done.ended && !live.ended);

        let shelf = Arc::new(Shelf::default());
        let ages = Ages { ended: SOON, dead_letters: None };
        let (engine, lifecycles, _place) = removing(stage, ages, &shelf).await;
        let gone =
            async |key: &str| matches!(lifecycles.get(SITES, key).await, Err(Error::UnknownKey { .. }));
        eventually("what ended is gone", async || gone("done").await).await;
        assert_eq!(lifecycles.log(done.id, 0, 100).await.unwrap(), []);
        assert_eq!(lifecycles.get(SITES, "live").await.unwrap(), live);
        assert_eq!(lifecycles.log(live.id, 0, 100).await.unwrap().len(), 3);
        assert!(failed.ended);
        eventually("so is what was given up", async || gone("failed").await).await;

        let lines = shelf.of_kind("lifecycle");
        let written: &Value = lines.iter().find(|line| line["key"] == "done").unwrap();
        assert_eq!((&written["machine"], &written["state"]), (&SITES.into(), &"live".into()));
        let log = written["log"].as_array().unwrap();
        assert_eq!(log.len(), PATH.len());
        for event in log {
            let data = event.get("data").map(ToString::to_string);
            let state = event.get("state").map(|state| state.as_str().unwrap());
            let attempt =
                event.get("attempt").map(|attempt| u32::try_from(attempt.as_u64().unwrap()).unwrap());
            codec::event(event["type"].as_str().unwrap(), state, attempt, data.as_deref()).unwrap();
        }
        let count = lines.len() as u64;
        let counted = async || engine.removed().removed.get("lifecycles") == Some(&count);
        eventually("both are counted, a moment after they are removed", counted).await;

        let again = lifecycles.start(SITES, "done", Given::default()).await.unwrap();
        assert_eq!((again.standing.instance.attempt, again.from), (1, None));
        assert_ne!(again.standing.id, done.id);
        lifecycles.transition(SITES, "live", PATH[3], None).await.unwrap();
        drop(lifecycles);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_nobody_could_make_sense_of_go_by_age() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        let insert = |at: &str, mark: &str, body: &str| {
            format!(
                "insert into lifecycle_dead_letters (at, source, body, reason, mark) \
                 values ({at}, 'nats:SITES', {body}, 'not JSON', '{mark}')"
            )
        };
        let (long_ago, far_ahead, body) = match &stage.place {
            Place::Sqlite(_) => ("1", "4000000000000000", "x'ff00'"),
            Place::Postgres { .. } => ("timestamptz '1970-01-02'", "timestamptz '2090-01-01'", r"'\xff00'"),
        };
        stage.execute(&insert(long_ago, "old", body)).await.unwrap();
        stage.execute(&insert(far_ahead, "new", body)).await.unwrap();
        let shelf = Arc::new(Shelf::default());
        let ages = Ages { ended: None, dead_letters: SOON };
        let (engine, lifecycles, _place) = removing(stage, ages, &shelf).await;
        let left = async || lifecycles.dead_letters(None, 10).await.unwrap().len();
        eventually("the old one is gone", async || left().await == 1).await;
        eventually("everything was looked at", async || engine.removed().last_run.is_some()).await;
        assert_eq!(left().await, 1);
        let lines = shelf.of_kind("lifecycle_dead_letter");
        assert_eq!(
            (lines.len(), &lines[0]["body"], &lines[0]["source"]),
            (1, &"/wA=".into(), &"nats:SITES".into())
        );
        let counted = async || engine.removed().removed.get("lifecycle_dead_letters") == Some(&1);
        eventually("it is counted, a moment after it is removed", counted).await;
        drop(lifecycles);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_stays_and_keeps_nothing_else() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        for key in ["bad", "good"] {
            stage.start(key).await;
            stage.go(key, &PATH[1..]).await;
        }
        let bad = stage.get("bad").await.id;
        let (unlock, id) = match &stage.place {
            Place::Sqlite(_) => ("drop trigger saga_events_never_change", format!("x'{}'", bad.0.simple())),
            Place::Postgres { .. } => ("alter table saga_events disable trigger user", format!("'{bad}'")),
        };
        stage.execute(unlock).await.unwrap();
        let spoil = format!("update saga_events set data = '{{' where seq = 1 and saga_id = {id}");
        assert_eq!(stage.execute(&spoil).await, Ok(1));
        let on_file = matches!(stage.place, Place::Sqlite(_));
        if on_file {
            // Only a file lets anybody write what is no text.
            for (mark, source) in [("bad", "cast(x'ff' as text)"), ("good", "'nats:SITES'")] {
                let letter = format!(
                    "insert into lifecycle_dead_letters (at, source, body, reason, mark) \
                     values (1, {source}, x'00', 'not JSON', '{mark}')"
                );
                assert_eq!(stage.execute(&letter).await, Ok(1));
            }
        } else {
            stage.execute("alter table saga_events enable trigger user").await.unwrap();
        }

        let shelf = Arc::new(Shelf::default());
        let ages = Ages { ended: SOON, dead_letters: SOON };
        let (engine, lifecycles, _place) = removing(stage, ages, &shelf).await;
        let removed = |kind| engine.removed().removed.get(kind).copied();
        eventually("the other one is gone", async || removed("lifecycles") == Some(1)).await;
        let letters = on_file.then_some(1);
        eventually("so is its letter", async || removed("lifecycle_dead_letters") == letters).await;
        eventually("it is tried again", async || engine.removed().failed > 2).await;
        let told = engine.removed();
        let held_up = told.held_up.clone().unwrap();
        assert!(held_up.contains(&bad.to_string()), "{held_up}");
        assert_eq!(held_up.contains("lifecycle dead letter "), on_file, "{held_up}");
        assert_eq!((removed("lifecycles"), told.last_run), (Some(1), None));
        assert_eq!(lifecycles.get(SITES, "bad").await.unwrap().id, bad);
        drop(lifecycles);
        engine.shutdown().await.unwrap();
    }
}
