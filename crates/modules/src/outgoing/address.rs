//! Where a call may go: an address over HTTP that holds no secret and loses nothing on its way into a request.

use backstitch_api::validate::quoted;
use http::Uri;
use url::{Host, Url};

/// The longest name of a host, and of a part of it, that a name server knows.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

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
        let mistakes: Vec<String> = mistakes(&url, written).into_iter().map(str::to_owned).collect();
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

fn mistakes(url: &Url, written: &str) -> Vec<&'static str> {
    let mut mistakes = Vec::new();
    let authority = authority_in(written);
    if !matches!(url.scheme(), "http" | "https") {
        mistakes.push("is neither http nor https");
    } else if authority.is_none_or(str::is_empty) || url.host_str().is_none_or(str::is_empty) {
        mistakes.push("names no host right after `//`: write it like http://host/path");
    }
    if let Some(Host::Domain(name)) = url.host()
        && (name.len() > LONGEST_NAME || name.split('.').any(|label| label.len() > LONGEST_LABEL))
    {
        mistakes.push("names a host that is longer than any can be: 253 characters, and 63 between two dots");
    }
    if url.port() == Some(0) {
        mistakes.push("has the port 0, where nobody listens: name another, or none");
    }
    if authority.is_some_and(|authority| authority.contains('@')) {
        mistakes.push("holds a user or a password: send them in the header `Authorization`");
    }
    if url.fragment().is_some() {
        mistakes.push("has a fragment (#…), which is never sent: leave it out");
    }
    mistakes
}

/// What stands between `//` and the path. A URL's parser would take the first part of a path for a host that is missing, and
/// would quietly leave out credentials that are empty.
fn authority_in(written: &str) -> Option<&str> {
    let is_slash = |char| matches!(char, '/' | '\\');
    let (_, rest) = written.split_once(':')?;
    let rest = rest.strip_prefix(is_slash)?.strip_prefix(is_slash)?;
    rest.split(|char| is_slash(char) || matches!(char, '?' | '#')).next()
}
