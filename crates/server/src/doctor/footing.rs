//! What the database stands on: its version, its tables, its clock.

use std::time::Duration;

use backstitch::store::diagnostics::{SchemaVersion, Software};

use super::check::Check;
use super::finding::Finding;
use super::words::ago;

/// What is known about it.
pub(super) struct Facts {
    pub(super) software: Software,
    /// The version of each set of tables, the engine's own first.
    pub(super) schemas: Vec<(String, SchemaVersion)>,
    pub(super) clocks: Clocks,
}

/// How far clocks are apart.
#[derive(Default)]
pub(super) struct Clocks {
    /// How far the database's clock is ahead of this node's, or behind it, at least: the way to it and back is taken off.
    pub(super) database: Option<Skew>,
    /// How far what this process calls now is ahead of the machine's clock, which was set back.
    pub(super) set_back: Duration,
    /// How far in the future the newest saga was started.
    pub(super) future: Duration,
}

/// How far one clock is from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skew {
    Ahead(Duration),
    Behind(Duration),
}

pub(super) fn judge(facts: &Facts, clock_skew: Duration) -> Vec<Finding> {
    let mut found: Vec<Finding> = version(&facts.software).into_iter().collect();
    found.extend(facts.schemas.iter().filter_map(|(of, version)| schema(of, *version)));
    found.extend(clocks(&facts.clocks, clock_skew));
    found
}

fn version(software: &Software) -> Option<Finding> {
    let Software { name, version, number, oldest, oldest_number } = software;
    (number < oldest_number).then(|| {
        Check::DatabaseVersion.error(
            Some(format!("{name} {version}")),
            format!("{name} {version} is too old: it can damage data, or lacks what is needed"),
            format!("update it to {name} {oldest} or newer; what is linked into this program comes with a newer one"),
        )
    })
}

fn schema(of: &str, SchemaVersion { found, known }: SchemaVersion) -> Option<Finding> {
    let subject = Some(format!("tables of {of}"));
    if found > known {
        return Some(Check::SchemaVersion.warning(
            subject,
            format!("a newer program brought them to version {found}; this one knows version {known}"),
            "update this node to the program that did: it does not start again on this database".to_owned(),
        ));
    }
    (found < known).then(|| {
        Check::SchemaVersion.error(
            subject,
            format!("they are at version {found}, and this program needs version {known}: an older copy was put back"),
            "run `backstitch migrate --db …` and restart the nodes".to_owned(),
        )
    })
}

fn clocks(clocks: &Clocks, limit: Duration) -> Vec<Finding> {
    let mut found = Vec::new();
    let set_the_clock =
        || "let NTP set the clocks of all machines (`chronyc tracking`, `timedatectl`)".to_owned();
    let apart = clocks.database.map(|skew| match skew {
        Skew::Ahead(by) => (by, "ahead of"),
        Skew::Behind(by) => (by, "behind"),
    });
    if let Some((by, how)) = apart.filter(|(by, _)| *by > limit) {
        found.push(Check::Clock.warning(
            Some("database".to_owned()),
            format!(
                "the database's clock is {} {how} this node's: times that are written and times that are due do not agree",
                ago(by)
            ),
            set_the_clock(),
        ));
    }
    if clocks.set_back > limit {
        found.push(Check::Clock.warning(
            Some("machine".to_owned()),
            format!(
                "the machine's clock was set back: it is {} behind what this process calls now, which goes on more slowly \
                 until they agree",
                ago(clocks.set_back)
            ),
            set_the_clock(),
        ));
    }
    if clocks.future > limit {
        found.push(Check::Clock.warning(
            Some("machine".to_owned()),
            format!(
                "the newest saga was started {} in the future: the machine's clock is wrong, or was then",
                ago(clocks.future)
            ),
            set_the_clock(),
        ));
    }
    found
}

/// How far the database's clock is from ours at least, when it was read between these two times of ours.
pub(super) fn skew(before: i64, database: i64, after: i64) -> Skew {
    let micros = |by: i64| Duration::from_micros(u64::try_from(by).unwrap_or_default());
    if database > after {
        Skew::Ahead(micros(database.saturating_sub(after)))
    } else {
        Skew::Behind(micros(before.saturating_sub(database)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    const LIMIT: Duration = Duration::from_secs(1);

    fn facts(number: i32, found: i64, clocks: Clocks) -> Facts {
        let software = Software {
            name: "SQLite",
            version: "3.50.4".to_owned(),
            number,
            oldest: "3.51.3".to_owned(),
            oldest_number: 3_051_003,
        };
        let schemas = vec![
            ("the engine".to_owned(), SchemaVersion { found: 3, known: 3 }),
            ("webhooks".to_owned(), SchemaVersion { found, known: 1 }),
        ];
        Facts { software, schemas, clocks }
    }

    fn told(facts: &Facts) -> Vec<(Check, Severity, String)> {
        let found = judge(facts, LIMIT);
        assert!(found.iter().all(|it| !it.action.is_empty()));
        found.into_iter().map(|it| (it.check, it.severity, it.subject.unwrap_or_default())).collect()
    }

    #[test]
    fn a_database_as_it_should_be_is_not_worth_a_word() {
        let clocks = Clocks { database: Some(Skew::Ahead(LIMIT)), set_back: LIMIT, future: LIMIT };
        assert_eq!(told(&facts(3_051_003, 1, clocks)), []);
    }

    #[test]
    fn an_old_database_is_an_error() {
        let old = Some((Check::DatabaseVersion, Severity::Error, "SQLite 3.50.4".to_owned()));
        assert_eq!(told(&facts(3_050_004, 1, Clocks::default())).into_iter().next(), old);
    }

    #[test]
    fn tables_that_are_older_or_newer_than_the_program_are_told() {
        for (found, severity) in [(0, Severity::Error), (2, Severity::Warning)] {
            let told = told(&facts(3_051_003, found, Clocks::default()));
            assert_eq!(told, [(Check::SchemaVersion, severity, "tables of webhooks".to_owned())]);
        }
    }

    #[test]
    fn clocks_that_are_apart_are_warnings() {
        let by = Duration::from_millis(1_001);
        for skew in [Skew::Ahead(by), Skew::Behind(by)] {
            let clocks = Clocks { database: Some(skew), ..Clocks::default() };
            let told = told(&facts(3_051_003, 1, clocks));
            assert_eq!(told, [(Check::Clock, Severity::Warning, "database".to_owned())]);
        }
        let clocks = Clocks { database: None, set_back: by, future: by };
        assert_eq!(told(&facts(3_051_003, 1, clocks)).len(), 2);
    }

    #[test]
    fn the_way_to_the_database_and_back_is_no_skew() {
        let micros = Duration::from_micros;
        for (before, database, after, apart) in [
            (100, 100, 100, Skew::Behind(micros(0))),
            (100, 150, 200, Skew::Behind(micros(0))),
            (100, 230, 200, Skew::Ahead(micros(30))),
            (100, 60, 200, Skew::Behind(micros(40))),
        ] {
            assert_eq!(skew(before, database, after), apart, "{database} between {before} and {after}");
        }
    }
}
