//! How lifecycles are driven, and where the actions of sites go.

use std::time::Duration;

use backstitch::Retry;
use backstitch_modules::lifecycles::{Settings, nats, sites};
use serde::{Deserialize, Serialize};

use super::text;

/// The longest wait between two calls of a site's service.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// A claim is renewed four times before it runs out, and a renewal takes its time.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// How lifecycles are driven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lifecycle {
    /// Actions that this process performs at once; 0 leaves all of them to other nodes.
    pub concurrency: usize,
    /// A process unheard of for this long has its actions taken over.
    #[serde(with = "text::duration")]
    pub lease: Duration,
    /// The services that provision sites.
    pub sites: Sites,
    /// Requests that come from NATS `JetStream`: only the file can say it.
    #[serde(skip_serializing)]
    pub nats: Option<nats::Config>,
}

/// The services that provision sites: all three, or none, and then sites are driven from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sites {
    /// Finds out where a site's content comes from.
    #[serde(with = "text::optional")]
    pub resolve_source: Option<String>,
    /// Creates the project.
    #[serde(with = "text::optional")]
    pub create_project: Option<String>,
    /// Creates the hook.
    #[serde(with = "text::optional")]
    pub create_hook: Option<String>,
    /// How long one call may take.
    #[serde(with = "text::duration")]
    pub timeout: Duration,
    /// How often a call is tried again.
    pub retries: u32,
    /// The wait before the first retry, which doubles with each that follows.
    #[serde(with = "text::duration")]
    pub delay: Duration,
    /// How long a site waits for GitHub before it is abandoned; `off` is for ever.
    #[serde(with = "text::age")]
    pub pause_expires: Option<Duration>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        let Settings { concurrency, lease } = Settings::default();
        Self { concurrency, lease, sites: Sites::default(), nats: None }
    }
}

impl Default for Sites {
    fn default() -> Self {
        Self {
            resolve_source: None,
            create_project: None,
            create_hook: None,
            timeout: Duration::from_secs(60),
            retries: 2,
            delay: Duration::from_secs(5),
            pause_expires: None,
        }
    }
}

impl Lifecycle {
    pub(crate) fn settings(&self) -> Settings {
        Settings { concurrency: self.concurrency, lease: self.lease }
    }

    /// Everything that could not work.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.lease < SHORTEST_LEASE {
            mistakes.push("lifecycle.lease must be at least 1s".to_owned());
        }
        let told = |(place, what): (&str, String)| format!("lifecycle.sites.{place} {what}");
        mistakes.extend(self.sites.endpoints().mistakes().into_iter().map(told));
        let nats = self.nats.as_ref().and_then(|nats| nats.check().err());
        mistakes.extend(nats.into_iter().flat_map(|bad| bad.mistakes));
        mistakes
    }
}

impl Sites {
    pub(crate) fn endpoints(&self) -> sites::Endpoints {
        let Self { resolve_source, create_project, create_hook, .. } = self.clone();
        let retry = Retry::exponential(self.retries, self.delay).with_cap(LONGEST_DELAY.max(self.delay));
        sites::Endpoints {
            resolve_source,
            create_project,
            create_hook,
            timeout: Some(self.timeout),
            retry: Some(retry),
            pause_expires: self.pause_expires,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(resolve_source: &str, create_project: &str, create_hook: &str) -> Lifecycle {
        let some = |url: &str| Some(url.to_owned()).filter(|url| !url.is_empty());
        let sites = Sites {
            resolve_source: some(resolve_source),
            create_project: some(create_project),
            create_hook: some(create_hook),
            ..Sites::default()
        };
        Lifecycle { sites, ..Lifecycle::default() }
    }

    const URL: &str = "http://127.0.0.1:7431/";

    #[test]
    fn all_services_of_sites_are_named_or_none() {
        assert_eq!(sites("", "", "").mistakes(), Vec::<String>::new());
        assert_eq!(sites(URL, URL, URL).mistakes(), Vec::<String>::new());
        let missing = sites(URL, "", "").mistakes();
        assert_eq!(missing.len(), 2, "{missing:?}");
        assert!(missing[0].starts_with("lifecycle.sites.create_project is missing"), "{missing:?}");
        assert!(missing[1].starts_with("lifecycle.sites.create_hook is missing"), "{missing:?}");
    }

    #[test]
    fn a_service_is_called_over_http() {
        let mistaken = sites("ftp://host/", "nowhere", "http://me:secret@host/").mistakes();
        assert_eq!(mistaken.len(), 3, "{mistaken:?}");
        assert!(mistaken.iter().all(|mistake| !mistake.contains("secret")), "{mistaken:?}");
    }

    #[test]
    fn times_that_cannot_work_are_refused() {
        let mut config = sites(URL, URL, URL);
        config.lease = Duration::from_millis(10);
        config.sites.timeout = Duration::ZERO;
        config.sites.retries = 1001;
        config.sites.pause_expires = Some(Duration::ZERO);
        assert_eq!(config.mistakes().len(), 4, "{:?}", config.mistakes());
    }
}
