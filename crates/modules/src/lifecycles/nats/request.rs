//! What a message asks for.

use std::collections::BTreeMap;

use backstitch::Payload;
use backstitch::kernel::lifecycle::Given;
use serde_json::value::RawValue;

use crate::depth;
use crate::lifecycles::{MAX_DATA, sites};
use crate::unique::each_name_once;

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
        // Numbers stay as they are written.
        let mut fields = members(body).map_err(|why| unreadable(body, &why))?;
        let key = key(machine, &mut fields)?;
        let correlation_id = text(CORRELATION_ID, &mut fields)?;
        let input = if fields.is_empty() { None } else { Some(encoded(&fields)?) };
        Ok(Self { key, given: Given { correlation_id, input } })
    }
}

/// Each once, and as it was written.
fn members(body: &[u8]) -> serde_json::Result<BTreeMap<String, Box<RawValue>>> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let members = each_name_once(&mut reader)?;
    reader.end()?;
    Ok(members)
}

fn unreadable(body: &[u8], why: &serde_json::Error) -> String {
    let wrong = match body.trim_ascii_start().first() {
        _ if !why.is_data() => "it is not JSON",
        Some(b'{') => return why.to_string(),
        _ => "it is not an object",
    };
    format!("{wrong}: line {}, column {}", why.line(), why.column())
}

fn key(machine: &str, fields: &mut BTreeMap<String, Box<RawValue>>) -> Result<String, String> {
    let key = text(KEY, fields)?;
    if machine != sites::MACHINE {
        return key.ok_or_else(|| format!("it has no `{KEY}`: say which one is meant"));
    }
    match (key, text(SITE_ID, fields)?) {
        (Some(key), Some(site)) if key != site => {
            Err(format!("its `{KEY}` and its `{SITE_ID}` differ: leave one out"))
        }
        (key, site) => site.or(key).ok_or_else(|| format!("it has no `{SITE_ID}`: name the site")),
    }
}

/// Takes text out; nothing where there is none.
fn text(name: &str, fields: &mut BTreeMap<String, Box<RawValue>>) -> Result<Option<String>, String> {
    let Some(raw) = fields.remove(name) else { return Ok(None) };
    serde_json::from_str(raw.get())
        .map_err(|_| format!("its `{name}` is not text: write it in quotation marks"))
}

fn encoded(fields: &BTreeMap<String, Box<RawValue>>) -> Result<Payload, String> {
    Payload::encode(fields).map_err(|why| format!("it cannot be handed on: {why}"))
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
        assert!(Request::read("parcel", br#"{"site_id":"s"}"#).unwrap_err().contains("no `key`"));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (body, why) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("[]", "not an object"),
            ("7", "not an object"),
            ("{}", "no `site_id`"),
            (r#"{"site_id":7}"#, "`site_id` is not text"),
            (r#"{"site_id":"a","key":"b"}"#, "differ"),
            (r#"{"site_id":"a","correlation_id":[]}"#, "`correlation_id` is not text"),
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
