//! What somebody has filled in and sent.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::app::App;
use crate::problem::{Kind, Problem};

/// The field that carries the session's token.
pub(super) const TOKEN: &str = "form_token";

/// The fields of a form. Only the guard makes one, once it has seen that the form is one of ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn parse(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    /// A field as it was filled in; empty where it was not.
    pub(crate) fn text(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Whether there is such a field, be it empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// A field, unless it was left empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }

    /// A field that has to be read.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Result<T, Problem> {
        let text = self.text(name);
        read(text).ok_or_else(|| Problem::field(name, format!("is `{text}`: {expected}")))
    }

    /// Refuses what was decided on something that is not so any more.
    pub(crate) fn was_made_for(&self, now: &str) -> Result<(), Problem> {
        let seen = self.text("seen");
        if seen == now {
            return Ok(());
        }
        let detail = format!(
            "the page showed `{seen}`, and it is `{now}` by now: nothing was done; look again and decide anew"
        );
        Err(Problem::new(Kind::StaleForm, detail))
    }
}

impl FromRequestParts<App> for Form {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name_and_empty_ones_are_not_filled_in() {
        let form = Form::parse(b"note=+a%3Cb%3E+&empty=++");
        assert_eq!((form.text("note"), form.filled("note")), (" a<b> ", Some("a<b>")));
        assert_eq!((form.filled("empty"), form.filled("none")), (None, None));
    }

    #[test]
    fn a_form_that_was_made_for_another_state_is_stale() {
        let form = Form::parse(b"seen=running");
        assert!(form.was_made_for("running").is_ok());
        assert!(form.was_made_for("succeeded").is_err());
    }
}
