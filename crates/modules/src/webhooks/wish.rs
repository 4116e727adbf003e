//! What somebody wishes a subscription to be, as it is written: read field by field, every mistake told by its place.

use std::time::Duration;

use backstitch::{Problem, Problems};
use serde::Deserialize;

use super::error::Mistake;
use super::signature::Secret;
use super::subscription::{Defaulted, Terms};
use crate::reading::{Mistakes, Node, Object, Tree};

const FIELDS: [&str; 10] = [
    "url",
    "event_types",
    "headers",
    "max_retry_limit",
    "base_delay",
    "max_delay",
    "timeout",
    "max_concurrency",
    "rate_limit",
    "enabled",
];
const SECRET: &str = "secret";
/// What is shown instead of a header's value.
pub const MASK: &str = "***";

/// A new subscription as it is written.
#[derive(Debug, Deserialize)]
#[serde(from = "Tree")]
pub struct NewSubscription(pub(super) Wish);

/// A change of a subscription as it is written.
#[derive(Debug, Deserialize)]
#[serde(from = "Tree")]
pub struct SubscriptionChange(pub(super) Wish);

/// What was named. The rest stays as it is, or is the usual.
#[derive(Debug, Default)]
pub(super) struct Wish {
    url: Option<String>,
    event_types: Option<Vec<String>>,
    pub(super) headers: Option<Vec<(String, String)>>,
    max_retry_limit: Option<Named<u32>>,
    base_delay: Option<Named<Duration>>,
    max_delay: Option<Named<Duration>>,
    timeout: Option<Duration>,
    max_concurrency: Option<u32>,
    rate_limit: Option<RateLimit>,
    pub(super) enabled: Option<bool>,
    pub(super) secret: Option<Secret>,
    /// What could not be read.
    unread: Vec<Problem>,
}

/// A setting that has a configured default.
#[derive(Clone, Copy, Debug)]
enum Named<T> {
    /// `null`: the subscription follows the default.
    Default,
    /// Its own value.
    Own(T),
}

impl<T: Copy> Named<T> {
    fn read<'a>(node: &Node<'a>, own: impl FnOnce(&Node<'a>) -> Option<T>) -> Option<Self> {
        if node.value().is_null() { Some(Self::Default) } else { own(node).map(Self::Own) }
    }

    /// The value, and whether it is the default's.
    fn over(named: Option<Self>, before: (T, bool), default: T) -> (T, bool) {
        match named {
            None => before,
            Some(Self::Default) => (default, true),
            Some(Self::Own(value)) => (value, false),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum RateLimit {
    None,
    PerSecond(u32),
}

impl From<Tree> for NewSubscription {
    fn from(tree: Tree) -> Self {
        let mistakes = Mistakes::default();
        let fields = Node::root(&tree.0, &mistakes).object(&[&FIELDS[..], &[SECRET]].concat());
        let wish = fields.map(|fields| {
            let mut wish = Wish::read(&fields);
            for required in ["url", "event_types"] {
                fields.required(required);
            }
            wish.secret = fields.get(SECRET).and_then(|node| secret(&node));
            wish
        });
        Self(wish.unwrap_or_default().with(mistakes))
    }
}

impl From<Tree> for SubscriptionChange {
    fn from(tree: Tree) -> Self {
        let mistakes = Mistakes::default();
        let fields = Node::root(&tree.0, &mistakes).object(&[&FIELDS[..], &[SECRET]].concat());
        let wish = fields.map(|fields| {
            if let Some(secret) = fields.get(SECRET) {
                secret.wrong("is changed by rotate-secret, so that the old one stays good for a while");
            }
            Wish::read(&fields)
        });
        Self(wish.unwrap_or_default().with(mistakes))
    }
}

fn secret(node: &Node<'_>) -> Option<Secret> {
    let read = Secret::parse(node.text()?);
    if let Err(why) = &read {
        node.wrong(why.to_string());
    }
    read.ok()
}

impl Wish {
    fn read(fields: &Object<'_>) -> Self {
        let get = |name| fields.get(name);
        Self {
            url: get("url").and_then(|url| url.text()).map(str::to_owned),
            event_types: get("event_types").and_then(|types| texts(&types)),
            headers: get("headers").and_then(|headers| pairs(&headers)),
            max_retry_limit: get("max_retry_limit").and_then(|it| Named::read(&it, Node::number)),
            base_delay: get("base_delay").and_then(|it| Named::read(&it, Node::duration_or_seconds)),
            max_delay: get("max_delay").and_then(|it| Named::read(&it, Node::duration_or_seconds)),
            timeout: get("timeout").and_then(|timeout| timeout.duration_or_seconds()),
            max_concurrency: get("max_concurrency").and_then(|limit| limit.number()),
            rate_limit: get("rate_limit").and_then(|limit| rate(&limit)),
            enabled: get("enabled").and_then(|enabled| enabled.flag()),
            secret: None,
            unread: Vec::new(),
        }
    }

    fn with(self, mistakes: Mistakes) -> Self {
        let unread = mistakes.or_else(Some(())).err().map(|problems| problems.0).unwrap_or_default();
        Self { unread, ..self }
    }

    /// Whether it is about more than being enabled.
    pub(super) fn names_terms(&self) -> bool {
        self.url.is_some()
            || self.event_types.is_some()
            || self.headers.is_some()
            || self.max_retry_limit.is_some()
            || self.base_delay.is_some()
            || self.max_delay.is_some()
            || self.timeout.is_some()
            || self.max_concurrency.is_some()
            || self.rate_limit.is_some()
    }

    /// The terms that it makes of these; `usual` has the configured defaults.
    pub(super) fn over(&self, before: Terms, usual: &Terms) -> Terms {
        let defaulted = before.defaulted;
        let limit = (before.max_retry_limit, defaulted.max_retry_limit);
        let limit = Named::over(self.max_retry_limit, limit, usual.max_retry_limit);
        let base = (before.base_delay, defaulted.base_delay);
        let base = Named::over(self.base_delay, base, usual.base_delay);
        let longest = (before.max_delay, defaulted.max_delay);
        let longest = Named::over(self.max_delay, longest, usual.max_delay);
        Terms {
            url: self.url.clone().unwrap_or(before.url),
            event_types: self.event_types.clone().unwrap_or(before.event_types),
            max_retry_limit: limit.0,
            base_delay: base.0,
            max_delay: longest.0,
            defaulted: Defaulted { max_retry_limit: limit.1, base_delay: base.1, max_delay: longest.1 },
            timeout: self.timeout.unwrap_or(before.timeout),
            max_concurrency: self.max_concurrency.unwrap_or(before.max_concurrency),
            rate_limit: match self.rate_limit {
                Some(RateLimit::None) => None,
                Some(RateLimit::PerSecond(requests)) => Some(requests),
                None => before.rate_limit,
            },
        }
    }

    /// What could not be read, and what else is wrong that does not only follow from it.
    pub(super) fn mistakes(&self, more: Vec<Mistake>) -> Vec<Mistake> {
        let mistakes = Mistakes::default();
        for Problem { place, message } in &self.unread {
            mistakes.add(place, message);
        }
        let problem = |Mistake { place, message }| Problem { place, message };
        mistakes.add_unless_known(Problems(more.into_iter().map(problem).collect()));
        let all = mistakes.or_else(Some(())).err().map(|problems| problems.0).unwrap_or_default();
        all.into_iter().map(|Problem { place, message }| Mistake { place, message }).collect()
    }
}

fn texts(node: &Node<'_>) -> Option<Vec<String>> {
    node.items()?.iter().map(|item| item.text().map(str::to_owned)).collect()
}

fn pairs(node: &Node<'_>) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for (name, value) in node.any_object()?.entries() {
        let text = value.text()?;
        if text == MASK {
            value.wrong(format!("is `{MASK}`, which is shown instead of a value: give the value itself"));
        }
        pairs.push((name.to_owned(), text.to_owned()));
    }
    Some(pairs)
}

fn rate(node: &Node<'_>) -> Option<RateLimit> {
    if node.value().is_null() { Some(RateLimit::None) } else { node.number().map(RateLimit::PerSecond) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::error::BadTerms;
    use super::*;

    fn places(wish: &Wish) -> Vec<String> {
        wish.mistakes(Vec::new()).into_iter().map(|mistake| mistake.place).collect()
    }

    fn new(written: &Value) -> Wish {
        NewSubscription::from(Tree(written.clone())).0
    }

    fn change(written: &Value) -> Wish {
        SubscriptionChange::from(Tree(written.clone())).0
    }

    #[test]
    fn a_new_subscription_names_what_differs_from_the_usual() {
        let usual = Terms::to("", Vec::new());
        let wish = new(&json!({ "url": "https://a.example/", "event_types": ["order.*"] }));
        assert_eq!(places(&wish), [""; 0]);
        assert_eq!(
            wish.over(usual.clone(), &usual),
            Terms::to("https://a.example/", vec!["order.*".to_owned()])
        );
        let wish = new(&json!({
            "url": "https://a.example/", "event_types": ["*"], "headers": { "x-a": "b" }, "max_retry_limit": 3,
            "base_delay": "200ms", "max_delay": 2.5, "timeout": 7, "max_concurrency": 2, "rate_limit": 9, "enabled": false,
            "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        }));
        assert_eq!(places(&wish), [""; 0]);
        let terms = Terms {
            max_retry_limit: 3,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_millis(2500),
            timeout: Duration::from_secs(7),
            max_concurrency: 2,
            rate_limit: Some(9),
            ..Terms::to("https://a.example/", vec!["*".to_owned()])
        };
        assert_eq!(wish.over(usual.clone(), &usual), terms);
        assert_eq!(wish.headers, Some(vec![("x-a".to_owned(), "b".to_owned())]));
        assert!(wish.enabled == Some(false) && wish.secret.is_some());
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name_and_null_takes_the_rate_away() {
        let before = Terms { rate_limit: Some(9), ..Terms::to("https://a.example/", vec!["*".to_owned()]) };
        let only = change(&json!({ "enabled": true }));
        assert!(!only.names_terms());
        assert_eq!(only.over(before.clone(), &before), before);
        let faster = change(&json!({ "rate_limit": null }));
        assert!(faster.names_terms());
        assert_eq!(faster.over(before.clone(), &before), Terms { rate_limit: None, ..before });
    }

    #[test]
    fn null_follows_the_default_and_the_rest_stays() {
        let usual = Terms { max_retry_limit: 5, ..Terms::to("", Vec::new()) };
        let before = Terms {
            max_retry_limit: 3,
            base_delay: Duration::from_secs(1),
            ..Terms::to("https://a.example/", vec!["*".to_owned()])
        };
        let reset = change(&json!({ "max_retry_limit": null }));
        assert!(reset.names_terms());
        let after = reset.over(before.clone(), &usual);
        let defaulted = Defaulted { max_retry_limit: true, ..Defaulted::default() };
        assert_eq!(after, Terms { max_retry_limit: 5, defaulted, ..before.clone() });
        let own = change(&json!({ "max_retry_limit": 3 })).over(after, &usual);
        assert_eq!(own, before);
    }

    #[test]
    fn every_mistake_is_told_by_its_place() {
        let wish = new(&json!({
            "event_types": ["a", 7], "headers": { "x": 1 }, "max_retry_limit": -1, "base_delay": "soon", "max_delay": [],
            "timeout": null, "max_concurrency": 1.5, "rate_limit": "x", "enabled": "yes", "secret": "hush", "ulr": "x",
        }));
        let mut found = places(&wish);
        found.sort();
        let expected = [
            "base_delay",
            "enabled",
            "event_types[1]",
            "headers.x",
            "max_concurrency",
            "max_delay",
            "max_retry_limit",
            "rate_limit",
            "secret",
            "timeout",
            "ulr",
            "url",
        ];
        assert_eq!(found, expected);
        let told = format!("{:?}", wish.mistakes(Vec::new()));
        assert!(told.contains("did you mean `url`?") && !told.contains("hush"), "{told}");
        assert_eq!(places(&new(&json!({}))), ["url", "event_types"]);
    }

    #[test]
    fn what_somebody_wrote_is_repeated_without_marks_at_its_quotes() {
        let fields = FIELDS.iter().chain([&SECRET]);
        for (field, written) in fields.flat_map(|field| ["\"x\"", "it's"].map(|text| (*field, text))) {
            let value = match field {
                "event_types" => json!([written]),
                "headers" => json!({ written: 7 }),
                _ => json!(written),
            };
            let wish = new(&json!({ "url": "https://a.example/", "event_types": ["*"], field: value }));
            let usual = Terms::to("", Vec::new());
            let terms = wish.over(usual.clone(), &usual);
            let more = terms.check().err().map(|BadTerms(wrong)| wrong).unwrap_or_default();
            for Mistake { place, message } in wish.mistakes(more) {
                let told = format!("{place}: {message}");
                assert!(!told.contains("\\\"") && !told.contains("\\'"), "{field}: {told}");
            }
        }
    }

    #[test]
    fn what_only_follows_from_a_mistake_is_not_told() {
        let more = ["url", "headers.x", "timeout"]
            .map(|place| Mistake { place: place.to_owned(), message: String::new() });
        let found = new(&json!({ "event_types": ["*"], "headers": [] })).mistakes(more.to_vec());
        let found: Vec<&str> = found.iter().map(|mistake| mistake.place.as_str()).collect();
        assert_eq!(found, ["headers", "url", "timeout"]);
    }

    #[test]
    fn the_mask_is_no_value_and_a_secret_is_rotated_not_changed() {
        assert_eq!(places(&change(&json!({ "headers": { "x": MASK } }))), ["headers.x"]);
        let told =
            change(&json!({ "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" })).mistakes(Vec::new());
        assert!(told.len() == 1 && told[0].message.contains("rotate-secret"), "{told:?}");
        assert_eq!(places(&change(&json!({ "enabld": true }))), ["enabld"]);
    }
}
