//! Where the messages of a topic go, and how hard it is tried.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::delivery::Policy;

use super::sink::{LogSink, Sink};
use super::topic_pattern::TopicPattern;
use crate::store::outbox::ALERTS;

/// Waits between sends of one message, in seconds, unless told.
const BACKOFF: [u64; 6] = [5, 10, 20, 40, 80, 160];
const MAX_ATTEMPTS: u32 = 6;
const CONCURRENCY: usize = 4;
/// A receiver may ask for this long a wait, be every wait of the route's own shorter.
const LONGEST_WISH: Duration = Duration::from_secs(3600);

/// How the messages of a topic are sent.
#[derive(Clone)]
pub struct Route {
    /// Where they go.
    pub sink: Arc<dyn Sink>,
    /// Messages on their way at once.
    pub concurrency: usize,
    /// Sends of one message before it is given up; without a limit it is tried for ever.
    pub max_attempts: Option<u32>,
    /// The waits between them; the last one serves whatever comes after.
    pub backoff: Vec<Duration>,
    /// How long one send may take; [`Options::send_timeout`](crate::Options::send_timeout) unless told.
    pub timeout: Option<Duration>,
}

impl Route {
    /// Six sends at most, 5 to 160 seconds apart, four messages at once.
    #[must_use]
    pub fn to(sink: Arc<dyn Sink>) -> Self {
        Self {
            sink,
            concurrency: CONCURRENCY,
            max_attempts: Some(MAX_ATTEMPTS),
            backoff: BACKOFF.map(Duration::from_secs).to_vec(),
            timeout: None,
        }
    }

    /// When a message expires is the store's to say, by its own clock.
    pub(super) fn policy(&self) -> Policy {
        let policy = Policy::after_each(self.max_attempts, self.backoff.clone());
        let last = self.backoff.last().copied().unwrap_or_default();
        Policy { max_delay: last.max(LONGEST_WISH), ..policy }
    }

    fn mistakes(&self, topic: &str) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.concurrency == 0 {
            mistakes.push(format!("the route of {topic}: concurrency must be at least 1"));
        }
        if self.max_attempts == Some(0) {
            mistakes
                .push(format!("the route of {topic}: max_attempts must be at least 1, or none for no limit"));
        }
        if self.backoff.is_empty() {
            mistakes.push(format!("the route of {topic}: backoff must name at least one wait"));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            mistakes.push(format!("the route of {topic}: timeout must be longer than nothing"));
        }
        mistakes
    }
}

/// The routes of all topics. A message of a topic without one waits.
#[derive(Clone)]
pub struct Routes {
    /// By topic, or by what a [`TopicPattern`] is written as.
    by_name: BTreeMap<String, Route>,
    others: Option<Route>,
}

impl Default for Routes {
    /// Everything goes to the log.
    fn default() -> Self {
        Self::all_to(Arc::new(LogSink))
    }
}

impl Routes {
    /// No route at all.
    #[must_use]
    pub fn none() -> Self {
        Self { by_name: BTreeMap::new(), others: None }
    }

    /// Every topic has this sink.
    #[must_use]
    pub fn all_to(sink: Arc<dyn Sink>) -> Self {
        Self { by_name: BTreeMap::new(), others: Some(Route::to(sink)) }
    }

    /// The same, with a route for a topic, or for all [below a name](TopicPattern): `sites.*`. What is said of a topic
    /// holds before what is said of many, and a longer pattern before a shorter one.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use backstitch::outbox::{Route, Routes};
    /// use backstitch::sink::LogSink;
    ///
    /// let routes = Routes::none().with("sites.*", Route::to(Arc::new(LogSink)));
    /// assert!(routes.has("sites.live") && !routes.has("sites"));
    /// ```
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, route: Route) -> Self {
        self.by_name.insert(name.into(), route);
        self
    }

    /// The route of a topic. An alert is owed to somebody: it is tried until it is out.
    #[must_use]
    pub fn of(&self, topic: &str) -> Option<Route> {
        let route = self.named(topic).or(self.others.as_ref()).cloned()?;
        let max_attempts = if topic == ALERTS { None } else { route.max_attempts };
        Some(Route { max_attempts, ..route })
    }

    /// The topics across which the events of a lifecycle instance keep their order: all that share the route of this one.
    /// For a topic without a route by name these are all topics beside it. A topic that has its own route keeps its own
    /// order, for which there is no pattern.
    #[must_use]
    pub fn ordering_scope(&self, topic: &str) -> Option<String> {
        if self.by_name.contains_key(topic) {
            return None;
        }
        let routed = TopicPattern::all_above(topic).find(|pattern| self.by_name.contains_key(pattern));
        routed.or_else(|| TopicPattern::all_above(topic).next())
    }

    /// Whether messages of this topic go anywhere.
    #[must_use]
    pub fn has(&self, topic: &str) -> bool {
        self.others.is_some() || self.named(topic).is_some()
    }

    /// The topics that have routes of their own, and the patterns of those that share one.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    fn named(&self, topic: &str) -> Option<&Route> {
        let shared = || TopicPattern::all_above(topic).find_map(|pattern| self.by_name.get(&pattern));
        self.by_name.get(topic).or_else(shared)
    }

    pub(crate) fn mistakes(&self) -> Vec<String> {
        let misnamed = self.by_name.keys().filter_map(|name| {
            TopicPattern::read(name).err().map(|why| format!("the route of `{name}`: {why}"))
        });
        let named = self.by_name.iter().flat_map(|(name, route)| route.mistakes(&format!("`{name}`")));
        let others = self.others.iter().flat_map(|route| route.mistakes("the other topics"));
        misnamed.chain(named).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each has as many places as its number among these says.
    fn routes(names: &[&str]) -> Routes {
        (1..).zip(names).fold(Routes::none(), |routes, (concurrency, name)| {
            routes.with(*name, Route { concurrency, ..Route::to(Arc::new(LogSink)) })
        })
    }

    fn taken(routes: &Routes, topic: &str) -> Option<usize> {
        let taken = routes.of(topic).map(|route| route.concurrency);
        assert_eq!(routes.has(topic), taken.is_some(), "{topic}");
        taken
    }

    #[test]
    fn a_topics_own_route_wins_over_a_pattern_and_a_longer_pattern_over_a_shorter_one() {
        let routes = routes(&["sites.*", "sites.eu.*", "sites.eu.live"]);
        for (topic, route) in [
            ("sites.live", 1),
            ("sites.us.live", 1),
            ("sites.eu", 1),
            ("sites.eu.failed", 2),
            ("sites.eu.live.again", 2),
            ("sites.eu.live", 3),
        ] {
            assert_eq!(taken(&routes, topic), Some(route), "{topic}");
        }
    }

    #[test]
    fn a_pattern_means_what_is_below_its_name_and_neither_the_name_itself_nor_one_that_only_begins_so() {
        let routes = routes(&["sites.provisioning.*"]);
        for other in
            ["sites.provisioning", "sites.provisioning.", "sites.provisioningx.live", "sites", "live"]
        {
            assert_eq!(taken(&routes, other), None, "{other}");
        }
    }

    #[test]
    fn what_no_pattern_means_takes_the_way_of_all_others_if_there_is_one() {
        let routes = Routes { others: Some(Route::to(Arc::new(LogSink))), ..routes(&["sites.*"]) };
        assert_eq!((taken(&routes, "sites.live"), taken(&routes, "sites")), (Some(1), Some(CONCURRENCY)));
    }

    #[test]
    fn topics_that_share_a_route_share_their_order() {
        let scope = |routes: &Routes, topic| routes.ordering_scope(topic);
        let eu = routes(&["sites.*", "sites.eu.*", "sites.eu.live"]);
        assert_eq!(scope(&eu, "sites.eu.failed").as_deref(), Some("sites.eu.*"));
        assert_eq!(scope(&eu, "sites.us.live").as_deref(), Some("sites.*"));
        assert_eq!(scope(&eu, "sites.eu.live"), None, "its own route, its own order");
        for routes in [Routes::none(), Routes::default(), routes(&["sites.eu.live"])] {
            assert_eq!(scope(&routes, "sites.eu.failed").as_deref(), Some("sites.eu.*"));
            assert_eq!(scope(&routes, "sites"), None);
        }
    }

    #[test]
    fn a_star_in_the_wrong_place_is_a_mistake() {
        assert!(routes(&["sites.*", "sites.live"]).mistakes().is_empty());
        let [mistake] = &routes(&["*"]).mistakes()[..] else { panic!("there is one mistake") };
        assert!(mistake.starts_with("the route of `*`: ") && mistake.contains("like `sites.*`"), "{mistake}");
    }
}
