//! Help, completions and the manual.

use crate::cli::stage::run_with;

/// Commands without a server.
const LOCAL: [&str; 8] = ["demo", "serve", "migrate", "keys", "check", "bench", "completions", "man"];

/// Every command, as words.
async fn commands() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut unread = vec![Vec::new()];
    while let Some(words) = unread.pop() {
        let page = help(&words).await;
        let listed = page.split_once("Options:").map_or(page.as_str(), |(commands, _)| commands);
        let listed = listed.split_once(if words.is_empty() { "Run it:" } else { "Commands:" });
        let lines = listed.map_or("", |(_, commands)| commands).lines();
        for line in lines.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            let word = line.split_whitespace().next().unwrap();
            if word != "help" {
                unread.push([words.clone(), vec![word.to_owned()]].concat());
            }
        }
        found.push(words);
    }
    found
}

/// Remote commands without subcommands.
pub(crate) async fn verbs() -> Vec<Vec<String>> {
    let all = commands().await;
    let asks = |words: &Vec<String>| words.first().is_some_and(|first| !LOCAL.contains(&first.as_str()));
    let is_group =
        |words: &[String]| all.iter().any(|other| other.len() > words.len() && other.starts_with(words));
    all.iter().filter(|words| asks(words) && !is_group(words)).cloned().collect()
}

async fn help(words: &[String]) -> String {
    let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    run_with(&arguments, &[], "").await.good()
}

#[tokio::test]
async fn every_remote_command_has_a_valid_example() {
    let commands = commands().await;
    assert!(commands.len() > 50, "{commands:?}");
    let mut understood = 0;
    for words in commands.iter().filter(|words| !words.is_empty() && !LOCAL.contains(&words[0].as_str())) {
        let page = help(words).await;
        let (_, shown) = page.split_once("\nExample").unwrap_or(("", ""));
        let examples: Vec<&str> =
            shown.lines().filter_map(|line| line.split_once("backstitch ")).map(|(_, rest)| rest).collect();
        let command = words.join(" ");
        let own = examples.iter().filter(|example| example.starts_with(&command));
        assert!(own.count() > 0 || page.contains("Commands:"), "`{command} --help` shows no example: {page}");
        for example in examples.iter().filter(|example| example.starts_with(&words[0])) {
            let alone = example.split(['|', '#', '>', '`']).next().unwrap();
            assert_ne!(code_of(alone).await, Some(2), "{example}");
            understood += 1;
        }
    }
    assert!(understood > 50, "{understood} examples");
}

/// The exit code of an example where no server is.
async fn code_of(example: &str) -> Option<i32> {
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\" {example}"), crate::support::program::BINARY]);
    shell.env("BACKSTITCH_SERVER", "http://127.0.0.1:1").current_dir("/").stdin(std::process::Stdio::null());
    crate::support::within(shell.output()).await.unwrap().status.code()
}

#[tokio::test]
async fn the_first_page_puts_every_command_into_a_group() {
    let page = help(&[]).await;
    for title in ["Run it:", "Sagas:", "Operate:", "Declare and send:", "Products:", "Tools:"] {
        assert!(page.contains(title), "{title}: {page}");
    }
    assert!(!page.contains("More:"), "a command is in no group: {page}");
    for verb in [
        "start",
        "ps",
        "show",
        "log",
        "follow",
        "cancel",
        "pause",
        "resume",
        "resolve",
        "dead-letters",
        "outbox",
        "parked",
        "webhooks",
        "lifecycles",
        "alerts",
        "audit",
        "definitions",
        "doctor",
        "health",
        "orders",
        "sites",
        "completions",
        "man",
        "serve",
        "demo",
        "check",
        "migrate",
        "keys",
        "bench",
    ] {
        let listed = page.lines().filter(|line| line.starts_with(&format!("  {verb} "))).count();
        assert_eq!(listed, 1, "{verb}: {page}");
    }
}

#[tokio::test]
async fn shells_learn_every_verb() {
    for (shell, sign) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef backstitch"),
        ("fish", "complete -c backstitch"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = run_with(&["completions", shell], &[], "").await.good();
        assert!(script.contains(sign), "{shell}");
        for word in ["dead-letters", "rotate-secret", "follow"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
}

#[tokio::test]
async fn the_manual_has_a_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man1").display().to_string();
    run_with(&["man", "--dir", &dir], &[], "").await.good();
    for words in commands().await {
        let name = std::iter::once("backstitch".to_owned()).chain(words).collect::<Vec<_>>().join("-");
        let page =
            std::fs::read_to_string(format!("{dir}/{name}.1")).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(page.contains(".SH NAME"), "{name}");
    }
    let page = run_with(&["man"], &[], "").await.good();
    assert!(page.contains(".TH backstitch 1"), "{page}");
}
