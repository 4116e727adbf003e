//! Who looks at a page.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use backstitch_modules::masked_url;

use crate::app::App;
use crate::auth::{Holder, Role, signed};

/// Letters that a note may have, as a browser counts them. None has more than three bytes, so that with a name before it a note is
/// no longer than logs keep it, and nothing that was written is refused.
pub(crate) const LONGEST_NOTE: usize = 1300;

/// Whoever looks at a page, and what they may do there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visitor {
    /// The key that they signed in with; nothing where nobody needs one, or nobody has signed in.
    pub(crate) holder: Option<Holder>,
    /// Whether everybody may do everything.
    pub(crate) open: bool,
    /// What their forms carry.
    pub(crate) form_token: String,
}

impl Visitor {
    /// Whether this role, or a higher one, is theirs.
    pub(crate) fn may(&self, needed: Role) -> bool {
        self.open || self.holder.as_ref().is_some_and(|holder| holder.role.suffices_for(needed))
    }

    /// The same by words that templates can write.
    pub(crate) fn may_cancel(&self) -> bool {
        self.may(Role::Client)
    }

    pub(crate) fn may_operate(&self) -> bool {
        self.may(Role::Operator)
    }

    pub(crate) fn may_administer(&self) -> bool {
        self.may(Role::Admin)
    }

    /// A URL as they may read it: tokens in its query are for admins.
    pub(crate) fn shown_url(&self, url: &str) -> String {
        if self.may_administer() { url.to_owned() } else { masked_url(url) }
    }

    /// Whether they are let in at all.
    pub(crate) fn is_in(&self) -> bool {
        self.open || self.holder.is_some()
    }

    /// Who they are, for the log of what they change.
    pub(crate) fn name(&self) -> &str {
        self.holder.as_ref().map_or("console", |holder| holder.name.as_str())
    }

    /// What they say, in the log of what it is about: with their name before it.
    pub(crate) fn note(&self, note: &str) -> String {
        signed(self.name(), note)
    }
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}
