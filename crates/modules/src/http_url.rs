//! Addresses of requests that lead to services and receivers.

use backstitch_api::text_type;

use crate::outgoing::Address;

/// The longest address, in bytes.
const MAX_URL: usize = 8192;
/// A host by name or address, a port, a path and a query; no user, no fragment, no blank and no control character.
///
/// A host whose last part is a number would be an address. What a URL's parser mends beyond that, such as `http:\\host` or an
/// address in octal, is not in it; neither are letters beyond ASCII in the name of a host.
pub const HTTP_URL_PATTERN: &str = concat!(
    r"^[Hh][Tt][Tt][Pp][Ss]?://(",
    r"(?![^:/?]{254})([A-Za-z0-9_-]{1,63}\.)*(?!([0-9]+|0[Xx][0-9A-Fa-f]*)\.?([:/?]|$))[A-Za-z0-9_-]{1,63}\.?",
    r"|((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])",
    r"|\[(([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|([0-9A-Fa-f]{1,4}:){1,7}:|([0-9A-Fa-f]{1,4}:){1,6}:[0-9A-Fa-f]{1,4}",
    r"|([0-9A-Fa-f]{1,4}:){1,5}(:[0-9A-Fa-f]{1,4}){1,2}|([0-9A-Fa-f]{1,4}:){1,4}(:[0-9A-Fa-f]{1,4}){1,3}",
    r"|([0-9A-Fa-f]{1,4}:){1,3}(:[0-9A-Fa-f]{1,4}){1,4}|([0-9A-Fa-f]{1,4}:){1,2}(:[0-9A-Fa-f]{1,4}){1,5}",
    r"|[0-9A-Fa-f]{1,4}:(:[0-9A-Fa-f]{1,4}){1,6}|:((:[0-9A-Fa-f]{1,4}){1,7}|:))\]",
    r")(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?",
    r"([/?][^\x00-\x20#\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*)?$",
);

text_type! {
    /// `http` or `https`, with a host, without user, password or fragment.
    HttpUrl HTTP_URL_PATTERN, 8, MAX_URL, "http://127.0.0.1:7431/hooks", check_url;
}

pub(crate) fn check_url(url: &str) -> Result<(), String> {
    if url.len() > MAX_URL {
        return Err(format!("is {} bytes long: an address has at most {MAX_URL}", url.len()));
    }
    Address::read(url).map(drop).map_err(|problems| problems.join("; "))
}
