//! Addresses of pages: every view has one that can be shared.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// A place with these parameters; those without a value are left out.
pub(crate) fn address(place: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            query.append_pair(name, value);
        }
    }
    match query.finish() {
        query if query.is_empty() => place.to_owned(),
        query => format!("{place}?{query}"),
    }
}

/// A part of a path, whatever it is made of.
pub(crate) fn escaped(part: &str) -> String {
    utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_is_not_in_the_address() {
        assert_eq!(address("/outbox", &[("status", None), ("topic", Some(""))]), "/outbox");
        assert_eq!(
            address("/outbox", &[("topic", Some("a&b")), ("cursor", Some("7"))]),
            "/outbox?topic=a%26b&cursor=7"
        );
    }
}
