//! Where a call may go: an address over HTTP that holds no secret and loses nothing on its way into a request.

use http::Uri;
use url::Url;

use crate::reading::quoted;

/// An address that can be called.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// As it is read.
    pub(crate) url: Url,
    /// As it stands in a request.
    pub(crate) uri: Uri,
}

impl Address {
    /// Reads what somebody wrote.
    ///
    /// # Errors
    /// Every mistake there is, each with what to do.
    pub(crate) fn read(written: &str) -> Result<Self, Vec<String>> {
        // A URL's parser would quietly leave these out.
        if written.contains(|char: char| char.is_whitespace() || char.is_control()) {
            return Err(vec!["has a blank or a control character: write a blank as %20".to_owned()]);
        }
        let url = Url::parse(written).map_err(|why| {
            vec![format!("`{}` is not a URL ({why}): write it like http://host/path", quoted(written))]
        })?;
        let mistakes: Vec<String> = mistakes(&url).into_iter().map(str::to_owned).collect();
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        match Uri::try_from(url.as_str()) {
            Ok(uri) => Ok(Self { url, uri }),
            Err(why) => {
                Err(vec![format!("cannot be put into a request ({why}): encode unusual characters as %XX")])
            }
        }
    }

    /// Host and port: whom a call loads.
    pub(crate) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

fn mistakes(url: &Url) -> Vec<&'static str> {
    let mut mistakes = Vec::new();
    if !matches!(url.scheme(), "http" | "https") {
        mistakes.push("is neither http nor https");
    } else if url.host_str().is_none_or(str::is_empty) {
        mistakes.push("names no host");
    }
    if url.port() == Some(0) {
        mistakes.push("has the port 0, where nobody listens: name another, or none");
    }
    if !url.username().is_empty() || url.password().is_some() {
        mistakes.push("holds a user or a password: send them in the header `Authorization`");
    }
    if url.fragment().is_some() {
        mistakes.push("has a fragment (#…), which is never sent: leave it out");
    }
    mistakes
}
