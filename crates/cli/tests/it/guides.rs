//! Runs the step-by-step guides: every command in them works, in the order in which they are written.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_backstitch");

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// All `sh` blocks of a guide in one script.
fn commands(guide: &str) -> String {
    let text = file(&format!("docs/guides/{guide}"));
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.collect()
}

/// Two free ports.
fn free_ports() -> [String; 2] {
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    taken.map(|listener| listener.local_addr().unwrap().port().to_string())
}

/// Runs a guide and returns its output. Another process can take a port before the guide does, so the guide is then run
/// again with other ports.
fn run_guide(guide: &str) -> String {
    const TRIES: usize = 5;
    let mut tries = 0;
    loop {
        tries += 1;
        let output = run_guide_once(guide);
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            return stdout.into_owned();
        }
        let is_port_taken = stderr.contains("cannot listen on") || stderr.contains("Address already in use");
        assert!(is_port_taken && tries < TRIES, "{guide}:\n{stdout}\n{stderr}");
    }
}

/// Runs a guide in a directory and with ports of its own.
fn run_guide_once(guide: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let [server, other] = free_ports();
    let steps = commands(guide).replace("7420", &server).replace("8080", &other);
    // Ends the background processes of a guide that fails before its last step.
    let script = format!("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{steps}");
    let program = Path::new(BINARY).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command.args(["120", "bash", "-c", &script]).current_dir(&folder).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BACKSTITCH_")) {
        command.env_remove(name);
    }
    command.env("PATH", path).env("BACKSTITCH_SERVER", format!("http://127.0.0.1:{server}"));
    command.env("BACKSTITCH_LISTEN", format!("127.0.0.1:{server}"));
    command.output().unwrap()
}

#[test]
fn first_saga_guide_shows_a_rollback() {
    let output = run_guide("first-saga-over-http.md");
    assert!(output.contains("trip-2 was rolled back") && output.contains("compensated"), "{output}");
    let calls: Vec<_> = output.lines().skip_while(|line| *line != "422 /hotel/book").collect();
    assert!(calls.starts_with(&["422 /hotel/book", "200 /flight/cancel"]), "{output}");
}

#[test]
fn webhook_guide_requeues_a_dead_letter_that_then_arrives() {
    let output = run_guide("webhooks.md");
    let received: Vec<_> = output.lines().filter(|line| line.contains(r#""order": 17"#)).collect();
    assert!(received.len() >= 2 && received.iter().all(|line| line.starts_with("new:")), "{output}");
}

#[test]
fn lifecycle_guide_moves_parcels_by_hand_and_by_the_server() {
    let output = run_guide("lifecycles.md");
    assert!(
        output.contains("refused: no such edge") && output.contains("refused: the parcel has ended"),
        "{output}"
    );
}

/// The settings of a systemd unit.
struct Unit(String);

impl Unit {
    #[track_caller]
    fn setting(&self, name: &str) -> &str {
        let named = |line| str::strip_prefix(line, name)?.strip_prefix('=');
        self.0.lines().find_map(named).unwrap_or_else(|| panic!("the unit has no {name}"))
    }
}

/// The words of the only command that contains all of `words`.
#[track_caller]
fn command_with<'a>(commands: &'a str, words: &[&str]) -> Vec<&'a str> {
    let lines = commands.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let matching: Vec<_> = lines.filter(|line| words.iter().all(|word| line.contains(word))).collect();
    let [command] = matching.as_slice() else { panic!("{words:?} are in {} commands", matching.len()) };
    command.clone()
}

/// The value of a flag.
#[track_caller]
fn flag_value<'a>(words: &[&'a str], flag: &str) -> &'a str {
    let at = words.iter().position(|word| *word == flag).unwrap_or_else(|| panic!("no {flag} in {words:?}"));
    words[at + 1]
}

/// A server that is killed on drop.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn installed_service_reads_its_settings_and_accepts_its_key() {
    let (guide, unit) = (commands("running-it.md"), Unit(file("deploy/backstitch.service")));
    let start: Vec<&str> = unit.setting("ExecStart").split(' ').collect();
    let (program, settings) = (start[0], flag_value(&start, "--config"));
    let (user, group) = (unit.setting("User"), unit.setting("Group"));
    let state = format!("/var/lib/{}", unit.setting("StateDirectory"));

    let made = command_with(&guide, &["useradd", "--user-group"]);
    assert_eq!((made.last(), group), (Some(&user), user), "the unit's user is created with its group");
    let directory = command_with(&guide, &["install", "-d", &state]);
    assert_eq!((flag_value(&directory, "-o"), flag_value(&directory, "-m")), (user, "700"));
    let copied = command_with(&guide, &["install", "deploy/backstitch.toml", settings]);
    assert_eq!(
        (flag_value(&copied, "-g"), flag_value(&copied, "-m")),
        (group, "640"),
        "the server can read its settings"
    );
    let (folder, _) = program.rsplit_once('/').unwrap();
    command_with(&guide, &["install", "target/dist/backstitch", &format!("{folder}/")]);
    let key = command_with(&guide, &["keys", "create"]);
    assert_eq!(key[..5], ["runuser", "-u", user, "--", program]);

    // The same below a directory in place of the root.
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let beneath = |path: &str| format!("{}{path}", root.display());
    for directory in [&state, Path::new(settings).parent().unwrap().to_str().unwrap()] {
        std::fs::create_dir_all(beneath(directory)).unwrap();
    }
    let written = file("deploy/backstitch.toml");
    assert!(written.contains(&format!("\"sqlite:{state}/")), "{written}");
    std::fs::write(beneath(settings), written.replace(&state, &beneath(&state))).unwrap();
    let words = |words: &[&str]| -> Vec<String> {
        words
            .iter()
            .map(|word| if *word == settings { beneath(settings) } else { (*word).to_owned() })
            .collect()
    };
    let run = |words: &[String], variables: &[(&str, &str)]| -> Output {
        let mut command = Command::new(BINARY);
        command.args(words).envs(variables.iter().copied()).current_dir("/").output().unwrap()
    };

    let made = run(&words(&key[5..]), &[]);
    assert!(made.status.success(), "{made:?}");
    let key = String::from_utf8(made.stdout).unwrap();
    let mut server = Command::new(BINARY);
    server.args(words(&start[1..])).args(["--listen", "127.0.0.1:0"]);
    server
        .current_dir(beneath(unit.setting("WorkingDirectory")))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = KilledOnDrop(server.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .unwrap_or_else(|| panic!("the server did not start: {line}"));
    let ask = ["ps", "--server", address].map(str::to_owned);
    assert_eq!(run(&ask, &[]).status.code(), Some(1), "a request without a key is refused");
    assert_eq!(run(&ask, &[("BACKSTITCH_KEY", &key)]).status.code(), Some(0), "the created key is accepted");
}
