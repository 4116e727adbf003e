//! Ends requests that wait for a database which does not answer.

use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::ACCEPT;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use backstitch::{Error, store};
use tokio::time::timeout;
use tracing::Instrument;

use super::accept::goes_on_alone;
use crate::app::App;
use crate::console;
use crate::problem::{Kind, Problem};
use crate::routes::{NotReady, Readiness};

/// How long a report on the database waits for its probe.
const REPORT_WITHIN: Duration = Duration::from_secs(3);
/// How long a request waits before the database is probed for it. The time doubles with each probe that is answered.
const FIRST_PROBE_AFTER: Duration = Duration::from_secs(2);

/// The last probes of the database, shared by all requests that wait.
#[derive(Default)]
pub(crate) struct Probes {
    reads: Readiness,
    commits: Readiness,
}

impl Probes {
    /// Whether the database answers, for a report on it; otherwise why not. The probe has a connection of its own, so no
    /// load is taken for silence, and all who report at the same time share one.
    pub(crate) async fn report(&self, app: &App) -> Result<(), String> {
        match timeout(REPORT_WITHIN, self.answered(app, false)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(NotReady::Failed(why))) => Err(why.to_string()),
            Ok(Err(NotReady::Silent | NotReady::Skewed { .. })) | Err(_) => {
                Err(format!("the database did not answer within {}s", REPORT_WITHIN.as_secs()))
            }
        }
    }

    /// Whether the database answers; requests that change something need a commit to be answered.
    async fn answered(&self, app: &App, commits: bool) -> Result<(), NotReady> {
        let last = if commits { &self.commits } else { &self.reads };
        last.seen(async || match app.engine.probe(commits).await {
            Err(Error::Store(why)) if matches!(*why, store::Error::Unavailable(_)) => {
                Err(NotReady::Failed(Error::Store(why)))
            }
            // A refusal is an answer: the route reports it.
            _ => Ok(()),
        })
        .await
    }
}

/// The middleware that answers `unavailable` in place of a route that waits for a silent database: for a
/// connection, a key, the audit or a commit. The request goes on as if its client had gone away: a commit that is
/// under way still has an unknown outcome, and the engine looks it up.
pub(crate) async fn bounded(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    if reports_on_the_database(path) {
        return next.run(request).await;
    }
    let (changes, goes_on) = (!request.method().is_safe(), goes_on_alone(&request));
    let accepts = request.headers().get(ACCEPT).and_then(|kinds| kinds.to_str().ok());
    let for_people = accepts.is_some_and(|kinds| kinds.contains("text/html"));
    let back = if for_people { console::back(&app, &request) } else { String::new() };
    let mut response = Box::pin(next.run(request));
    let mut patience = FIRST_PROBE_AFTER;
    loop {
        if let Ok(response) = timeout(patience, &mut response).await {
            return response;
        }
        let probed = tokio::select! {
            response = &mut response => return response,
            probed = app.probes.answered(&app, changes) => probed,
        };
        if let Err(why) = probed {
            tracing::warn!(?why, "the database does not answer; ending a request that waits for it");
            if goes_on {
                tokio::spawn(response.in_current_span());
            }
            let problem = unavailable(changes).into_response();
            return if for_people { console::as_page(&app, back, problem) } else { problem };
        }
        patience *= 2;
    }
}

/// These answer in time, whatever the database does.
pub(crate) fn reports_on_the_database(path: &str) -> bool {
    path.starts_with("/health") || matches!(path, "/metrics" | "/v1/doctor" | "/doctor")
}

fn unavailable(changes: bool) -> Problem {
    let detail = if changes {
        "the database does not answer, so the outcome of this request is unknown: repeat it in a moment, with the same \
         idempotency key if it has one"
    } else {
        "the database does not answer: ask again in a moment"
    };
    Problem::new(Kind::Unavailable, detail)
}
