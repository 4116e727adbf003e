//! What a body is said to be.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

use crate::problem::{Kind, Problem};

/// The type that a request names for its body, in small letters and without parameters; nothing where it names none.
///
/// # Errors
/// When the body is said to be in another charset than UTF-8: it would be read as something else than was written.
pub(crate) fn content_type(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(named) = headers.get(CONTENT_TYPE) else { return Ok(None) };
    let named = String::from_utf8_lossy(named.as_bytes()).to_ascii_lowercase();
    let mut parts = named.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_owned();
    let charsets = parts.filter_map(|part| part.split_once('=')).filter(|(name, _)| name.trim() == "charset");
    for (_, charset) in charsets {
        let charset = charset.trim().trim_matches('"');
        if !matches!(charset, "utf-8" | "utf8") {
            return Err(Problem::new(
                Kind::UnsupportedMediaType,
                format!(
                    "the body is said to be in the charset `{charset}`: send it in UTF-8, with `Content-Type: {essence}`"
                ),
            ));
        }
    }
    Ok(Some(essence))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(named: &'static str) -> Result<Option<String>, Problem> {
        content_type(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(named))]))
    }

    #[test]
    fn utf_8_is_read_however_it_is_said() {
        for named in [
            "application/json",
            "Application/JSON ; charset=utf-8",
            "application/json;charset=UTF-8",
            "application/json; charset=\"utf-8\"",
            "application/json; Charset = utf8; profile=x",
            "application/json; profile=utf-16",
            "application/json;",
        ] {
            assert_eq!(read(named).unwrap().as_deref(), Some("application/json"), "{named}");
        }
        assert_eq!(content_type(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn every_other_charset_is_refused_with_what_to_do() {
        for named in [
            "application/json; charset=utf-16",
            "application/json; profile=x; CHARSET=\"UTF-16LE\"",
            "application/json;charset=iso-8859-1",
            "application/json; charset=utf-8; charset=utf-7",
            "application/json; charset=",
        ] {
            let told = read(named).unwrap_err().body();
            assert!(told.contains("415") && told.contains("UTF-8"), "{named}: {told}");
        }
    }
}
