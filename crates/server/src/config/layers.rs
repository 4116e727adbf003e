//! Flags over environment over file over default.

use std::path::{Path, PathBuf};

use backstitch_api::validate::nearest;
use serde::Deserialize;
use toml::{Table, Value};

use super::Config;

/// What every variable of the environment that holds a setting begins with.
const PREFIX: &str = "BACKSTITCH_";
/// Variables that begin so and are none: where the file is, and what the command line's clients read.
const OTHERS: [&str; 5] =
    ["BACKSTITCH_CONFIG", "BACKSTITCH_SERVER", "BACKSTITCH_KEY", "BACKSTITCH_KEY_FILE", "BACKSTITCH_API_KEY"];

/// What the tests set for each other.
const TESTS: &str = "BACKSTITCH_TEST_";

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read: {why}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// A mistake in the file.
    #[error("{}:{line}:{column}: {message}", file.display())]
    InFile {
        /// The file.
        file: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// Its column, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A flag or a variable that cannot be read.
    #[error("{origin}: {message}")]
    InOverride {
        /// The flag or the variable.
        origin: String,
        /// What is wrong with it.
        message: String,
    },
    /// Values that cannot work.
    #[error("the configuration cannot work: {0}")]
    Mistaken(String),
}

/// What is said about settings outside the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Settings given as flags, by name.
    pub flags: Vec<(&'static str, String)>,
    /// The environment.
    pub environment: Vec<(String, String)>,
}

impl Overrides {
    /// The environment of this process.
    #[must_use]
    pub fn from_environment() -> Self {
        // A variable that is no text cannot be one of ours.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { flags: Vec::new(), environment: std::env::vars_os().filter_map(text).collect() }
    }

    /// Variables that look like settings and are none, each with the one that is probably meant. They are not refused: an
    /// orchestrator may have put them there, as Kubernetes does for a service of this name.
    #[must_use]
    pub fn unknown_variables(&self) -> Vec<(&str, Option<String>)> {
        let settings = settings();
        let is_known = |name: &str| {
            OTHERS.contains(&name)
                || name.starts_with(TESTS)
                || settings.iter().any(|setting| setting.variable == name)
        };
        let names = self.environment.iter().map(|(name, _)| name.as_str());
        let unknown = names.filter(|name| name.starts_with(PREFIX) && !is_known(name));
        // What all of them begin with says nothing about which one is meant.
        let own = |variable| str::strip_prefix(variable, PREFIX).unwrap_or(variable);
        let meant = |name| nearest(own(name), settings.iter().map(|setting| own(&setting.variable)));
        unknown.map(|name| (name, meant(name).map(|own| format!("{PREFIX}{own}")))).collect()
    }
}

/// A setting as the documentation lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file: `limits.body_bytes`.
    pub name: String,
    /// Its variable in the environment.
    pub variable: String,
    /// Its default, as written in the file.
    pub default: String,
}

/// Every setting there is.
#[must_use]
pub fn settings() -> Vec<Setting> {
    let mut found = Vec::new();
    collect(&defaults(), "", &mut |name, value| {
        found.push(Setting { name: name.to_owned(), variable: variable(name), default: value.to_string() });
    });
    found
}

impl Config {
    /// Puts the layers together and checks the whole.
    ///
    /// # Errors
    /// With the place and the reason of the first mistake.
    pub fn gather(file: Option<&Path>, overrides: &Overrides) -> Result<Self, Error> {
        // What a section leaves out is as it would be without the section.
        let mut table = defaults();
        if let Some(file) = file {
            lay_over(&mut table, read(file)?);
        }
        let settings = settings();
        for (name, value) in &overrides.environment {
            if let Some(setting) = settings.iter().find(|setting| setting.variable == *name) {
                put(&mut table, &setting.name, name, value)?;
            }
        }
        for (name, value) in &overrides.flags {
            put(&mut table, name, &format!("--{name}"), value)?;
        }
        let config = Self::deserialize(table).map_err(|why| Error::Mistaken(why.message().to_owned()))?;
        config.check()?;
        Ok(config)
    }
}

fn read(file: &Path) -> Result<Table, Error> {
    let text =
        std::fs::read_to_string(file).map_err(|why| Error::Unreadable { file: file.to_owned(), why })?;
    // Read as what it has to be, while every value still knows its place.
    let placed = toml::from_str::<Config>(&text).and_then(|_| toml::from_str(&text));
    placed.map_err(|why| {
        let (line, column) = place(&text, why.span().map_or(0, |span| span.start));
        Error::InFile { file: file.to_owned(), line, column, message: why.message().to_owned() }
    })
}

fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Sets one value, after a look at it alone, so that a mistake is told with its origin.
fn put(table: &mut Table, name: &str, origin: &str, text: &str) -> Result<(), Error> {
    let mistaken = |message| Error::InOverride { origin: origin.to_owned(), message };
    let value = typed(name, text).map_err(mistaken)?;
    let mut alone = Table::new();
    insert(&mut alone, name, value.clone());
    Config::deserialize(alone).map_err(|why| mistaken(why.message().to_owned()))?;
    insert(table, name, value);
    Ok(())
}

/// A text as the kind of value that the setting's default is.
fn typed(name: &str, text: &str) -> Result<Value, String> {
    let defaults = Value::Table(defaults());
    let default = name.split('.').try_fold(&defaults, |table, key| table.get(key));
    Ok(match default {
        Some(Value::Integer(_)) => {
            Value::Integer(text.parse().map_err(|_| format!("`{text}` is not a whole number"))?)
        }
        Some(Value::Boolean(_)) => {
            Value::Boolean(text.parse().map_err(|_| format!("`{text}` is neither true nor false"))?)
        }
        Some(Value::Array(_)) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Value::Array(parts.map(Value::from).collect())
        }
        _ => Value::from(text),
    })
}

fn lay_over(table: &mut Table, upper: Table) {
    for (key, value) in upper {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(section)), Value::Table(upper)) => lay_over(section, upper),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

fn insert(table: &mut Table, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            table.insert(name.to_owned(), value);
        }
        Some((section, rest)) => {
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(section) = section {
                insert(section, rest, value);
            }
        }
    }
}

fn defaults() -> Table {
    Table::try_from(Config::default()).unwrap_or_default()
}

fn collect(table: &Table, prefix: &str, found: &mut impl FnMut(&str, &Value)) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(section) => collect(section, &name, found),
            value => found(&name, value),
        }
    }
}

fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('.', "_").to_uppercase())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn environment(values: &[(&str, &str)]) -> Overrides {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Overrides { flags: Vec::new(), environment: values.iter().map(owned).collect() }
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn flags_win_over_environment_over_file_over_default() {
        let file = file("db = \"sqlite:file.db\"\nlisten = \"127.0.0.1:1\"\n[limits]\njson_depth = 7\n");
        let mut overrides =
            environment(&[("BACKSTITCH_DB", "sqlite:environment.db"), ("BACKSTITCH_LISTEN", "127.0.0.1:2")]);
        overrides.flags.push(("listen", "127.0.0.1:3".to_owned()));
        let config = Config::gather(Some(file.path()), &overrides).unwrap();
        assert_eq!(config.listen.port(), 3);
        assert_eq!(config.db, "sqlite:environment.db");
        assert_eq!(config.limits.json_depth, 7);
        assert_eq!(config.limits.body_bytes, 1024 * 1024);
    }

    #[test]
    fn what_a_section_leaves_out_has_its_default() {
        let file = file(
            "[orders.payment]\nurl = \"http://127.0.0.1/\"\nrollback_url = \"http://127.0.0.1/\"\n\
             [orders.logistics]\nurl = \"http://127.0.0.1/\"\nrollback_url = \"http://127.0.0.1/\"\n",
        );
        let overrides = environment(&[
            ("BACKSTITCH_ORDERS_INVENTORY_URL", "http://127.0.0.1/"),
            ("BACKSTITCH_ORDERS_INVENTORY_ROLLBACK_URL", "http://127.0.0.1/"),
        ]);
        let config = Config::gather(Some(file.path()), &overrides).unwrap();
        let services = [config.orders.payment, config.orders.inventory, config.orders.logistics];
        assert_eq!(services.map(|service| service.timeout.as_secs()), [30, 60, 120]);
    }

    #[test]
    fn an_unknown_key_is_refused_by_name_with_its_place() {
        let file = file("[limits]\nbody_bites = 3\n");
        let refused = Config::gather(Some(file.path()), &Overrides::default()).unwrap_err().to_string();
        assert!(refused.contains(":2:1: ") && refused.contains("body_bites"), "{refused}");
    }

    #[test]
    fn a_variable_that_names_no_setting_is_told() {
        let overrides = environment(&[
            ("BACKSTITCH_LISTENS", "x"),
            ("BACKSTITCH_ORDERS_PAYMENT_URI", "x"),
            ("BACKSTITCH_PORT_7420_TCP", "x"),
            ("BACKSTITCH_DB", "y"),
            ("BACKSTITCH_API_KEY", "y"),
            ("BACKSTITCH_TEST_POSTGRES", "y"),
            ("HOME", "/"),
        ]);
        let meant = |name: &str| Some(name.to_owned());
        assert_eq!(
            overrides.unknown_variables(),
            [
                ("BACKSTITCH_LISTENS", meant("BACKSTITCH_LISTEN")),
                ("BACKSTITCH_ORDERS_PAYMENT_URI", meant("BACKSTITCH_ORDERS_PAYMENT_URL")),
                ("BACKSTITCH_PORT_7420_TCP", None),
            ]
        );
    }

    #[test]
    fn a_bad_value_is_told_with_its_variable() {
        for (name, value) in [("BACKSTITCH_LIMITS_JSON_DEPTH", "deep"), ("BACKSTITCH_LIMITS_GRACE", "soon")] {
            let refused = Config::gather(None, &environment(&[(name, value)])).unwrap_err().to_string();
            assert!(refused.starts_with(name) && refused.contains(value), "{refused}");
        }
    }

    #[test]
    fn every_kind_of_value_can_be_given_as_a_variable() {
        let values = [
            ("BACKSTITCH_LIMITS_CONNECTIONS", "12"),
            ("BACKSTITCH_SAGAS_LEASE", "1m 30s"),
            ("BACKSTITCH_LOG_FORMAT", "json"),
            ("BACKSTITCH_TELEMETRY_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
        ];
        let config = Config::gather(None, &environment(&values)).unwrap();
        assert_eq!(config.limits.connections, 12);
        assert_eq!(config.sagas.lease, Duration::from_secs(90));
        assert_eq!(config.log.format, crate::config::LogFormat::Json);
        assert_eq!(config.telemetry.otlp_endpoint.as_deref(), Some("http://127.0.0.1:4318"));
    }

    #[test]
    fn a_secret_is_neither_short_nor_shown() {
        let refused = Config::gather(None, &environment(&[("BACKSTITCH_SECRET", "guess")])).unwrap_err();
        assert!(refused.to_string().contains("at least 32 characters"), "{refused}");
        let long = "0123456789abcdef0123456789abcdef";
        let config = Config::gather(None, &environment(&[("BACKSTITCH_SECRET", long)])).unwrap();
        assert!(config.secret.is_some());
        assert!(!format!("{config:?}").contains(long));
    }
}
