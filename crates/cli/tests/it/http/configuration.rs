//! The settings and their documentation.

use backstitch_server::config::settings;

#[test]
fn documentation_lists_every_setting() {
    let page = include_str!("../../../../../docs/configuration.md");
    let mut documented: Vec<[String; 3]> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).skip(1);
            [(); 3].map(|()| cells.next().unwrap_or_default())
        })
        .collect();
    let mut known: Vec<_> =
        settings().into_iter().map(|setting| [setting.name, setting.variable, setting.default]).collect();
    documented.sort();
    known.sort();
    assert_eq!(documented, known);
}
