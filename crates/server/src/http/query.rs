//! The parameters after the `?`: each known, each given once, each readable.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::problem::{Kind, Problem};

/// Parameters that have not been read yet. Whoever reads them ends with [`Query::finish`].
pub(crate) struct Query(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

impl Query {
    /// The parameters of this text.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if found.iter().any(|(known, _)| *known == name) {
                return Err(bad(&name, "is given twice: give it once"));
            }
            found.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(found))
    }

    /// A parameter as it stands.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// A parameter that has to be read.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match read(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(bad(name, &format!("is `{text}`: {expected}"))),
        }
    }

    /// A whole number within bounds.
    pub(crate) fn number<T: FromStr + PartialOrd + Display + Copy>(
        &mut self,
        name: &str,
        least: T,
        most: T,
    ) -> Result<Option<T>, Problem> {
        let within = |number: &T| (least..=most).contains(number);
        let expected = format!("use a whole number from {least} to {most}");
        self.read(name, |text| text.parse().ok().filter(within), &expected)
    }

    /// All parameters whose names begin so, without that beginning.
    pub(crate) fn prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        let (taken, rest) =
            std::mem::take(&mut self.0).into_iter().partition(|(name, _)| name.starts_with(prefix));
        self.0 = rest;
        let taken: Vec<(String, String)> = taken;
        taken.into_iter().map(|(name, value)| (name[prefix.len()..].to_owned(), value)).collect()
    }

    /// Refuses what nobody has read. `known` names what there is, for the one who asked.
    pub(crate) fn finish(self, known: &str) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(bad(name, "is unknown: this takes no parameters")),
            Some((name, _)) => Err(bad(name, &format!("is unknown: use {known}"))),
        }
    }
}

/// A parameter that cannot be used.
pub(crate) fn bad(name: &str, what: &str) -> Problem {
    let detail: Cow<'static, str> = format!("the query parameter `{name}` {what}").into();
    Problem::new(Kind::BadQuery, detail).with("parameter", name)
}
