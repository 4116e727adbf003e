//! Old rows are deleted, and the server reports it.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use crate::support::fresh_database;
use flate2::read::MultiGzDecoder;
use hyper::Method;
use serde_json::{Value, json};

use crate::http::support::{Answer, Client, Place, Program, Running, on_both, within};

const A_MOMENT: Option<Duration> = Some(Duration::from_millis(50));

/// The contents of a directory's files, ordered by name.
fn exported(folder: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let mut text = Vec::new();
        // A process that was killed may have left a piece of a batch at the end.
        let _ = MultiGzDecoder::new(std::fs::File::open(file).unwrap()).read_to_end(&mut text);
        lines.extend(text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()));
    }
    lines
}

async fn until(client: &Client, path: &str, is_so: impl Fn(&Answer) -> bool) -> Answer {
    within(async {
        loop {
            let answer = client.get(path).await;
            if is_so(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// A server that keeps what succeeded for a moment, and exports it to this folder.
async fn removing_to(target: &Path) -> Running {
    Running::start_with(|config| {
        config.sagas.tick = Duration::from_millis(10);
        config.retention.export = Some(target.display().to_string());
        config.retention.sagas_succeeded = A_MOMENT;
    })
    .await
}

#[tokio::test]
async fn old_saga_is_exported_deleted_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("removed");
    let server = removing_to(&target).await;
    let good = server.client.run(&json!({ "definition": "greet", "input": { "name": "Ada" } })).await;
    let doomed = server.client.run(&json!({ "definition": "doomed" })).await;
    let path = |saga: &Value| format!("/v1/sagas/{}", saga["id"].as_str().unwrap());
    let gone = until(&server.client, &path(&good), |answer| answer.status != 200).await;
    assert_eq!((gone.status, gone.problem().as_str()), (404, "saga-not-found"));
    assert_eq!(server.client.get(&format!("{}/events", path(&good))).await.status, 404);
    assert_eq!(server.client.get(&path(&doomed)).await.status, 200, "it is kept for ever");

    // An empty run at startup also sets `last_run`, so only the counts show that the saga's run is over.
    let done = |answer: &Answer| {
        let retention = &answer.json()["retention"];
        let is_counted = retention["removed"]["sagas"] == 1 && retention["exported"] == json!({ "sagas": 1 });
        is_counted && !retention["last_run"].is_null()
    };
    let health = until(&server.client, "/v1/health", done).await.json();
    assert_eq!((&health["status"], &health["retention"]["held_up"]), (&json!("ok"), &json!(null)));
    for line in [
        "retention_removed_total{kind=\"sagas\"} 1",
        "retention_removed_total{kind=\"saga_events\"} 4",
        "retention_exported_total{kind=\"sagas\"} 1",
        "retention_failed_total 0",
        "retention_held_up 0",
    ] {
        let has_line =
            |metrics: &Answer| String::from_utf8_lossy(&metrics.body).lines().any(|found| found == line);
        until(&server.client, "/metrics", has_line).await;
    }
    let lines = exported(&target);
    assert_eq!((lines.len(), &lines[0]["id"]), (1, &good["id"]));
    assert_eq!(lines[0]["log"][0]["data"]["input"]["name"], "Ada");
    server.ended().await;
}

#[tokio::test]
async fn missing_export_directory_holds_up_retention() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("removed");
    let server = removing_to(&target).await;
    std::fs::remove_dir(&target).unwrap();
    let saga = server.client.run(&json!({ "definition": "greet" })).await;
    let held = |answer: &Answer| !answer.json()["retention"]["held_up"].is_null();
    let health = until(&server.client, "/v1/health", held).await.json();
    assert_eq!(health["status"], "attention");
    let why = health["retention"]["held_up"].as_str().unwrap();
    assert!(why.contains("cannot be exported") && why.contains("see that the folder"), "{why}");
    let path = format!("/v1/sagas/{}", saga["id"].as_str().unwrap());
    assert_eq!(server.client.get(&path).await.status, 200);
    std::fs::create_dir(&target).unwrap();
    until(&server.client, &path, |answer| answer.status == 404).await;
    until(&server.client, "/v1/health", |answer| answer.json()["status"] == "ok").await;
    assert_eq!(exported(&target).len(), 1);
    server.ended().await;
}

/// Starts so many sagas and lets them end.
async fn naps(client: &Client, count: usize) -> Vec<String> {
    let nap = json!({
        "name": "nap", "steps": [{ "id": "rest", "action": { "worker": { "queue": "naps" } } }]
    });
    let headers = [("content-type", "application/json")];
    let declare = "/v1/definitions/nap?apply=true";
    assert!(client.send(Method::PUT, declare, &headers, nap.to_string()).await.status < 300);
    let mut all = Vec::new();
    for _ in 0..count {
        let started = client.post("/v1/sagas", &json!({ "definition": "nap" })).await;
        assert!(started.status < 300, "{started:?}");
        all.push(started.json()["id"].as_str().unwrap().to_owned());
    }
    let mut ended = 0;
    while ended < count {
        let lease = json!({ "queues": ["naps"], "limit": count, "lease_seconds": 30, "wait_seconds": 20 });
        let jobs = client.post("/v1/jobs/lease", &lease).await.json();
        for job in jobs["jobs"].as_array().unwrap() {
            let path = format!("/v1/jobs/{}/complete", job["job_id"]);
            client.post(&path, &json!({ "token": job["token"] })).await;
            ended += 1;
        }
    }
    all
}

#[tokio::test]
async fn kill_during_retention_has_exported_all_deleted_rows() {
    for postgres in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("removed");
        let file = format!("sqlite:{}", folder.path().join("sagas.db").display());
        let db = if postgres { fresh_database().await } else { file };
        let target_text = target.display().to_string();
        let variables = [
            ("BACKSTITCH_RETENTION_EXPORT", target_text.as_str()),
            ("BACKSTITCH_RETENTION_SAGAS_SUCCEEDED", "1ms"),
            ("BACKSTITCH_SAGAS_TICK", "5ms"),
            ("BACKSTITCH_SAGAS_LEASE", "1s"),
        ];
        let mut all = Vec::new();
        for _ in 0..3 {
            let mut program = Program::serve(&db, &variables).await;
            let client = program.client.clone();
            // They go in batches while the next ones end.
            all.extend(naps(&client, 40).await);
            program.child.kill().await.unwrap();
        }
        let program = Program::serve(&db, &variables).await;
        let page = program.client.get("/v1/sagas?limit=200").await.json();
        let left: Vec<&str> =
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
        let kept = exported(&target);
        assert!(!kept.is_empty() && left.len() < all.len(), "some have gone");
        for id in &all {
            let is_kept = kept.iter().any(|line| line["id"] == *id.as_str());
            assert!(left.contains(&id.as_str()) || is_kept, "{id} is nowhere");
        }
    }
}

/// Whatever is to be removed is refused by the database, as if the process never got that far.
async fn hold_back(place: &Place) {
    let trigger = match place {
        Place::Sqlite(_) => {
            "create trigger held_back before delete on sagas begin select raise(abort, 'held back'); end"
        }
        Place::Postgres(_) => {
            "create function held_back() returns trigger language plpgsql
                as $$ begin raise exception 'held back'; end $$;
             create trigger held_back before delete on sagas for each row execute function held_back()"
        }
    };
    place.rows(trigger).await;
}

async fn let_go(place: &Place) {
    let drop = if place.is_shared() { "drop function held_back cascade" } else { "drop trigger held_back" };
    place.rows(drop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_between_export_and_deletion_exports_again() {
    on_both(async |place: Place| {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("removed");
        let variables = [
            ("BACKSTITCH_RETENTION_EXPORT", target.to_str().unwrap()),
            ("BACKSTITCH_RETENTION_SAGAS_SUCCEEDED", "1ms"),
            ("BACKSTITCH_SAGAS_TICK", "5ms"),
            ("BACKSTITCH_SAGAS_LEASE", "1s"),
        ];
        let mut program = Program::serve(&place.db(), &variables).await;
        hold_back(&place).await;
        let sagas = naps(&program.client, 5).await;
        let times = |id: &str| exported(&target).iter().filter(|line| line["id"] == id).count();
        within(async {
            while !sagas.iter().all(|id| times(id) > 0) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        program.child.kill().await.unwrap();
        let before: Vec<usize> = sagas.iter().map(|id| times(id)).collect();
        let left = place.rows(&format!("select {} from sagas", place.id("id"))).await;
        assert_eq!(left.len(), sagas.len(), "nothing has gone");

        let_go(&place).await;
        let program = Program::serve(&place.db(), &variables).await;
        // Rejected removals are parked for a minute.
        let retried = program.client.post("/v1/parked/retry", &json!({})).await;
        assert_eq!(retried.status, 202, "{retried:?}");
        for (id, before) in sagas.iter().zip(before) {
            until(&program.client, &format!("/v1/sagas/{id}"), |answer| answer.status == 404).await;
            assert!(times(id) > before, "{id} was not exported again before it went");
        }
    })
    .await;
}
