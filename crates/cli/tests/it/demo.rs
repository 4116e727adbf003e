//! The demo, as a new user sees it.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use backstitch_testkit::postgres::{Signal, send_signal};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Far more than the tour takes: what is not there by then never comes.
const WITHIN: Duration = backstitch_testkit::PATIENCE;

const SCENES: [&str; 6] = [
    "An order completes",
    "Inventory refuses, the payment is refunded",
    "Logistics does not answer in time, all three are rolled back",
    "The refund keeps failing, an operator is alerted and resolves it",
    "The services change places between two orders",
    "The server is killed in the middle of an order and continues",
];

async fn within<T>(coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, coming).await.unwrap_or_else(|_| panic!("nothing came within {WITHIN:?}"))
}

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backstitch"));
    command.arg("demo").args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn output_of(arguments: &[&str]) -> (Output, String) {
    let output = within(demo(arguments).output()).await.unwrap();
    let shown = String::from_utf8(output.stdout.clone()).unwrap();
    (output, shown)
}

/// What comes after these words, up to the next blank or comma.
fn words_after<'a>(shown: &'a str, words: &str) -> Vec<&'a str> {
    let ends = |char: char| char.is_whitespace() || char == ',';
    shown.split(words).skip(1).map(|rest| rest.split(ends).next().unwrap()).collect()
}

#[track_caller]
fn assert_nothing_is_left_of(shown: &str, servers: usize) {
    let folders = words_after(shown, "kept in ");
    assert!(folders.len() == 1 && !Path::new(folders[0]).exists(), "{shown}");
    let processes = words_after(shown, "as process ");
    assert_eq!(processes.len(), servers, "{shown}");
    for process in processes {
        assert!(!Path::new("/proc").join(process).exists(), "process {process} is left behind:\n{shown}");
    }
}

#[tokio::test]
async fn the_tour_ends_well_and_leaves_nothing_behind() {
    let (output, shown) = output_of(&["--once"]).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}\n{shown}");
    let (_, summary) = shown.split_once("Summary").unwrap_or_else(|| panic!("no summary:\n{shown}"));
    for (position, scene) in SCENES.into_iter().enumerate() {
        let line = format!("✓ {}  {scene}", position + 1);
        assert!(summary.contains(&line), "{scene}:\n{shown}");
    }
    assert!(summary.contains("7 of 7 scenes ended as they should"), "{shown}");
    assert!(!shown.contains('\x1b'), "no colours where there is no terminal");
    assert_nothing_is_left_of(&shown, 2);
}

#[tokio::test]
async fn an_interrupted_tour_leaves_nothing_behind_either() {
    let mut child = demo(&["--once"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut shown = String::new();
    while let Some(line) = within(lines.next_line()).await.unwrap() {
        shown = format!("{shown}{line}\n");
        if line.contains("Order accepted") {
            send_signal(&[child.id().unwrap()], Signal::Terminate).unwrap();
            break;
        }
    }
    let output = within(child.wait_with_output()).await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
    assert_nothing_is_left_of(&shown, 1);
}

#[tokio::test]
async fn a_tour_that_goes_wrong_fails_and_keeps_the_log() {
    let mut child = demo(&["--once"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut shown = within(lines.next_line()).await.unwrap().unwrap();
    let server = words_after(&shown, "as process ")[0].parse().unwrap();
    send_signal(&[server], Signal::Kill).unwrap();
    while let Some(line) = within(lines.next_line()).await.unwrap() {
        shown = format!("{shown}\n{line}");
    }
    let output = within(child.wait_with_output()).await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("✗ 6  The server is killed"), "{shown}");
    assert!(told.contains("scenes did not end as they should"), "{told}");
    let log = Path::new(words_after(&told, "the server's log is in ")[0]);
    assert!(log.exists(), "{told}");
    std::fs::remove_dir_all(log.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn a_demonstration_that_cannot_begin_says_why() {
    let (output, shown) = output_of(&["--once", "--listen", "0.0.0.0:0"]).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(told.contains("there is no API key") && told.contains("the server's log is in"), "{told}");
    for log in words_after(&told, "the server's log is in ") {
        std::fs::remove_dir_all(Path::new(log).parent().unwrap()).unwrap();
    }
}
