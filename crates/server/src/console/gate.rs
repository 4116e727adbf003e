//! Lets whoever has signed in through to a page, and tells everybody else what to do, in pages too.

use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::form::{Form, TOKEN};
use super::visitor::Visitor;
use super::{cookie, origin, page};
use crate::app::App;
use crate::audit::audited;
use crate::auth::{self, Right, Role, Session, Verdict, Who, forbidden, is_open_form_token, open_form_token};
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
    let path = request.uri().path().to_owned();
    let mut visitor = Visitor::default();
    let answer = match admit(&app, needed, request, &mut visitor).await {
        Ok(Admitted::Through(request)) if is_audited => {
            audited(&app, visitor.holder.clone(), request, next).await
        }
        Ok(Admitted::Through(request)) => next.run(request).await,
        Ok(Admitted::ToSignIn(response)) => response,
        Err(problem) => problem.into_response(),
    };
    page::in_pages(&app, visitor, &path, answer)
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
    let hasher = &app.gate.hasher;
    let peer = Who::at(request.extensions().get::<Peer>().map(|peer| peer.0));
    let open = app.gate.is_open().await?;
    if open && !origin::is_local(request.headers()) {
        return Err(Problem::new(
            Kind::Forbidden,
            "without API keys this server is for this machine only: open it as http://127.0.0.1 or http://localhost",
        ));
    }
    let session = if open { None } else { session(app, request.headers()) };
    app.gate.rates.request(session.map_or(peer, |session| Who::Key(session.key)))?;
    if open {
        *visitor = Visitor { holder: None, open, form_token: open_form_token(hasher) };
    } else if let Some(session) = session
        && let Verdict::Good(holder) =
            app.gate.keyring.verify_number(session.key).await.map_err(|why| Problem::of_store(&why))?
    {
        *visitor = Visitor { holder: Some(holder), open, form_token: session.form_token(hasher) };
    }
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
        // A session whose key is not good any more is none: its holder signs in with another.
        let session = session.filter(|_| visitor.holder.is_some());
        request = with_form(app, request, open, session).await?;
    }
    let extensions = request.extensions_mut();
    extensions.insert(visitor.clone());
    extensions.insert(visitor.holder.as_ref().map_or(Right::Open, |holder| Right::Key(holder.id)));
    if let Some(holder) = &visitor.holder {
        extensions.insert(holder.clone());
    }
    Ok(Admitted::Through(request))
}

/// Whoever the browser's cookie stands for, if it is still good.
fn session(app: &App, headers: &HeaderMap) -> Option<Session> {
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
    if origin::is_foreign(request.headers()) {
        return Err(foreign("another site sent this form, and nothing was done: send it from the console"));
    }
    let (parts, body) = request.into_parts();
    let body = read_body(Request::from_parts(parts.clone(), body), &app.config.limits).await?;
    let form = Form::parse(&body);
    let (hasher, token) = (&app.gate.hasher, form.text(TOKEN));
    let fits = match session {
        Some(session) => session.has_form_token(hasher, token),
        // Whoever signs in has no session yet: what they send is their key.
        None => is_open_form_token(hasher, token) || (!open && parts.uri.path() == SIGN_IN),
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
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

/// Signs in with a key; how often a wrong one may be tried is counted as it is for the API.
pub(super) async fn sign_in(app: &App, key: &str, peer: Option<Peer>) -> Result<Session, Problem> {
    let holder = app.gate.identify(key, Who::at(peer.map(|peer| peer.0))).await?;
    if !holder.role.suffices_for(Role::Viewer) {
        return Err(forbidden(&holder, Role::Viewer));
    }
    let random = auth::random().map_err(|why| Problem::of_store(&why))?;
    let nonce = random.iter().take(8).fold(0, |nonce, byte| (nonce << 8) | u64::from(*byte));
    Ok(Session::begin(holder.id, app.clock.now(), nonce))
}
