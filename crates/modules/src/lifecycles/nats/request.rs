//! What a message asks for.

use backstitch::kernel::lifecycle::Given;
use backstitch::{Payload, Problems};
use backstitch_api::validate::{Node, ValidationErrors};
use serde_json::value::RawValue;

use crate::depth;
use crate::lifecycles::{MAX_DATA, sites};

/// Deeper than anybody writes, and not too deep for those who are handed it.
const DEEPEST: usize = 64;

const KEY: &str = "key";
const SITE_ID: &str = "site_id";
const CORRELATION_ID: &str = "correlation_id";

/// A start.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) key: String,
    pub(super) given: Given,
}

impl Request {
    /// Reads a message; or what is wrong with it.
    pub(super) fn read(machine: &str, body: &[u8]) -> Result<Self, String> {
        if body.len() > MAX_DATA {
            return Err(format!(
                "it has {} bytes; the limit is {MAX_DATA}: pass a reference to where the data is",
                body.len()
            ));
        }
        if depth::exceeds(body, DEEPEST) {
            return Err(format!("it is nested deeper than {DEEPEST} levels: flatten it"));
        }
        let json: &RawValue = serde_json::from_slice(body)
            .map_err(|why| format!("it is not JSON: line {}, column {}", why.line(), why.column()))?;
        let errors = ValidationErrors::of("the message");
        let request = Self::of_object(machine, &Node::root(json.get(), &errors));
        errors.or_else(request).map_err(|Problems(problems)| {
            let problems = problems.iter().map(|problem| format!("{}: {}", problem.place, problem.message));
            problems.collect::<Vec<_>>().join("; ")
        })
    }

    /// A site's key is its id too. All other fields are the input, as they are written.
    fn of_object(machine: &str, node: &Node<'_>) -> Option<Self> {
        let object = node.any_object()?;
        let is_site = machine == sites::MACHINE;
        let name = if is_site { SITE_ID } else { KEY };
        let key: Option<String> = object.field(KEY)?;
        let site_id: Option<String> = if is_site { object.field(SITE_ID)? } else { None };
        let correlation_id = object.field(CORRELATION_ID)?;
        if key.is_some() && site_id.as_ref().is_some_and(|site| Some(site) != key.as_ref()) {
            object.wrong(SITE_ID, format!("differs from `{KEY}`: leave one out"));
        }
        let key = site_id.or(key);
        if key.is_none() && object.get(name).is_none_or(|key| key.is_null()) {
            object.missing(name);
        }
        let own = if is_site { &[KEY, CORRELATION_ID, SITE_ID][..] } else { &[KEY, CORRELATION_ID] };
        let rest = object.rest(own);
        let input = if rest.is_empty() { None } else { Some(Payload::encode(&rest).ok()?) };
        Some(Self { key: key?, given: Given { correlation_id, input } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(body: &str) -> Result<Request, String> {
        Request::read(sites::MACHINE, body.as_bytes())
    }

    #[test]
    fn the_rest_of_the_object_is_the_input_as_it_was_written() {
        let read =
            sites(r#"{"site_id":"s-1","correlation_id":"c","repo":"a/b","size":1e400,"tax":1.10}"#).unwrap();
        assert_eq!((read.key.as_str(), read.given.correlation_id.as_deref()), ("s-1", Some("c")));
        assert_eq!(read.given.input.unwrap().as_str(), r#"{"repo":"a/b","size":1e400,"tax":1.10}"#);
        let bare = sites(r#"{"key":"s-1","correlation_id":null}"#).unwrap();
        assert_eq!(bare.given, Given::default(), "what was given before stays");
    }

    #[test]
    fn a_key_is_called_so_and_a_sites_key_is_its_id_too() {
        assert_eq!(sites(r#"{"key":"s","site_id":"s"}"#).unwrap().key, "s");
        let parcel = Request::read("parcel", br#"{"key":"p","site_id":"s"}"#).unwrap();
        assert_eq!((parcel.key.as_str(), parcel.given.input.unwrap().as_str()), ("p", r#"{"site_id":"s"}"#));
        assert!(Request::read("parcel", br#"{"site_id":"s"}"#).unwrap_err().contains("key: is missing"));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (body, why) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("[]", "is a list: write an object"),
            ("7", "is a number: write an object"),
            ("{}", "site_id: is missing"),
            (r#"{"site_id":7}"#, "site_id: is a number: write text"),
            (r#"{"site_id":"a","key":"b"}"#, "site_id: differs from `key`"),
            (r#"{"site_id":"a","correlation_id":[]}"#, "correlation_id: is a list: write text"),
            (r#"{"site_id":"a","site_id":"a"}"#, "`site_id` is there twice: give it once"),
            (r#"{"site_id":"a","plan":1,"plan":2}"#, "`plan` is there twice: give it once"),
            (r#"{"site_id":"a"} {}"#, "not JSON"),
        ] {
            let told = sites(body).unwrap_err();
            assert!(told.contains(why), "{body}: {told}");
        }
        assert!(Request::read("m", &[0xff, 0xfe]).unwrap_err().contains("not JSON"));
        let large = format!(r#"{{"key":"a","x":"{}"}}"#, "x".repeat(MAX_DATA));
        assert!(sites(&large).unwrap_err().contains("the limit is 1048576"));
        let deep = format!(r#"{{"key":"a","x":{}{}}}"#, "[".repeat(100), "]".repeat(100));
        assert!(sites(&deep).unwrap_err().contains("deeper than 64"));
    }
}
