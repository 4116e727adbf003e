//! Headers that a subscription gives its webhooks, such as a key of the receiver.

use std::collections::BTreeMap;
use std::fmt;

use backstitch_api::validate::quoted;
use http::header::{HeaderMap, HeaderName};

use crate::outgoing::header::{self, BELONGS_TO_THE_CALL, TWICE};

/// How many there may be.
pub(super) const MAX_HEADERS: usize = 32;
/// How long all names and values may be together, in bytes.
pub(super) const MAX_BYTES: usize = 8 * 1024;
/// The longest name in descriptions of the API.
pub(super) const MAX_NAME: usize = 256;
/// Names and values in descriptions of the API.
pub(super) const NAME_PATTERN: &str = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";
pub(super) const VALUE_PATTERN: &str = r"^[^\x00-\x08\x0a-\x1f\x7f]*$";
/// What receivers know a webhook by; somebody who set it could pass for another.
const OF_THE_WEBHOOK: &str = "webhook-";
/// Cookies have a life of their own on the receiver's side; proxies believe what is said about whom they stand for.
const OF_OTHERS: [&str; 6] = ["accept", "cookie", "forwarded", "via", "upgrade", "http2-settings"];
const OF_PROXIES: &str = "x-forwarded-";

/// A subscription's own headers. Their values are often secret, so only names are shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(HeaderMap);

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The header's name, or nothing where all of them together are wrong.
    pub name: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Headers {
    /// Checks what somebody gave a subscription.
    ///
    /// # Errors
    /// Every mistake there is; a value is never repeated.
    pub fn check(written: &BTreeMap<String, String>) -> Result<Self, Vec<Mistake>> {
        let mut mistakes: Vec<Mistake> = overall(written).into_iter().collect();
        let mut headers = HeaderMap::with_capacity(written.len().min(MAX_HEADERS));
        // No more than a person reads: each of a giant number may be wrong.
        for (name, value) in written.iter().take(MAX_HEADERS) {
            let wrong = |message: &str| Mistake { name: quoted(name), message: message.to_owned() };
            let (checked_name, checked_value) = (own_name(name), header::value(value));
            mistakes.extend(checked_name.as_ref().err().map(|why| wrong(why)));
            mistakes.extend(checked_value.as_ref().err().map(|why| wrong(why)));
            let (Ok(checked_name), Ok(mut checked_value)) = (checked_name, checked_value) else { continue };
            checked_value.set_sensitive(true);
            if headers.insert(checked_name, checked_value).is_some() {
                mistakes.push(wrong(TWICE));
            }
        }
        if mistakes.is_empty() { Ok(Self(headers)) } else { Err(mistakes) }
    }

    pub(super) fn as_map(&self) -> &HeaderMap {
        &self.0
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().map(HeaderName::as_str)).finish()
    }
}

fn overall(written: &BTreeMap<String, String>) -> Option<Mistake> {
    let length: usize = written.iter().map(|(name, value)| name.len() + value.len()).sum();
    let message = if written.len() > MAX_HEADERS {
        format!("there are {} headers, and at most {MAX_HEADERS} are kept", written.len())
    } else if length > MAX_BYTES {
        format!("the headers have {length} bytes together, and at most {MAX_BYTES} are kept")
    } else {
        return None;
    };
    Some(Mistake { name: String::new(), message })
}

fn own_name(written: &str) -> Result<HeaderName, &'static str> {
    let name = header::name(written)?;
    let is_ours = name.as_str().starts_with(OF_THE_WEBHOOK)
        || name.as_str().starts_with(OF_PROXIES)
        || OF_OTHERS.contains(&name.as_str());
    if is_ours { Err(BELONGS_TO_THE_CALL) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)]) -> Result<Headers, Vec<Mistake>> {
        Headers::check(
            &headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    #[test]
    fn a_subscription_has_headers_of_its_own_and_their_values_are_not_shown() {
        let headers = check(&[("Authorization", "Bearer hush"), ("X-Tenant", "")]).unwrap();
        assert_eq!(headers.as_map()["authorization"], "Bearer hush");
        assert!(!format!("{headers:?} {:?}", headers.as_map()).contains("hush"));
        assert!(format!("{headers:?}").contains("authorization"));
        assert!(check(&[]).unwrap().as_map().is_empty());
    }

    #[test]
    fn what_belongs_to_the_webhook_itself_is_refused_by_name() {
        for name in [
            "Host",
            "Content-Length",
            "CONTENT-TYPE",
            "content-encoding",
            "Transfer-Encoding",
            "Connection",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Expect",
            "Upgrade",
            "User-Agent",
            "Idempotency-Key",
            "Webhook-Id",
            "webhook-timestamp",
            "webhook-signature",
            "webhook-anything",
            "X-Backstitch-Attempt",
            "Proxy-Authorization",
            "proxy-connection",
            "Accept",
            "Accept-Encoding",
            "traceparent",
            "tracestate",
            "Cookie",
            "Forwarded",
            "Via",
            "X-Forwarded-For",
            "HTTP2-Settings",
        ] {
            let found = check(&[(name, "x")]).unwrap_err();
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!((found[0].name.as_str(), found[0].message.as_str()), (name, BELONGS_TO_THE_CALL));
        }
    }

    #[test]
    fn all_mistakes_are_told_at_once_and_no_value_is_repeated() {
        let found = check(&[
            ("", "hush"),
            ("X A", "hush"),
            ("X-A:", "hush"),
            ("X-Ä", "hush"),
            ("X-B", "hush\r\nWebhook-Id: forged"),
            ("X-C", "hush\n"),
            ("X-D", "hush\0"),
            ("X-\r\nE", "hush\u{7f}"),
            ("x-fine", "fine"),
            ("X-Fine", "fine"),
        ])
        .unwrap_err();
        let told = format!("{found:?}");
        assert_eq!(found.len(), 10, "{told}");
        assert_eq!(found.iter().filter(|it| it.message.contains("not a header's name")).count(), 5, "{told}");
        assert_eq!(found.iter().filter(|it| it.message.contains("line break")).count(), 4, "{told}");
        assert_eq!(found.iter().filter(|it| it.message.contains("twice")).count(), 1, "{told}");
        assert!(!told.contains("hush"), "{told}");
    }

    #[test]
    fn there_are_not_too_many_and_they_are_not_too_long() {
        let many = |count: usize| -> BTreeMap<String, String> {
            (0..count).map(|nth| (format!("x-{nth}"), "v".to_owned())).collect()
        };
        assert!(Headers::check(&many(MAX_HEADERS)).is_ok());
        let found = Headers::check(&many(100_000)).unwrap_err();
        assert!(found.len() == 1 && found[0].message.contains("at most 32"), "{found:?}");
        let long = "v".repeat(MAX_BYTES - "x-a".len());
        assert!(check(&[("x-a", &long)]).is_ok());
        let found = check(&[("x-ab", &long)]).unwrap_err();
        assert!(found.len() == 1 && found[0].message.contains("at most 8192"), "{found:?}");
    }
}
