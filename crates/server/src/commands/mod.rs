//! What the binary can be asked for, but for the benchmark.

pub mod check;
pub mod demo;
pub mod keys;
pub mod migrate;
pub mod serve;
mod signals;

pub(crate) use signals::Signals;

/// What a command fails with: it is shown to a person and ends the program.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where the settings come from.
#[derive(Clone, Debug, clap::Args)]
pub struct Sources {
    /// A file of settings, in TOML.
    #[arg(long, global = true, value_name = "FILE", env = "BACKSTITCH_CONFIG")]
    config: Option<std::path::PathBuf>,
    /// `sqlite:PATH` or `postgres://…`; `sqlite:backstitch.db` unless given.
    #[arg(long, global = true, value_name = "ADDRESS")]
    db: Option<String>,
}

impl Sources {
    /// The settings, with those that were given as flags on top.
    fn gather(self, flags: Vec<(&'static str, String)>) -> Result<crate::Config, Failure> {
        let mut overrides = crate::config::Overrides::from_environment();
        overrides.flags = self.db.map(|db| ("db", db)).into_iter().chain(flags).collect();
        for (name, meant) in overrides.unknown_variables() {
            let advice = meant.map_or_else(
                || "docs/configuration.md lists them all".to_owned(),
                |meant| format!("did you mean {meant}?"),
            );
            eprintln!("backstitch: {name} names no setting and is ignored: {advice}");
        }
        Ok(crate::Config::gather(self.config.as_deref(), &overrides)?)
    }
}
