//! The cookie that a browser keeps while somebody is signed in.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

use crate::auth::LIFETIME;

const NAME: &str = "backstitch_session";

/// What the browser sends.
pub(super) fn read(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    cookies.flat_map(|header| header.split(';')).find_map(|cookie| {
        let (name, value) = cookie.trim().split_once('=')?;
        (name == NAME).then_some(value)
    })
}

/// What it is told to keep. Not strictly for this site only: a link that somebody shares would lead to the sign-in.
pub(super) fn keep(sealed: &str, is_encrypted: bool) -> Option<HeaderValue> {
    set(sealed, LIFETIME.as_secs(), is_encrypted)
}

/// Tells it to forget.
pub(super) fn forget() -> Option<HeaderValue> {
    set("", 0, false)
}

fn set(value: &str, seconds: u64, is_encrypted: bool) -> Option<HeaderValue> {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let cookie = format!("{NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(cookie).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        assert_eq!(read(&headers), None);
        headers.append(COOKIE, HeaderValue::from_static("a=1; backstitch_sessions=2"));
        headers.append(COOKIE, HeaderValue::from_static("b=3;backstitch_session=x-y_z; c=4"));
        assert_eq!(read(&headers), Some("x-y_z"));
    }

    #[test]
    fn no_script_and_no_other_site_gets_it() {
        let kept = keep("token", false).unwrap();
        assert_eq!(kept, "backstitch_session=token; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax");
        assert!(keep("token", true).unwrap().to_str().unwrap().ends_with("; Secure"));
        assert!(forget().unwrap().to_str().unwrap().contains("Max-Age=0"));
    }
}
