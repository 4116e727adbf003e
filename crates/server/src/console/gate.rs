//! Lets whoever has signed in through to a page, and tells everybody else what to do, in pages too.

use axum::extract::{MatchedPath, Request};
use axum::http::header::{ACCEPT, SET_COOKIE};
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::done::see_other;
use super::form::{Form, TOKEN};
use super::visitor::Visitor;
use super::{cookie, origin, page};
use crate::app::App;
use crate::audit::audited;
use crate::auth::{
    self, Access, Keys, Right, Role, Session, Who, forbidden, is_open_form_token, open_form_token,
};
use crate::http::{Peer, read_body};
use crate::problem::{Kind, Problem};

/// The middleware around every page: whoever may see it does, and forms are ours.
pub(crate) async fn guard(
    app: App,
    needed: Option<Role>,
    is_audited: bool,
    request: Request,
    next: Next,
) -> Response {
    let back = back(&app, &request);
    let mut visitor = Visitor::default();
    let answer = match admit(&app, needed, request, &mut visitor).await {
        Ok(Admitted::Through(request)) if is_audited => {
            audited(&app, visitor.holder.clone(), request, next).await
        }
        Ok(Admitted::Through(request)) => next.run(request).await,
        Ok(Admitted::ToSignIn(response)) => response,
        Err(problem) => problem.into_response(),
    };
    page::in_pages(&app, visitor, back, answer)
}

/// Answers a browser for which there is nothing here, or nothing that way: as whoever it has signed in, and with a way back. Programs
/// get the problem as it is.
pub(crate) async fn refuse(app: App, request: Request, problem: Problem) -> Response {
    let answer = problem.into_response();
    let back = back(&app, &request);
    let (asked, _) = request.into_parts();
    let kinds = asked.headers.get(ACCEPT).and_then(|kinds| kinds.to_str().ok());
    if !kinds.is_some_and(|kinds| kinds.contains("text/html")) {
        return answer;
    }
    // Whoever cannot be told from nobody is shown the page as nobody.
    let visitor = visitor(&app, &asked.headers, &asked.uri, Keys::Current).await.unwrap_or_default();
    page::in_pages(&app, visitor, back, answer)
}

/// A problem as a page, for a browser of which nothing is known.
pub(crate) fn as_page(app: &App, back: String, problem: Response) -> Response {
    page::in_pages(app, Visitor::default(), back, problem)
}

/// The page that a form or a page belongs to: the next one above it that there is.
pub(crate) fn back(app: &App, request: &Request) -> String {
    let template = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    // The forms of machines stand beside their pages, where every key can be a key.
    let (template, path) = match request.uri().path().strip_prefix("/machines/") {
        Some(rest) => (template.replacen("/machines/", "/lifecycles/", 1), format!("/lifecycles/{rest}")),
        None => (template.to_owned(), request.uri().path().to_owned()),
    };
    above(&template, &path, |page| {
        app.access.get(page, &Method::GET).is_some_and(|rule| matches!(rule.access, Access::Page(_)))
    })
}

/// The nearest place above a path at which there is a page, where both are of as many parts.
fn above(template: &str, path: &str, is_page: impl Fn(&str) -> bool) -> String {
    let (mut template, mut path) = (template, path);
    while let (Some((above_template, _)), Some((above_path, _))) =
        (template.rsplit_once('/'), path.rsplit_once('/'))
    {
        (template, path) = (above_template, above_path);
        if is_page(template) {
            return path.to_owned();
        }
    }
    "/".to_owned()
}

/// Who the browser has signed in.
async fn visitor(app: &App, headers: &HeaderMap, uri: &Uri, keys: Keys) -> Result<Visitor, Problem> {
    let hasher = &app.gate.hasher;
    if app.gate.is_open(keys).await? {
        let open = origin::is_local(headers, uri);
        return Ok(Visitor { holder: None, open, form_token: open_form_token(hasher) });
    }
    let Some(session) = session(app, headers) else { return Ok(Visitor::default()) };
    let holder = app.gate.keyring.verify_session(keys, session).await;
    let holder = holder.map_err(|why| Problem::of_store(&why))?;
    Ok(holder.map_or_else(Visitor::default, |holder| Visitor {
        holder: Some(holder),
        open: false,
        form_token: session.form_token(hasher),
    }))
}

enum Admitted {
    Through(Request),
    ToSignIn(Response),
}

async fn admit(
    app: &App,
    needed: Option<Role>,
    request: Request,
    visitor: &mut Visitor,
) -> Result<Admitted, Problem> {
    let peer = Who::at(request.extensions().get::<Peer>().map(|peer| peer.0));
    let template = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let keys = Keys::for_route(template);
    let open = app.gate.is_open(keys).await?;
    if open && !origin::is_local(request.headers(), request.uri()) {
        return Err(Problem::new(
            Kind::Forbidden,
            "without API keys this server is for this machine only: open it as http://127.0.0.1 or http://localhost",
        ));
    }
    let session = if open { None } else { session(app, request.headers()) };
    app.gate.rates.request(session.map_or(peer, |session| Who::Key(session.key)))?;
    *visitor = self::visitor(app, request.headers(), request.uri(), keys).await?;
    if let Some(needed) = needed {
        match (&visitor.holder, request.method()) {
            (Some(holder), _) if !holder.role.suffices_for(needed) => return Err(forbidden(holder, needed)),
            (Some(_), _) => {}
            (None, _) if open => {}
            (None, &Method::GET | &Method::HEAD) => {
                return Ok(Admitted::ToSignIn(to_sign_in(
                    request.uri(),
                    cookie::read(request.headers()).is_some(),
                )));
            }
            (None, _) => {
                let detail =
                    "you are not signed in any more, and nothing was done: sign in and send it again";
                return Err(Problem::new(Kind::SessionEnded, detail));
            }
        }
    }
    let mut request = request;
    if request.method() == Method::POST {
        request = with_form(app, request, open, session).await?;
    }
    let extensions = request.extensions_mut();
    extensions.insert(visitor.clone());
    extensions.insert(session.map_or(Right::Open, Right::Session));
    if let Some(holder) = &visitor.holder {
        extensions.insert(holder.clone());
    }
    Ok(Admitted::Through(request))
}

/// Whoever the browser's cookie stands for, if its time is not over.
pub(super) fn session(app: &App, headers: &HeaderMap) -> Option<Session> {
    Session::open(&app.gate.hasher, cookie::read(headers)?, app.clock.now())
}

/// Reads the form, which must be one of ours: the token shows it, and nothing that the browser says may speak against it.
async fn with_form(
    app: &App,
    request: Request,
    open: bool,
    session: Option<Session>,
) -> Result<Request, Problem> {
    let foreign = |detail: &'static str| Problem::new(Kind::ForeignForm, detail);
    if origin::is_foreign(request.headers(), request.uri()) {
        return Err(foreign("another site sent this form, and nothing was done: send it from the console"));
    }
    let (parts, body) = request.into_parts();
    let body = read_body(Request::from_parts(parts.clone(), body), &app.config.limits).await?;
    let form = Form::parse(&body);
    let (hasher, token) = (&app.gate.hasher, form.text(TOKEN));
    // Whoever signs in sends their key, whatever session they had before.
    let signs_in = !open && parts.uri.path() == SIGN_IN;
    let fits = signs_in
        || match session {
            Some(session) => session.has_form_token(hasher, token),
            None => is_open_form_token(hasher, token),
        };
    if !fits {
        return Err(foreign(
            "the form's token is missing or too old, and nothing was done: open the page anew",
        ));
    }
    let mut request = Request::from_parts(parts, axum::body::Body::empty());
    request.extensions_mut().insert(form);
    Ok(request)
}

/// Where people sign in.
pub(super) const SIGN_IN: &str = "/login";

fn to_sign_in(wanted: &Uri, was_in: bool) -> Response {
    let wanted = wanted.path_and_query().map_or("/", |wanted| wanted.as_str());
    let mut query = form_urlencoded::Serializer::new(String::new());
    if wanted != "/" {
        query.append_pair("next", wanted);
    }
    if was_in {
        query.append_pair("ended", "1");
    }
    let query = query.finish();
    let place = if query.is_empty() { SIGN_IN.to_owned() } else { format!("{SIGN_IN}?{query}") };
    let mut response = see_other(&place);
    if let Some(forgotten) = cookie::forget().filter(|_| was_in) {
        response.headers_mut().insert(SET_COOKIE, forgotten);
    }
    response
}

/// Signs in with a key; how often a wrong one may be tried is counted as it is for the API.
pub(super) async fn sign_in(app: &App, key: &str, peer: Option<Peer>) -> Result<Session, Problem> {
    let holder = app.gate.identify(key, Who::at(peer.map(|peer| peer.0)), Keys::Current).await?;
    if !holder.role.suffices_for(Role::Viewer) {
        return Err(forbidden(&holder, Role::Viewer));
    }
    let random = auth::random().map_err(|why| Problem::of_store(&why))?;
    let nonce = random.iter().take(8).fold(0, |nonce, byte| (nonce << 8) | i64::from(*byte));
    Ok(Session::begin(holder.id, app.clock.now(), nonce))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_belongs_to_the_next_page_above_it() {
        let is_page = |template: &str| ["/sagas", "/sagas/{id}", "/orders"].contains(&template);
        let above = |template, path| above(template, path, is_page);
        assert_eq!(above("/sagas/{id}/steps/{step}/resolve", "/sagas/7/steps/a/resolve"), "/sagas/7");
        assert_eq!(above("/sagas/{id}", "/sagas/7"), "/sagas");
        assert_eq!(above("/orders/services/apply", "/orders/services/apply"), "/orders");
        assert_eq!((above("/sagas", "/sagas"), above("", "/nowhere/at/all")), ("/".into(), "/".into()));
    }
}
