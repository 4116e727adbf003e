//! Who asked for which change, when, from where, and what they were answered.
//!
//! A request is on disk before anything is done for it, and its answer before it is sent (ADR 7).

mod trail;

use axum::extract::{MatchedPath, Request};
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use tracing::Instrument;

use trail::{Asked, answered, asked};
pub(crate) use trail::{Recorded, list};

use crate::app::App;
use crate::auth::Holder;
use crate::http::Peer;
use crate::problem::Problem;
use crate::telemetry::answer_or_problem;

/// The role of whoever asks while nobody needs a key.
const OPEN: &str = "open";
/// Characters that are kept of a path, or of what was done; more than any request needs that can be carried out.
const PATH: usize = 1024;

/// Lets the request through to its route, between its record and that of its answer.
pub(crate) async fn audited(app: &App, holder: Option<Holder>, mut request: Request, next: Next) -> Response {
    let asked = match asked(&app.engine, described(holder.as_ref(), &request)).await {
        Ok(id) => id,
        // Nothing was done yet, and nothing is done that nobody could account for.
        Err(why) => return Problem::of_store(&why).into_response(),
    };
    if let Some(holder) = holder {
        request.extensions_mut().insert(holder);
    }
    // To its end, even if whoever asked goes away: what was done is then on record too.
    let engine = app.engine.clone();
    let done = async move {
        let response = answer_or_problem(next.run(request)).await;
        let status = response.status().as_u16();
        let what = response.extensions().get::<Said>().map(|said| beginning(&said.0));
        if let Err(error) = answered(&engine, asked, status, what).await {
            // It is done, and the record says who asked for it: to answer that it failed would be another lie.
            tracing::error!(%error, audit = asked, status, "an answer could not be recorded in the audit");
        }
        response
    };
    tokio::spawn(done.in_current_span()).await.unwrap_or_else(|_| Problem::internal().into_response())
}

/// What was done, in words.
#[derive(Clone)]
struct Said(String);

/// The same answer, with what was done in words: the path alone does not say.
pub(crate) fn said(mut response: Response, what: impl Into<String>) -> Response {
    response.extensions_mut().insert(Said(what.into()));
    response
}

/// What was asked for, after what was done; what was left empty is left out.
pub(crate) fn filtered<N: AsRef<str>, V: AsRef<str>>(fields: impl IntoIterator<Item = (N, V)>) -> String {
    let filled = fields.into_iter().filter(|(_, value)| !value.as_ref().is_empty());
    filled.fold(String::new(), |text, (name, value)| text + ", " + name.as_ref() + "=" + value.as_ref())
}

fn described(holder: Option<&Holder>, request: &Request) -> Asked {
    let template = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    Asked {
        key_id: holder.map(|holder| holder.id),
        key_name: holder.map(|holder| holder.name.clone()),
        role: holder.map_or(OPEN, |holder| holder.role.as_str()),
        peer: request.extensions().get::<Peer>().map(|peer| peer.0.to_string()),
        method: request.method().to_string(),
        path: beginning(path_and_query(request.uri())),
        subject: subject(template, request.uri().path()).map(beginning),
    }
}

fn path_and_query(uri: &Uri) -> &str {
    uri.path_and_query().map_or(uri.path(), |path| path.as_str())
}

/// What the first placeholder of the template stands for, escaped as it came: no database refuses that.
fn subject<'a>(template: &str, path: &'a str) -> Option<&'a str> {
    let mut parts = template.split('/').zip(path.split('/'));
    parts.find(|(name, _)| name.starts_with('{')).map(|(_, part)| part)
}

fn beginning(text: &str) -> String {
    text.chars().take(PATH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_is_what_the_path_names_first() {
        assert_eq!(subject("/v1/sagas/{id}/steps/{step}/resolve", "/v1/sagas/7/steps/a/resolve"), Some("7"));
        assert_eq!(subject("/v1/definitions/{name}/apply", "/v1/definitions/a%00b/apply"), Some("a%00b"));
        assert_eq!(subject("/v1/admin/config/services", "/v1/admin/config/services"), None);
    }

    #[test]
    fn what_was_asked_for_is_said_without_what_was_left_empty() {
        assert_eq!(
            filtered([("code", "http_400"), ("since", ""), ("event", "7")]),
            ", code=http_400, event=7"
        );
    }

    #[test]
    fn of_an_endless_path_the_beginning_is_kept() {
        assert_eq!(beginning("/v1/sagas"), "/v1/sagas");
        assert_eq!(beginning(&"ü".repeat(2 * PATH)), "ü".repeat(PATH));
    }
}
