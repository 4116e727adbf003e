//! A server with a saga of three services, and the command line.

use std::process::{Output, Stdio};

use backstitch_demo::services::{Behaviour, Phase, Service, Services};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::support::program::command;
use crate::support::{Place, Program, on_both, within};

/// A process that is killed is missed soon.
const MISSED_SOON: [(&str, &str); 4] = [
    ("BACKSTITCH_SAGAS_LEASE", "2s"),
    ("BACKSTITCH_SAGAS_TICK", "100ms"),
    ("BACKSTITCH_LOG_LEVEL", "error"),
    ("BACKSTITCH_EGRESS_ALLOW", "127.0.0.0/8"),
];

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It did what it was asked for.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// It failed, and said why.
    #[track_caller]
    pub(crate) fn failed(self) -> String {
        assert_eq!(self.code, 1, "{self:?}");
        self.stderr
    }

    /// The one object that it printed for programs.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.good();
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
    }

    /// The objects that it printed for programs, one on each line.
    #[track_caller]
    pub(crate) fn lines(self) -> Vec<Value> {
        self.good().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Runs the program to its end, with this on its standard input.
pub(crate) async fn run_with(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Ran {
    let mut command = command(arguments);
    command.envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that never reads its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes()).await;
    Ran::of(within(child.wait_with_output()).await.unwrap())
}

/// The same with a closed output pipe.
pub(crate) async fn run_unread(arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command(arguments);
    command.envs(variables.iter().copied()).stdout(writer).stderr(Stdio::piped());
    // Not `output`, which would read the pipe.
    let child = command.spawn().unwrap();
    Ran::of(within(child.wait_with_output()).await.unwrap())
}

/// A server, the services that it calls, and files to give to commands.
pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) services: Services,
    pub(crate) program: Program,
    pub(crate) server: String,
    pub(crate) files: TempDir,
}

/// Plays a scene on each kind of database.
pub(crate) async fn on_both_stores(scene: impl AsyncFn(Stage)) {
    on_both_stores_with(&[], scene).await;
}

/// The same with more settings.
pub(crate) async fn on_both_stores_with(settings: &[(&str, &str)], scene: impl AsyncFn(Stage)) {
    on_both(async |place| scene(Stage::on(place, settings).await).await).await;
}

impl Stage {
    /// On `SQLite`, where the store does not matter.
    pub(crate) async fn new() -> Self {
        Self::on(Place::Sqlite(tempfile::tempdir().unwrap()), &[]).await
    }

    /// The same with more settings.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(Place::Sqlite(tempfile::tempdir().unwrap()), settings).await
    }

    async fn on(place: Place, settings: &[(&str, &str)]) -> Self {
        let services = Services::start(Behaviour::Succeed).await.unwrap();
        let program =
            Program::logging_to(Stdio::null(), &place.db(), &[&MISSED_SOON, settings].concat()).await;
        let server = format!("http://{}", program.client.address);
        let stage = Self { place, services, program, server, files: tempfile::tempdir().unwrap() };
        stage.declare_order().await;
        stage
    }

    /// `order` calls payment, inventory and logistics, and undoes what they did.
    async fn declare_order(&self) {
        let step = |service: Service| {
            let url = |phase| self.services.url(service, phase);
            json!({
                "id": service.name(),
                "action": { "http": { "url": url(Phase::Do) } },
                "compensate": { "http": { "url": url(Phase::Undo) }, "retry": { "count": 0 } },
                "retry": { "count": 0 },
            })
        };
        let definition = json!({ "name": "order", "steps": Service::ALL.map(step) });
        let file = self.file("order.json", &definition.to_string());
        self.run(&["definitions", "put", &file, "--apply"]).await.good();
    }

    /// A file with this text.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// An input that wishes how services behave: `refuse:inventory`.
    pub(crate) fn wishing(&self, wishes: &[&str]) -> String {
        let items: Vec<Value> = wishes.iter().map(|wish| json!({ "sku": format!("demo:{wish}") })).collect();
        self.file(
            &format!("{}.json", wishes.join("-").replace(':', "_")),
            &json!({ "items": items }).to_string(),
        )
    }

    /// Runs a command that asks this server.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ran {
        self.run_on(arguments, "").await
    }

    /// The same with this on its standard input.
    pub(crate) async fn run_on(&self, arguments: &[&str], input: &str) -> Ran {
        run_with(arguments, &[("BACKSTITCH_SERVER", &self.server)], input).await
    }

    /// Starts an order that has these wishes and gives its id.
    pub(crate) async fn order(&self, wishes: &[&str]) -> String {
        let input = self.wishing(wishes);
        let started = self.run(&["start", "order", "--input", &input, "--json"]).await.json();
        started["id"].as_str().unwrap().to_owned()
    }

    /// The same, and waits for its end, which must be this one.
    pub(crate) async fn ended_order(&self, wishes: &[&str], status: &str) -> String {
        let id = self.order(wishes).await;
        let saga = self.program.client.ended(&id).await;
        assert_eq!(saga["status"], status, "{saga}");
        id
    }

    /// Waits until a service was asked to do its part for an order.
    pub(crate) async fn asked_to_do(&self, order: &str, service: Service) {
        let wanted = |call: &backstitch_demo::services::Call| {
            call.saga == order && call.service == service && call.phase == Phase::Do
        };
        within(self.services.heard(wanted)).await;
    }

    /// Kills the server as a crash would.
    pub(crate) async fn kill(&mut self) {
        self.program.child.kill().await.unwrap();
    }

    /// Starts another one in its place.
    pub(crate) async fn restart(&mut self) {
        let address = self.program.client.address.to_string();
        self.program = Program::listening_on(&address, &self.place.db(), &MISSED_SOON).await;
    }
}
