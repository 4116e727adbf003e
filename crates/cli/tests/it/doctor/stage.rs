//! A server with a doctor, and requests to it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::program::command;
use crate::support::{Client, Place, Program, within};

pub(crate) const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
/// Everything is worth a word at once, and no disk is too full for a test.
const AT_ONCE: [(&str, &str); 9] = [
    ("BACKSTITCH_DOCTOR_UNCLAIMED_AFTER", "0s"),
    ("BACKSTITCH_DOCTOR_UNDELIVERED_AFTER", "0s"),
    ("BACKSTITCH_DOCTOR_STUCK_AFTER", "0s"),
    ("BACKSTITCH_DOCTOR_QUEUED_AFTER", "0s"),
    ("BACKSTITCH_DOCTOR_DISK_WARNING_BYTES", "0"),
    ("BACKSTITCH_DOCTOR_DISK_WARNING_PERCENT", "0"),
    ("BACKSTITCH_DOCTOR_DISK_ERROR_BYTES", "0"),
    ("BACKSTITCH_DOCTOR_DISK_ERROR_PERCENT", "0"),
    ("BACKSTITCH_EGRESS_ALLOW", "127.0.0.0/8"),
];
/// Disables the poll for work without notification.
pub(crate) const BLIND: (&str, &str) = ("BACKSTITCH_SAGAS_TICK", "1h");

/// A server that is running.
pub(crate) struct Open {
    pub(crate) client: Client,
    program: Program,
}

/// A server whose doctor speaks at once.
pub(crate) async fn open(place: &Place, variables: &[(&str, &str)]) -> Open {
    open_by(command(&["serve", "--db", &place.db(), "--listen", "127.0.0.1:0"]), variables).await
}

/// The same by a command that becomes a server.
pub(crate) async fn open_by(command: Command, variables: &[(&str, &str)]) -> Open {
    let program = Program::start(command, Stdio::piped(), &[&AT_ONCE, variables].concat()).await;
    Open { client: program.client.clone(), program }
}

impl Open {
    /// Where the server sees a path of its own.
    pub(crate) fn inside(&self, path: &Path) -> PathBuf {
        let process = self.program.child.id().unwrap();
        PathBuf::from(format!("/proc/{process}/root{}", path.display()))
    }

    /// What the doctor says, which is looked at as a whole.
    pub(crate) async fn diagnosis(&self) -> Value {
        let answer = self.client.get("/v1/doctor").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let said = answer.json();
        let findings = said["findings"].as_array().unwrap();
        for finding in findings {
            let has_words = |name: &str| finding[name].as_str().is_some_and(|words| !words.is_empty());
            assert!(has_words("check") && has_words("message") && has_words("action"), "{finding}");
            assert!(["error", "warning"].contains(&finding["severity"].as_str().unwrap()), "{finding}");
            assert!(finding["subject"].is_null() || has_words("subject"), "{finding}");
        }
        let worst = |name: &Value| {
            let of =
                |severity: &str| findings.iter().any(|it| it["check"] == *name && it["severity"] == severity);
            if of("error") {
                "error"
            } else if of("warning") {
                "warning"
            } else {
                "ok"
            }
        };
        for check in said["checks"].as_array().unwrap() {
            assert_eq!(check["status"], worst(&check["name"]), "{check} {findings:?}");
        }
        assert_eq!(said["status"], if findings.is_empty() { "ok" } else { "attention" });
        said
    }

    /// What a check has found, as severity and subject.
    pub(crate) async fn found(&self, check: &str) -> Vec<(String, String)> {
        told(&self.diagnosis().await, check)
    }

    /// Waits until a check has found something about this.
    pub(crate) async fn finds(&self, check: &str, severity: &str, subject: &str) -> Value {
        within(async {
            loop {
                let said = self.diagnosis().await;
                let findings = said["findings"].as_array().unwrap();
                let about = |finding: &&Value| {
                    let of = finding["subject"].as_str().unwrap_or_default();
                    finding["check"] == check && finding["severity"] == severity && of == subject
                };
                if let Some(finding) = findings.iter().find(about) {
                    return finding.clone();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
    }

    /// Waits until a check has nothing to say any more.
    pub(crate) async fn is_well(&self, check: &str) {
        within(async {
            while !self.found(check).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    }

    /// Declares a saga of two steps that workers perform; it stays with its node while the first one waits.
    pub(crate) async fn declare(&self) {
        let steps = json!({"steps": [
            {"id": "pack", "action": {"worker": {"queue": "packing"}}, "timeout": "50s",
             "compensate": {"worker": {"queue": "unpacking"}, "retry": {"count": 0}}},
            {"id": "send", "action": {"worker": {"queue": "post"}}},
        ]});
        self.put("parcel", &steps).await;
    }

    /// Declares a saga that new ones take at once.
    pub(crate) async fn put(&self, name: &str, definition: &Value) {
        let mut body = definition.clone();
        body["name"] = json!(name);
        let path = format!("/v1/definitions/{name}?apply=true");
        let answer = self.client.send(Method::PUT, &path, &JSON, body.to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    pub(crate) async fn start(&self) -> String {
        self.client.start(&json!({ "definition": "parcel" })).await
    }

    /// Takes the job of a queue for so many seconds.
    pub(crate) async fn lease(&self, queue: &str, seconds: u64) -> Value {
        self.client.lease(&json!({"queues": [queue], "lease_seconds": seconds})).await.remove(0)
    }

    pub(crate) async fn report(&self, job: &Value, what: &str, mut body: Value) {
        body["token"] = job["token"].clone();
        let answer = self.client.post(&format!("/v1/jobs/{}/{what}", job["job_id"]), &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    pub(crate) async fn post(&self, path: &str, body: &Value, status: u16) -> Value {
        let answer = self.client.post(path, body).await;
        assert_eq!(answer.status, status, "{answer:?}");
        answer.json()
    }
}

/// What a check has found, as severity and subject.
pub(crate) fn told(said: &Value, check: &str) -> Vec<(String, String)> {
    let findings = said["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings.map(|finding| (text(&finding["severity"]), text(&finding["subject"]))).collect()
}

/// A time so many seconds from now, in SQL.
pub(crate) fn in_seconds(place: &Place, seconds: i64) -> String {
    match place {
        Place::Sqlite(_) => format!("((unixepoch() + {seconds}) * 1000000)"),
        Place::Postgres(_) => format!("(now() + {seconds} * interval '1 second')"),
    }
}

/// A saga's id in SQL.
pub(crate) fn id(place: &Place, id: &str) -> String {
    match place {
        Place::Sqlite(_) => format!("x'{}'", id.replace('-', "")),
        Place::Postgres(_) => format!("'{id}'::uuid"),
    }
}

/// The id of a saga that only a test makes, as text.
pub(crate) fn made_up(number: u32) -> String {
    format!("019b0000-0000-7000-8000-{number:012}")
}

/// Writes a saga's row as no program of ours would. `owner` and `wake_at` are SQL.
pub(crate) async fn plant(place: &Place, number: u32, definition: &str, owner: &str, wake_at: &str) {
    let (id, now) = (id(place, &made_up(number)), in_seconds(place, 0));
    let row = format!(
        "insert into sagas (id, definition, version, status, owner, wake_at, created_at, updated_at)
         values ({id}, '{definition}', 1, 'running', {owner}, {wake_at}, {now}, {now})"
    );
    place.rows(&row).await;
}
