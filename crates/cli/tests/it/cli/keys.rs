//! `keys`, which uses the database directly.

use tempfile::TempDir;

use crate::cli::stage::{Ran, run_unread, run_with};
use crate::cli::terminal::Terminal;

struct Keys {
    _folder: TempDir,
    db: String,
}

impl Keys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { db: format!("sqlite:{}", folder.path().join("keys.db").display()), _folder: folder }
    }

    fn words<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        [&["keys"], arguments, &["--db", &self.db]].concat()
    }

    async fn run(&self, arguments: &[&str]) -> Ran {
        run_with(&self.words(arguments), &[], "").await
    }

    /// The same with a closed output pipe.
    async fn unread(&self, arguments: &[&str]) -> Ran {
        run_unread(&self.words(arguments), &[]).await
    }
}

#[tokio::test]
async fn unprinted_key_error_names_the_revoke_command() {
    let keys = Keys::new();
    let lost = keys.unread(&["create", "--role", "admin", "--name", "ada"]).await.failed();
    assert!(lost.contains("could not be printed") && lost.contains("`backstitch keys revoke 1`"), "{lost}");
    let revoked = keys.run(&["revoke", "1"]).await.good();
    assert_eq!(revoked, "key 1 is revoked; servers refuse it within two seconds\n");
    assert!(keys.run(&["list"]).await.good().contains("– revoked"));
    for arguments in [&["list"][..], &["list", "--json"]] {
        let unread = keys.unread(arguments).await;
        assert_eq!(
            (unread.code, unread.stderr.as_str()),
            (0, ""),
            "who has seen enough is not told of an error"
        );
    }
}

#[tokio::test]
async fn keys_are_listed_in_a_table_with_escaped_names() {
    let keys = Keys::new();
    let nobody = keys.run(&["list"]).await;
    assert!(nobody.stderr.contains("backstitch keys create"), "{nobody:?}");
    let long = "東京の注文を確認する人".repeat(8);
    for (name, expires) in [("\u{1b}[2J\rada", "90d"), (&long, "1s")] {
        let made = keys.run(&["create", "--role", "operator", "--name", name, "--expires", expires]).await;
        assert!(made.good().starts_with("bsk_"));
    }
    let piped = keys.run(&["list"]).await.good();
    assert!(piped.contains(&long) && piped.contains("\\u{1b}[2J\\rada"), "{piped}");
    assert!(piped.contains("✓ good") && piped.contains("in 89d"), "{piped}");
    for columns in [30, 60, 80] {
        let mut terminal = Terminal::run((24, columns), &keys.words(&["list"]), &[("NO_COLOR", "1")]);
        assert_eq!(terminal.end().await, 0);
        let screen = terminal.screen();
        let lines: Vec<&str> = screen.lines().collect();
        assert_eq!(lines.len(), 3, "no line is broken at {columns}: {screen}");
        assert!(lines[1].starts_with("1 ") && lines[2].starts_with("2 "), "{columns}: {screen}");
        assert!(!terminal.written.contains(&0x1b), "{columns}: {screen}");
    }
}

#[tokio::test]
async fn programs_get_keys_as_json() {
    let keys = Keys::new();
    let made = keys.run(&["create", "--role", "viewer", "--name", "ada", "--json"]).await;
    assert_eq!(made.stderr, "", "nothing is said beside it");
    let made = made.json();
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("bsk_"), "{made}");
    let listed = keys.run(&["list", "--json"]).await.json();
    let one = &listed["items"][0];
    assert_eq!((&one["id"], &one["name"], &one["state"]), (&made["id"], &"ada".into(), &"good".into()));
    assert!(key.ends_with(one["last_four"].as_str().unwrap()), "{listed}");
    let id = made["id"].to_string();
    assert_eq!(keys.run(&["revoke", &id, "--json"]).await.json()["state"], "revoked");
    let again = keys.run(&["revoke", &id]).await.failed();
    assert!(again.contains("backstitch keys list"), "{again}");
}
