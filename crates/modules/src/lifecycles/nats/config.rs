//! What can be set about starts that come as messages, as it stands under `[lifecycle.nats]` in the server's configuration.

use std::path::PathBuf;
use std::time::Duration;

use backstitch_api::validate::quoted;
use serde::Deserialize;

use crate::lifecycles::sites;
use crate::outgoing::nats::{Access, belongs_to_the_broker, has_good_tokens, misnamed};
use crate::settings::{Secret, duration};

const PLACE: &str = "lifecycle.nats";
/// As many as a broker leaves unacknowledged, unless it is told.
const MOST_AT_ONCE: usize = 1_000;
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// Where starts come from, and how they are taken.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The server: `nats://host:4222`, or `tls://…` for one that must speak TLS. Of a cluster several, with commas between.
    pub url: String,
    /// The stream that keeps the messages. It must be there: nobody creates it.
    pub stream: String,
    /// Which of its messages are starts: `sites.requested`, or `sites.>`.
    pub subject: String,
    /// The consumer that remembers what was acknowledged. It is created where there is none.
    #[serde(default = "usual_durable")]
    pub durable: String,
    /// The machine that is started.
    #[serde(default = "usual_machine")]
    pub machine: String,
    /// Messages that are started and not acknowledged yet, at most.
    #[serde(default = "usual_concurrency")]
    pub concurrency: usize,
    /// A process that is not heard of for so long has its messages delivered again.
    #[serde(default = "usual_ack_wait", deserialize_with = "duration")]
    pub ack_wait: Duration,
    /// Whom to log in as.
    #[serde(default)]
    pub user: Option<String>,
    /// The user's password.
    #[serde(default)]
    pub password: Option<Secret>,
    /// A token to log in with instead.
    #[serde(default)]
    pub token: Option<Secret>,
    /// A file of credentials (a JWT and its seed) to log in with instead.
    #[serde(default)]
    pub credentials: Option<PathBuf>,
    /// A file with certificates (PEM) that are trusted beside those the machine trusts.
    #[serde(default)]
    pub root_certificate: Option<PathBuf>,
}

fn usual_durable() -> String {
    "backstitch".to_owned()
}

fn usual_machine() -> String {
    sites::MACHINE.to_owned()
}

fn usual_concurrency() -> usize {
    MOST_AT_ONCE
}

fn usual_ack_wait() -> Duration {
    Duration::from_secs(30)
}

/// Settings that cannot work, all mistakes at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the settings of {PLACE} cannot work: {}", mistakes.join("; "))]
pub struct BadConfig {
    /// What is wrong and what to do, each with its place.
    pub mistakes: Vec<String>,
}

impl BadConfig {
    /// Of one setting, which the mistake begins with.
    pub(super) fn of(mistake: &str) -> Self {
        Self { mistakes: vec![format!("{PLACE}.{mistake}")] }
    }
}

impl Config {
    /// Sites that are asked for on this subject of this stream, with everything else as usual.
    #[must_use]
    pub fn new(url: &str, stream: &str, subject: &str) -> Self {
        Self {
            url: url.to_owned(),
            stream: stream.to_owned(),
            subject: subject.to_owned(),
            durable: usual_durable(),
            machine: usual_machine(),
            concurrency: usual_concurrency(),
            ack_wait: usual_ack_wait(),
            user: None,
            password: None,
            token: None,
            credentials: None,
            root_certificate: None,
        }
    }

    /// Looks for mistakes, without asking the broker or reading a file.
    ///
    /// # Errors
    /// Every mistake there is.
    pub fn check(&self) -> Result<(), BadConfig> {
        let mut mistakes = self.access().mistakes(PLACE);
        let mut add = |setting: &str, why: Option<String>| {
            mistakes.extend(why.map(|why| format!("{PLACE}.{setting}: {why}")));
        };
        add("stream", misnamed("stream", &self.stream));
        add("subject", no_filter(&self.subject));
        add("durable", misnamed("consumer", &self.durable));
        add(
            "machine",
            self.machine.is_empty().then(|| "is empty: name the machine that is started".to_owned()),
        );
        add(
            "concurrency",
            (!(1..=MOST_AT_ONCE).contains(&self.concurrency)).then(|| format!("must be 1 to {MOST_AT_ONCE}")),
        );
        add(
            "ack_wait",
            (!(SHORTEST_WAIT..=LONGEST_WAIT).contains(&self.ack_wait))
                .then(|| "must be 100ms to 1h".to_owned()),
        );
        if mistakes.is_empty() { Ok(()) } else { Err(BadConfig { mistakes }) }
    }

    pub(super) fn access(&self) -> Access<'_> {
        Access {
            url: &self.url,
            user: self.user.as_deref(),
            password: self.password.as_ref(),
            token: self.token.as_ref(),
            credentials: self.credentials.as_deref(),
            root_certificate: self.root_certificate.as_deref(),
        }
    }
}

/// What is wrong with a subject that chooses messages: `*` stands for one part of it, and `>` for all that follow.
fn no_filter(written: &str) -> Option<String> {
    let mut parts = written.split('.').rev();
    let last_fits = parts.next().is_some_and(|part| part == ">" || is_part(part));
    if has_good_tokens(written) && last_fits && parts.all(is_part) {
        return belongs_to_the_broker(written);
    }
    let written = quoted(written);
    Some(format!("`{written}` chooses no messages: write it like sites.requested, sites.* or sites.>"))
}

fn is_part(part: &str) -> bool {
    part == "*" || !part.contains(['*', '>'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<Config, String> {
        toml::from_str(toml).map_err(|why: toml::de::Error| why.message().to_owned())
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let config = read("url = 'nats://host'\nstream = 'SITES'\nsubject = 'sites.requested'").unwrap();
        assert_eq!(config, Config::new("nats://host", "SITES", "sites.requested"));
        assert_eq!((config.durable.as_str(), config.machine.as_str()), ("backstitch", "site-provisioning"));
        assert_eq!((config.concurrency, config.ack_wait), (1000, Duration::from_secs(30)));
        config.check().unwrap();
    }

    #[test]
    fn everything_can_be_set_and_secrets_are_not_shown() {
        let config = read(
            "url = 'tls://one,tls://two'\nstream = 'S'\nsubject = 'a.*.>'\ndurable = 'd'\nmachine = 'parcel'\n\
             concurrency = 8\nack_wait = '5s'\nuser = 'u'\npassword = 'hush'\nroot_certificate = 'ca.pem'",
        )
        .unwrap();
        config.check().unwrap();
        assert_eq!((config.concurrency, config.ack_wait), (8, Duration::from_secs(5)));
        assert!(!format!("{config:?}").contains("hush"));
        let unknown = read("url = 'nats://host'\nstream = 'S'\nsubject = 'a'\nackwait = '5s'").unwrap_err();
        assert!(unknown.contains("ackwait"), "{unknown}");
    }

    #[test]
    fn all_mistakes_are_told_at_once_each_with_its_place() {
        let config = Config {
            durable: "my consumer".to_owned(),
            machine: String::new(),
            concurrency: 0,
            ack_wait: Duration::from_millis(1),
            user: Some("u".to_owned()),
            token: Some(Secret::new("hush")),
            ..Config::new("http://host", "SITES.EU", "sites..requested")
        };
        let BadConfig { mistakes } = config.check().unwrap_err();
        for setting in ["url", "stream", "subject", "durable", "machine", "concurrency", "ack_wait"] {
            let place = format!("lifecycle.nats.{setting}:");
            assert!(mistakes.iter().any(|mistake| mistake.starts_with(&place)), "{setting}: {mistakes:?}");
        }
        assert_eq!(mistakes.len(), 9, "{mistakes:?}");
        assert!(!mistakes.concat().contains("hush"));
    }

    #[test]
    fn a_filter_may_have_wildcards_where_the_broker_takes_them() {
        for good in ["sites", "sites.requested", "sites.*", "*.requested", "sites.>", ">"] {
            assert_eq!(no_filter(good), None);
        }
        for bad in ["", ".", "sites.", "sites.>.a", "sites.a*", "si tes", "$JS.>"] {
            assert!(no_filter(bad).is_some(), "{bad:?}");
        }
    }
}
