//! A text of which other pages show the beginning, from its beginning to its end.

use askama::Template;
use axum::response::Response;

use super::page::{Frame, page};

/// The page.
#[derive(Template)]
#[template(path = "whole.html")]
pub(super) struct Whole {
    pub(super) frame: Frame,
    /// What it is of, and where that is.
    pub(super) of: (String, String),
    pub(super) text: String,
}

impl Whole {
    pub(super) fn shown(&self) -> Response {
        page(self)
    }
}
