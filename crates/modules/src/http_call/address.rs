//! Where a call can go.

use http::Uri;
use url::{Host, Url};

use crate::reading::quoted;

/// The longest name of a host, and of a part of it, that a name server knows.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// An address that calls can be sent to.
#[derive(Debug)]
pub(crate) struct Address {
    pub(super) uri: Uri,
    /// Host and port: whom a call loads.
    pub(super) authority: String,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn read(written: &str) -> Result<Self, Vec<String>> {
        // A URL's parser would quietly leave these out.
        if written.contains(|char: char| char.is_whitespace() || char.is_control()) {
            return Err(vec!["has a blank or a control character: write a blank as %20".to_owned()]);
        }
        let url = Url::parse(written).map_err(|why| {
            vec![format!("`{}` is not a URL ({why}): write it like http://host/path", quoted(written))]
        })?;
        let wrong: Vec<String> = complaints(&url).into_iter().map(str::to_owned).collect();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let host = url.host_str().unwrap_or_default();
        let authority =
            url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        match Uri::try_from(url.as_str()) {
            Ok(uri) => Ok(Self { uri, authority }),
            Err(why) => {
                Err(vec![format!("cannot be put into a request ({why}): encode unusual characters as %XX")])
            }
        }
    }
}

fn complaints(url: &Url) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    if !matches!(url.scheme(), "http" | "https") {
        wrong.push("is neither http nor https");
    } else if url.host_str().is_none_or(str::is_empty) {
        wrong.push("names no host");
    }
    if let Some(Host::Domain(name)) = url.host()
        && (name.len() > LONGEST_NAME || name.split('.').any(|label| label.len() > LONGEST_LABEL))
    {
        wrong.push("names a host that is longer than any can be: 253 characters, and 63 between two dots");
    }
    if !url.username().is_empty() || url.password().is_some() {
        wrong.push("holds a user or a password: send them in the header `Authorization`");
    }
    if url.fragment().is_some() {
        wrong.push("has a fragment (#…), which is never sent: leave it out");
    }
    wrong
}
