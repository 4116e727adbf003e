//! Guides that are followed step by step are followed here: every command in them works, in the order they stand.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_backstitch");

/// A file of this repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The commands of a guide, one block after the other.
fn commands(guide: &str) -> String {
    let text = file(&format!("docs/guides/{guide}"));
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.collect()
}

/// Two ports that nobody has.
fn ports() -> [String; 2] {
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    taken.map(|listener| listener.local_addr().unwrap().port().to_string())
}

/// Follows a guide and gives what was printed. Another process can take a port before the guide does: then the guide is
/// followed again at other ports.
fn follow(guide: &str) -> String {
    const TRIES: usize = 5;
    let mut tries = 0;
    loop {
        tries += 1;
        let output = follow_once(guide);
        let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            return said.into_owned();
        }
        let is_port_taken = told.contains("cannot listen on") || told.contains("Address already in use");
        assert!(is_port_taken && tries < TRIES, "{guide}:\n{said}\n{told}");
    }
}

/// Follows a guide in a folder of its own, at ports of its own.
fn follow_once(guide: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let [server, other] = ports();
    let steps = commands(guide).replace("7420", &server).replace("8080", &other);
    // Whatever was started in the background ends with the guide.
    let script = format!("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n{steps}");
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

/// A unit of systemd, by the names of its settings.
struct Unit(String);

impl Unit {
    #[track_caller]
    fn says(&self, name: &str) -> &str {
        let named = |line| str::strip_prefix(line, name)?.strip_prefix('=');
        self.0.lines().find_map(named).unwrap_or_else(|| panic!("the unit has no {name}"))
    }
}

/// The words of the one command that has all of these.
#[track_caller]
fn command_with<'a>(commands: &'a str, words: &[&str]) -> Vec<&'a str> {
    let lines = commands.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let meant: Vec<_> = lines.filter(|line| words.iter().all(|word| line.contains(word))).collect();
    let [command] = meant.as_slice() else { panic!("{words:?} stand in {} commands", meant.len()) };
    command.clone()
}

/// What is given after a flag.
#[track_caller]
fn given<'a>(words: &[&'a str], flag: &str) -> &'a str {
    let at = words.iter().position(|word| *word == flag).unwrap_or_else(|| panic!("no {flag} in {words:?}"));
    words[at + 1]
}

/// A server that ends with its test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_service_that_is_installed_as_the_guide_says_may_read_its_settings_and_knows_the_key() {
    let (guide, unit) = (commands("running-it.md"), Unit(file("deploy/backstitch.service")));
    let start: Vec<&str> = unit.says("ExecStart").split(' ').collect();
    let (program, settings) = (start[0], given(&start, "--config"));
    let (user, group) = (unit.says("User"), unit.says("Group"));
    let state = format!("/var/lib/{}", unit.says("StateDirectory"));

    let made = command_with(&guide, &["useradd", "--user-group"]);
    assert_eq!((made.last(), group), (Some(&user), user), "the user of the unit is made, with its group");
    let directory = command_with(&guide, &["install", "-d", &state]);
    assert_eq!((given(&directory, "-o"), given(&directory, "-m")), (user, "700"));
    let copied = command_with(&guide, &["install", "deploy/backstitch.toml", settings]);
    assert_eq!(
        (given(&copied, "-g"), given(&copied, "-m")),
        (group, "640"),
        "the server may read its settings"
    );
    let (folder, _) = program.rsplit_once('/').unwrap();
    command_with(&guide, &["install", "target/dist/backstitch", &format!("{folder}/")]);
    let key = command_with(&guide, &["keys", "create"]);
    assert_eq!(key[..5], ["runuser", "-u", user, "--", program]);

    // The same beneath a folder that stands for the root.
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
    server.current_dir(beneath(unit.says("WorkingDirectory"))).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Served(server.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("it does not start: {line}"));
    let ask = ["ps", "--server", address].map(str::to_owned);
    assert_eq!(run(&ask, &[]).status.code(), Some(1), "everybody needs a key");
    assert_eq!(run(&ask, &[("BACKSTITCH_KEY", &key)]).status.code(), Some(0), "and this one is known");
}
