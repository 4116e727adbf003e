//! The first help page, with commands in groups.

use std::fmt::Write as _;

/// The groups of commands.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run it", &["demo", "serve", "migrate", "keys"]),
    ("Sagas", &["start", "ps", "show", "log", "follow"]),
    ("Operate", &["cancel", "pause", "resume", "resolve", "doctor", "health", "parked", "alerts", "audit"]),
    ("Declare and send", &["check", "definitions", "lifecycles", "webhooks", "dead-letters", "outbox"]),
    ("Products", &["orders", "sites"]),
    ("Tools", &["bench", "completions", "man", "help"]),
];

/// Groups the program's commands. A command without a group is listed under "More".
#[must_use]
pub(crate) fn grouped(program: clap::Command) -> clap::Command {
    let commands: Vec<(String, String)> = program
        .get_subcommands()
        .map(|command| (command.get_name().to_owned(), about(command)))
        .chain([("help".to_owned(), "Print this page, or that of a command".to_owned())])
        .collect();
    let in_a_group = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others: Vec<&str> =
        commands.iter().map(|(name, _)| name.as_str()).filter(|name| !in_a_group(name)).collect();
    let mut page = String::new();
    for (title, names) in GROUPS.iter().copied().chain([("More", others.as_slice())]) {
        let found: Vec<_> =
            names.iter().filter_map(|name| commands.iter().find(|(known, _)| known == name)).collect();
        if !found.is_empty() {
            // Writing to text cannot fail.
            let _ = writeln!(page, "{title}:");
            for (name, about) in found {
                let _ = writeln!(page, "  {name:13} {about}");
            }
            page.push('\n');
        }
    }
    program
        .help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{page}Options:\n{{options}}{{after-help}}"))
        .after_help(
            "`backstitch COMMAND --help` says more, with examples. Exit codes: 0 done, 1 failed, 2 wrong usage.",
        )
}

/// Without the full stop, for a list.
fn about(command: &clap::Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    about.trim_end_matches('.').to_owned()
}
