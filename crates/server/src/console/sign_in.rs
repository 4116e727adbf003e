//! Signing in with an API key, and out again.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::SET_COOKIE;
use axum::response::Response;

use super::cookie;
use super::done::see_other;
use super::form::Form;
use super::gate::{SIGN_IN, session, sign_in};
use super::page::{Frame, Section, answer, page, told};
use super::visitor::Visitor;
use crate::app::App;
use crate::http::{Peer, Query};
use crate::problem::{Problem, Told};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    frame: Frame,
    next: String,
    ended: bool,
    told: Option<Told>,
}

/// The page that asks for a key.
pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let next = inside(&query.text("next").unwrap_or_default());
    let ended = query.text("ended").is_some();
    query.finish("next or ended")?;
    if visitor.is_in() {
        return Ok(see_other(&next));
    }
    let frame = Frame::new(&app, visitor, Section::None, "Sign in");
    Ok(page(&SignIn { frame, next, ended, told: None }))
}

/// Takes a key, and lets the browser keep a session instead.
pub(super) async fn take(
    State(app): State<App>,
    visitor: Visitor,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let next = inside(form.text("next"));
    match sign_in(&app, form.text("key").trim(), peer.map(|Extension(peer)| peer)).await {
        Ok(session) => {
            // A proxy in front may speak TLS for this server; then the cookie goes nowhere without it.
            let is_encrypted = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
            let mut response = see_other(&next);
            if let Some(kept) = cookie::keep(&session.seal(&app.gate.hasher), is_encrypted) {
                response.headers_mut().insert(SET_COOKIE, kept);
            }
            response
        }
        Err(problem) => {
            let (status, told) = told(problem);
            let frame = Frame::new(&app, visitor, Section::None, "Sign in");
            answer(status, &SignIn { frame, next, ended: false, told })
        }
    }
}

/// Signs out: whoever else has the cookie is out too.
pub(super) async fn leave(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    if let Some(session) = session(&app, &headers) {
        app.gate.keyring.sign_out(session).await.map_err(|why| Problem::of_store(&why))?;
    }
    let mut response = see_other(SIGN_IN);
    if let Some(forgotten) = cookie::forget() {
        response.headers_mut().insert(SET_COOKIE, forgotten);
    }
    Ok(response)
}

/// A place of this console, whatever somebody was sent here with: nobody is led elsewhere.
fn inside(next: &str) -> String {
    let is_ours = next.starts_with('/')
        && !next.starts_with("//")
        && next.chars().all(|it| it.is_ascii_graphic() && it != '\\');
    if is_ours { next.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere() {
        assert_eq!(inside("/sagas?status=failed"), "/sagas?status=failed");
        for elsewhere in [
            "",
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
            "/a\r\nb",
            "/\0a",
        ] {
            assert_eq!(inside(elsewhere), "/", "{elsewhere}");
        }
    }
}
