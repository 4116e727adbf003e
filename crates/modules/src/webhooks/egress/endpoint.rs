//! The address of a subscription.

use std::net::IpAddr;

use http::Uri;
use url::{Host, Url};

use crate::outgoing::Address;

/// The longest address, in bytes.
pub const MAX_ADDRESS: usize = 2048;

/// An address that a webhook can be sent to, in the one form it is kept in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    url: Url,
    uri: Uri,
}

impl Endpoint {
    /// Reads an address: over http or https, with a host, and without user, password or fragment. Whether webhooks may
    /// go there is for [`Egress`](super::Egress) to say.
    ///
    /// # Errors
    /// Every mistake there is.
    pub fn read(written: &str) -> Result<Self, Vec<String>> {
        if written.len() > MAX_ADDRESS {
            return Err(vec![format!(
                "is {} bytes long: an address has at most {MAX_ADDRESS}",
                written.len()
            )]);
        }
        let Address { url, uri } = Address::read(written)?;
        Ok(Self { url, uri })
    }

    /// The address as it is kept: numbers in the host written out, names in small letters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Its host.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    pub(in crate::webhooks) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The address that stands in the place of a name.
    pub(super) fn literal(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }

    /// Whether the name means the machine that asks, whatever a resolver says.
    pub(super) fn is_this_machine(&self) -> bool {
        let name = self.host().strip_suffix('.').unwrap_or(self.host());
        name == "localhost" || name.ends_with(".localhost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_in_one_form() {
        for (written, kept) in [
            ("HTTPS://Hooks.Example.COM", "https://hooks.example.com/"),
            ("http://0x8.8.2056/a?b=c", "http://8.8.8.8/a?b=c"),
            ("https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4"),
            ("http://[2606:4700:0:0::1111]:81/", "http://[2606:4700::1111]:81/"),
            ("http://example.com:80/", "http://example.com/"),
            ("http:\\\\example.com\\a", "http://example.com/a"),
            ("https://example.com/@ada?to=a@b", "https://example.com/@ada?to=a@b"),
        ] {
            let endpoint = Endpoint::read(written).unwrap_or_else(|why| panic!("{written}: {why:?}"));
            assert_eq!(endpoint.as_str(), kept);
            assert_eq!(Endpoint::read(kept).unwrap(), endpoint, "what is kept is read as the same");
        }
    }

    #[test]
    fn an_address_that_cannot_be_called_is_refused_with_every_reason() {
        for (url, complaints) in [
            ("ftp://example.com/", &["neither http nor https"][..]),
            ("file:///etc/passwd", &["neither http nor https"]),
            ("javascript:alert(1)", &["neither http nor https"]),
            ("example.com/hook", &["not a URL"]),
            ("//example.com/hook", &["not a URL"]),
            ("http://", &["not a URL"]),
            ("", &["not a URL"]),
            ("http://example.com:99999/", &["not a URL"]),
            ("http://example.com:0/", &["port 0"]),
            ("http://1.2.3.4.5/", &["not a URL"]),
            ("http://256.1.1.1/", &["not a URL"]),
            ("http://[::1/", &["not a URL"]),
            ("http://[fe80::1%25eth0]/", &["not a URL"]),
            ("http://exa<mple.com/", &["not a URL"]),
            ("https://ada:hush@example.com/", &["user or a password"]),
            ("https://ada@example.com/", &["user or a password"]),
            ("https://:hush@example.com/", &["user or a password"]),
            ("https://@example.com/", &["user or a password"]),
            ("https://:@example.com/", &["user or a password"]),
            ("https:\\\\@example.com\\", &["user or a password"]),
            ("http:///x", &["no host right after"]),
            ("http:////example.com/x", &["no host right after"]),
            ("http:\\\\\\x", &["no host right after"]),
            ("http:/example.com/x", &["no host right after"]),
            ("http:example.com", &["no host right after"]),
            ("https://example.com/#top", &["fragment"]),
            ("https://example.com/a b", &["blank"]),
            ("https://example.com/\r\nX-A: b", &["blank"]),
            ("https://exam\u{0}ple.com/", &["blank"]),
            ("ftp://ada@example.com:0/#top", &["neither http", "port 0", "user or a password", "fragment"]),
        ] {
            let found = Endpoint::read(url).unwrap_err();
            assert_eq!(found.len(), complaints.len(), "{url}: {found:?}");
            for (found, complaint) in found.iter().zip(complaints) {
                assert!(found.contains(complaint), "{url}: {found}");
            }
        }
        let long = format!("https://example.com/{}", "a".repeat(MAX_ADDRESS));
        assert!(Endpoint::read(&long).unwrap_err()[0].contains("at most 2048"));
        assert!(Endpoint::read(&long[..MAX_ADDRESS]).is_ok());
    }
}
