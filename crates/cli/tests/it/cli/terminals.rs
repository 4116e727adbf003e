//! Terminal output: tables that fit, and moving bars.

use backstitch_demo::services::Service;

use crate::cli::every_verb::{VERBS, Words};
use crate::cli::stage::{Stage, on_both_stores};
use crate::cli::terminal::Terminal;

const USUAL: (u16, u16) = (24, 100);

impl Stage {
    fn terminal(&self, size: (u16, u16), arguments: &[&str]) -> Terminal {
        Terminal::run(size, arguments, &[("BACKSTITCH_SERVER", &self.server)])
    }
}

#[tokio::test]
async fn bars_appear_fill_and_finish() {
    on_both_stores(async |stage| {
        let input = stage.wishing(&["hang:inventory:1x"]);
        let mut terminal = stage.terminal(USUAL, &["start", "order", "--input", &input, "--follow"]);
        // A command that attaches late draws the bars one after the other.
        for words in ["logistics pending", "inventory running", "1/3"] {
            terminal.shows(words).await;
        }
        let screen = terminal.screen();
        assert!(screen.contains("payment succeeded") && screen.contains("logistics pending"), "{screen}");
        assert!(screen.contains('█') && screen.contains('░') && screen.contains("1/3"), "{screen}");
        stage.services.release();
        assert_eq!(terminal.end().await, 0, "{}", terminal.screen());
        let screen = terminal.screen();
        for words in ["✓ succeeded 3/3", "payment succeeded", "inventory succeeded", "logistics succeeded"]
        {
            assert!(screen.contains(words), "{words}: {screen}");
        }
        assert_eq!(screen.matches("payment succeeded").count(), 1, "a bar is drawn in its place: {screen}");
        assert!(screen.contains("✓ succeeded: saga"), "{screen}");
    })
    .await;
}

#[tokio::test]
async fn a_rollback_empties_the_bars_again() {
    let stage = Stage::new().await;
    let id = stage.ended_order(&["refuse:logistics"], "compensated").await;
    let mut terminal = stage.terminal(USUAL, &["follow", &id]);
    assert_eq!(terminal.end().await, 1);
    let screen = terminal.screen();
    for words in
        ["↺ compensated 0/3", "payment compensated", "inventory compensated", "✗", "logistics failed: "]
    {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    assert!(screen.contains("was rolled back (logistics failed: "), "{screen}");
}

#[tokio::test]
async fn follow_waits_for_a_killed_server_and_continues() {
    on_both_stores(async |mut stage| {
        let id = stage.order(&["hang:inventory:1x"]).await;
        stage.asked_to_do(&id, Service::Inventory).await;
        let mut terminal = stage.terminal(USUAL, &["follow", &id, "--patience", "25s"]);
        terminal.shows("inventory running").await;
        stage.kill().await;
        terminal.shows("! lost the server at").await;
        assert!(terminal.screen().contains("trying again for 25s"), "{}", terminal.screen());
        stage.restart().await;
        terminal.shows("✓ back: going on after event").await;
        assert_eq!(terminal.end().await, 0, "{}", terminal.screen());
        let screen = terminal.screen();
        assert!(screen.contains("✓ succeeded 3/3") && screen.contains("logistics succeeded"), "{screen}");
    })
    .await;
}

#[tokio::test]
async fn follow_ends_with_advice_if_the_server_stays_away() {
    let mut stage = Stage::new().await;
    let id = stage.order(&["hang:inventory:1x"]).await;
    stage.asked_to_do(&id, Service::Inventory).await;
    let mut terminal = stage.terminal((24, 250), &["follow", &id, "--patience", "1s"]);
    terminal.shows("inventory running").await;
    stage.kill().await;
    assert_eq!(terminal.end().await, 1);
    let screen = terminal.screen();
    for words in
        ["did not respond within 1s", "is durable and continues", &format!("backstitch follow {id} --after ")]
    {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    stage.restart().await;
    let after = screen.split("--after ").nth(1).unwrap().split_whitespace().next().unwrap();
    let rest = stage.run(&["follow", &id, "--after", after, "--json"]).await.lines();
    let seen: u64 = after.parse().unwrap();
    assert_eq!(rest[0]["seq"], seen + 1, "what was not seen begins right after what was");
    assert_eq!(rest.last().unwrap()["type"], "saga.succeeded");
}

#[tokio::test]
async fn follow_after_an_event_shows_the_earlier_state() {
    let stage = Stage::new().await;
    let id = stage.order(&["hang:inventory:1x"]).await;
    stage.asked_to_do(&id, Service::Inventory).await;
    let seen = stage.run(&["log", &id, "--json"]).await.lines().len().to_string();
    let mut terminal = stage.terminal(USUAL, &["follow", &id, "--after", &seen]);
    // The last of the bars: those above it are there by then.
    terminal.shows("logistics pending").await;
    let screen = terminal.screen();
    for words in ["● running 1/3", "payment succeeded", "inventory running"] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    stage.services.release();
    assert_eq!(terminal.end().await, 0);
    let screen = terminal.screen();
    for words in ["✓ succeeded 3/3", "payment succeeded", "inventory succeeded", "logistics succeeded"] {
        assert!(screen.contains(words), "{words}: {screen}");
    }

    let id = stage.ended_order(&["refuse:logistics"], "compensated").await;
    let seen = stage.run(&["log", &id, "--json"]).await.lines().len().to_string();
    let mut terminal = stage.terminal(USUAL, &["follow", &id, "--after", &seen]);
    assert_eq!(terminal.end().await, 1);
    let screen = terminal.screen();
    for words in ["↺ compensated 0/3", "payment compensated", "was rolled back (logistics failed: "] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
}

#[tokio::test]
async fn ctrl_c_leaves_the_saga_alone_and_says_so() {
    let stage = Stage::new().await;
    let id = stage.order(&["hang:inventory:1x"]).await;
    stage.asked_to_do(&id, Service::Inventory).await;
    let mut terminal = stage.terminal((24, 250), &["follow", &id]);
    terminal.shows("inventory running").await;
    terminal.press(b"\x03").await;
    assert_eq!(terminal.end().await, 1);
    assert!(terminal.screen().contains("continues without this command"), "{}", terminal.screen());
    stage.services.release();
    let saga = stage.program.client.ended(&id).await;
    assert_eq!(saga["status"], "succeeded", "{saga}");
}

#[tokio::test]
async fn bars_fit_a_narrow_terminal_and_one_that_becomes_narrow() {
    let stage = Stage::new().await;
    let id = stage.order(&["hang:inventory:1x"]).await;
    stage.asked_to_do(&id, Service::Inventory).await;
    let mut terminal = stage.terminal((12, 40), &["follow", &id]);
    terminal.shows("inventory running").await;
    assert_eq!(terminal.screen().matches("payment").count(), 1, "a line each: {}", terminal.screen());
    terminal.resize((12, 30));
    stage.services.release();
    assert_eq!(terminal.end().await, 0);
    assert!(terminal.screen().contains("logistics succee"), "{}", terminal.screen());

    // Where there is no room for every step the saga's own bar has to do.
    let mut flat = stage.terminal((4, 60), &["follow", &id]);
    assert_eq!(flat.end().await, 0);
    assert!(flat.screen().contains("✓ succeeded"), "{}", flat.screen());
}

#[tokio::test]
async fn tables_fit_the_terminal_and_ids_are_whole() {
    let stage = Stage::new().await;
    let input = stage.wishing(&[]);
    let long = "東京の注文を確認するための処理".repeat(5);
    let start = ["start", "order", "--input", &input, "--correlation-id", &long, "--json"];
    let id = stage.run(&start).await.json()["id"].as_str().unwrap().to_owned();
    for columns in [52, 60, 80, 100, 140] {
        let mut terminal = stage.terminal((24, columns), &["ps"]);
        assert_eq!(terminal.end().await, 0);
        let screen = terminal.screen();
        let lines: Vec<&str> = screen.lines().collect();
        assert_eq!(lines.len(), 2, "no line is broken at {columns}: {screen}");
        assert!(lines[1].starts_with(&id), "{columns}: {screen}");
    }
    let mut wide = stage.terminal((24, 140), &["ps"]);
    wide.end().await;
    assert!(wide.screen().contains('…'), "what is too long is cut: {}", wide.screen());
    let piped = stage.run(&["ps"]).await.good();
    assert!(piped.contains(&long), "nothing is cut where nobody looks: {piped}");
}

#[tokio::test]
async fn every_table_of_every_verb_fits_the_terminal() {
    const LONG: &str =
        "東京の注文を確認するための処理と、とても長い説明、そしてそれ以上のもの、まだ終わらない";
    let server = Words { text: LONG, id: "0192", status: "running", findings: 0 }.spoken().await;
    let with_tables = ["ps", "show", "log", "list", "audit", "health", "doctor"];
    let has_tables = |verb: &[&str]| {
        verb == ["lifecycles", "dead-letters"] || verb.iter().any(|word| with_tables.contains(word))
    };
    let (mut tables, mut cut) = (0, 0);
    for (verb, _) in VERBS.iter().filter(|(verb, _)| has_tables(verb)) {
        for columns in [50, 80] {
            let variables = [("BACKSTITCH_SERVER", server.url())];
            let variables: Vec<_> = variables.iter().map(|(name, url)| (*name, url.as_str())).collect();
            let mut terminal = Terminal::run((60, columns), verb, &variables);
            terminal.end().await;
            let written = String::from_utf8_lossy(&terminal.written).into_owned();
            // An indented line is part of a record, or a remedy: it is shown completely.
            let lines = written.lines().map(str::trim_end).filter(|line| !line.starts_with("  "));
            for line in lines.filter(|line| !line.starts_with("backstitch: ")) {
                let wide = console::measure_text_width(line);
                assert!(wide <= usize::from(columns), "{verb:?} at {columns}: {line}");
                tables += usize::from(line.contains("0192") || line.contains("running"));
                cut += usize::from(line.contains('…'));
            }
        }
    }
    assert!(tables > 40 && cut > 20, "{tables} lines of tables, {cut} of them cut");
}

#[tokio::test]
async fn there_are_colours_in_a_terminal_unless_they_are_unwanted() {
    let stage = Stage::new().await;
    stage.ended_order(&[], "succeeded").await;
    let coloured = async |variables: &[(&str, &str)], arguments: &[&str]| {
        let server = [("BACKSTITCH_SERVER", stage.server.as_str())];
        let mut terminal = Terminal::run(USUAL, arguments, &[&server, variables].concat());
        assert_eq!(terminal.end().await, 0);
        assert!(terminal.screen().contains("succeeded"), "{}", terminal.screen());
        String::from_utf8_lossy(&terminal.written).contains("\u{1b}[")
    };
    assert!(coloured(&[], &["ps"]).await);
    assert!(!coloured(&[("NO_COLOR", "1")], &["ps"]).await);
    assert!(!coloured(&[], &["ps", "--json"]).await);
}
