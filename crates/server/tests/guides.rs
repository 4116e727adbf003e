//! Guides that are followed step by step are followed here: every command in them works, in the order they stand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands of a guide, one block after the other.
fn commands(guide: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(guide);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.collect()
}

/// Two ports that nobody has.
fn ports() -> [String; 2] {
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    taken.map(|listener| listener.local_addr().unwrap().port().to_string())
}

/// Follows a guide in a folder of its own, at ports of its own, and gives what was printed.
fn follow(guide: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let [server, other] = ports();
    let steps = commands(guide).replace("7420", &server).replace("8080", &other);
    // Whatever was started in the background ends with the guide.
    let script = format!("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n{steps}");
    let program = Path::new(env!("CARGO_BIN_EXE_backstitch")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command.args(["120", "bash", "-c", &script]).current_dir(&folder).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BACKSTITCH_")) {
        command.env_remove(name);
    }
    command.env("PATH", path).env("BACKSTITCH_SERVER", format!("http://127.0.0.1:{server}"));
    command.env("BACKSTITCH_LISTEN", format!("127.0.0.1:{server}"));
    let output = command.output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{guide}:\n{said}\n{told}");
    said.into_owned()
}

#[test]
fn the_guide_to_webhooks_leads_from_a_receiver_to_a_dead_letter_that_arrived_after_all() {
    let said = follow("webhooks.md");
    let received: Vec<_> = said.lines().filter(|line| line.contains(r#""order": 17"#)).collect();
    assert!(received.len() >= 2 && received.iter().all(|line| line.starts_with("new:")), "{said}");
}

#[test]
fn the_guide_to_lifecycles_leads_from_a_machine_to_parcels_that_the_server_moves() {
    let said = follow("lifecycles.md");
    assert!(said.contains("refused, as it should be") && said.contains("it is at its end"), "{said}");
}
