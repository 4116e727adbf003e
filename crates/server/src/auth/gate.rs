//! Lets a request through to its route, or answers it.

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use backstitch::SagaId;

use super::access::Access;
use super::keyring::{Holder, Keyring, Keys, Verdict};
use super::leave::Right;
use super::rates::{Rates, Who, is_limited};
use super::role::Role;
use super::secret::Hasher;
use super::stream_token;
use crate::app::App;
use crate::audit::audited;
use crate::console::{self, origin};
use crate::http::Peer;
use crate::problem::{Kind, Problem};

/// Knows keys and tokens, and whether anybody needs one.
pub(crate) struct Gate {
    pub(crate) keyring: Keyring,
    pub(crate) hasher: Hasher,
    /// Without a single key everything is open to whoever reaches a loopback address.
    pub(crate) may_be_open: bool,
    pub(crate) rates: Rates,
}

/// What a request says of itself.
struct Asked<'a> {
    headers: &'a HeaderMap,
    uri: &'a Uri,
}

impl Gate {
    pub(crate) fn stream_token(&self, saga: SagaId, holder: Option<&Holder>) -> String {
        stream_token::of(&self.hasher, saga, holder.map(|holder| holder.id))
    }

    pub(crate) async fn is_open(&self, keys: Keys) -> Result<bool, Problem> {
        Ok(self.may_be_open && self.keyring.is_empty(keys).await.map_err(|why| Problem::of_store(&why))?)
    }

    /// The holder of the request's key, and what lets the request in; neither where nobody ever needs a key.
    async fn admit(
        &self,
        needed: Option<Role>,
        asked: Asked<'_>,
        peer: Who,
        limited: bool,
        keys: Keys,
    ) -> Result<(Option<Holder>, Option<Right>), Problem> {
        let key = match needed {
            Some(_) if !self.is_open(keys).await? => Some(bearer(asked.headers)),
            _ => None,
        };
        if needed.is_some()
            && key.is_none()
            && let Some(why) = origin::is_of_a_stranger(asked.headers, asked.uri)
        {
            return Err(Problem::new(Kind::Forbidden, why));
        }
        let holder = match &key {
            Some(Ok(key)) => Some(self.identify(key, peer, keys).await?),
            Some(Err(_)) | None => None,
        };
        if limited {
            self.rates.request(holder.as_ref().map_or(peer, |holder| Who::Key(holder.id)))?;
        }
        // Only now: whoever sends no key where one is needed is counted like whoever needs none.
        key.transpose()?;
        match (&holder, needed) {
            (Some(holder), Some(needed)) if !holder.role.suffices_for(needed) => {
                Err(forbidden(holder, needed))
            }
            (Some(_), _) | (None, None) => {
                let right = holder.as_ref().map(|holder| Right::Key(holder.id));
                Ok((holder, right))
            }
            (None, Some(_)) => Ok((None, Some(Right::Open))),
        }
    }

    pub(crate) async fn identify(&self, key: &str, peer: Who, keys: Keys) -> Result<Holder, Problem> {
        let of_store = |why| Problem::of_store(&why);
        let mut verdict = self.keyring.verify(keys, key).await.map_err(of_store)?;
        if !matches!(verdict, Verdict::Good(_)) {
            // Only now: a good key is let in whatever others at its address try, and whoever tries too many gets no
            // further, to the database least of all.
            self.rates.wrong_key(peer)?;
            verdict = self.keyring.verify_anew(keys, key).await.map_err(of_store)?;
        }
        match verdict {
            Verdict::Good(holder) => Ok(holder),
            Verdict::Unknown => Err(unauthenticated("the API key is unknown: check that all of it was sent")),
            Verdict::Expired => Err(unauthenticated("the API key has expired: ask for a new one")),
            Verdict::Revoked => Err(unauthenticated("the API key was revoked: ask for a new one")),
        }
    }

    /// What the stream token in the request lets it in by: it is of the saga in the path, and its key is still good.
    async fn token(&self, uri: &Uri) -> Option<Right> {
        let query = uri.query().unwrap_or_default();
        let (_, token) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token")?;
        let saga = uri.path().split('/').find_map(|part| part.parse().ok())?;
        let right = stream_token::right(&self.hasher, saga, &token)?;
        let holds = self.keyring.holds().await;
        holds(right).then_some(right)
    }
}

/// The middleware around every route.
pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        // No route: whoever answers that tells nothing.
        return next.run(request).await;
    };
    let Some(route) = app.access.get(path.as_str(), request.method()) else {
        // A method without a role is closed to everybody, whether or not something would answer it.
        let allowed = app.access.methods(path.as_str());
        let problem = Problem::method_not_allowed(request.method(), &allowed);
        return console::refuse(app, request, problem).await;
    };
    let token = match route.access {
        Access::NeedsOrToken(_) => app.gate.token(request.uri()).await,
        Access::Needs(_) | Access::Page(_) | Access::Public => None,
    };
    let needed = match route.access {
        Access::Page(needed) => return console::guard(app, needed, route.audited, request, next).await,
        Access::Public => None,
        Access::NeedsOrToken(_) if token.is_some() => None,
        Access::Needs(role) | Access::NeedsOrToken(role) => Some(role),
    };
    let peer = Who::at(request.extensions().get::<Peer>().map(|peer| peer.0));
    let asked = Asked { headers: request.headers(), uri: request.uri() };
    let keys = Keys::for_route(path.as_str());
    let admitted = app.gate.admit(needed, asked, peer, is_limited(path.as_str()), keys).await;
    let (holder, right) = match admitted {
        Ok(admitted) => admitted,
        Err(problem) => return problem.into_response(),
    };
    if let Some(right) = right.or(token) {
        request.extensions_mut().insert(right);
    }
    if route.audited {
        return audited(&app, holder, request, next).await;
    }
    if let Some(holder) = holder {
        request.extensions_mut().insert(holder);
    }
    next.run(request).await
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        return Err(unauthenticated("this needs an API key: send it as `Authorization: Bearer bsk_…`"));
    };
    let key = header.to_str().ok().and_then(|text| {
        let (scheme, key) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    key.ok_or_else(|| {
        unauthenticated("the Authorization header is of another kind: send `Authorization: Bearer bsk_…`")
    })
}

pub(crate) fn forbidden(holder: &Holder, needed: Role) -> Problem {
    let detail = format!(
        "this needs a key with the role {needed}, the key sent has the role {}: use another key",
        holder.role
    );
    Problem::new(Kind::Forbidden, detail).with("needed_role", needed.as_str())
}

pub(super) fn unauthenticated(detail: &'static str) -> Problem {
    Problem::new(Kind::Unauthenticated, detail)
}
