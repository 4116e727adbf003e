//! Runs schemathesis.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use backstitch_testkit::scale;
use serde_json::Value;
use tokio::process::Command;

use crate::support::population::{DEFINITIONS, ENDED, MACHINES, Population, UNDER_WAY};

const SETTINGS: &str = include_str!("schemathesis.toml");
const CHECKS: &str = include_str!("checks.py");

/// Its name in the folder where schemathesis runs.
const DESCRIPTION: &str = "openapi.json";

/// Makes up requests.
pub(crate) struct Fuzzer {
    folder: PathBuf,
    settings: PathBuf,
    server: SocketAddr,
}

impl Fuzzer {
    /// The made-up requests are about what there is, every other time.
    pub(crate) fn new(folder: &Path, server: SocketAddr, description: &Value, there: &Population) -> Self {
        let settings = folder.join("schemathesis.toml");
        let dictionary = |name: &str, values: String| format!("\n[dictionaries.{name}]\nvalues = {values}\n");
        let known = [
            dictionary("sagas", format!("{:?}", [&*there.waiting, &*there.ended].concat())),
            dictionary("ended", format!("{:?}", there.ended)),
            dictionary("orders", format!("{:?}", there.orders)),
            dictionary("definitions", format!("{DEFINITIONS:?}")),
            dictionary("machines", format!("{MACHINES:?}")),
            dictionary("keys", format!("{:?}", [UNDER_WAY, ENDED].concat())),
            dictionary("ended_keys", format!("{ENDED:?}")),
            dictionary("jobs", format!("{:?}", there.jobs)),
            dictionary("tokens", format!("{:?}", there.tokens)),
            dictionary("subscriptions", format!("{:?}", there.subscriptions)),
            dictionary("events", format!("{:?}", there.events)),
            dictionary("deliveries", format!("{:?}", there.deliveries)),
        ];
        std::fs::write(folder.join("checks.py"), CHECKS).unwrap();
        std::fs::write(folder.join(DESCRIPTION), description.to_string()).unwrap();
        std::fs::write(&settings, format!("{}{}", settings_at_scale(), known.concat())).unwrap();
        Self { folder: folder.to_owned(), settings, server }
    }

    /// Fuzzes every route with this role in these phases; failures are reported by schemathesis.
    pub(crate) async fn run(&self, who: &str, key: Option<&str>, phases: &str) -> Option<String> {
        let mut command = Command::new(program());
        command.arg("--config-file").arg(&self.settings);
        command.args(["run", DESCRIPTION, "--url", &format!("http://{}", self.server), "--phases", phases]);
        if let Some(key) = key {
            command.args(["--header", &format!("Authorization: Bearer {key}")]);
        }
        // Whatever it writes beside its answer goes where it vanishes with the test.
        let output = command.current_dir(&self.folder).kill_on_drop(true).output().await.unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        println!("as {who}: {}", summary(&said));
        (!output.status.success()).then(|| format!("as {who}:\n{said}"))
    }
}

fn settings_at_scale() -> String {
    SETTINGS
        .replace("{seed}", &scale::seed(7420).to_string())
        .replace("{examples}", &scale::fuzz_examples().to_string())
}

fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fuzz-venv/bin/schemathesis");
    assert!(program.exists(), "{} is missing: `./test` installs it", program.display());
    program
}

/// The number of generated requests, and the result.
fn summary(said: &str) -> &str {
    said.lines().rev().find(|line| line.contains(" generated")).unwrap_or("nothing was tried").trim()
}
