//! Sites (seed 004): the machine `site-provisioning` in the words of those who ask for sites.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch_api::request;
use backstitch_api::validate::Label;
use backstitch_modules::lifecycles::sites::MACHINE;
use backstitch_modules::lifecycles::{Error, Given, LifecycleKey, Standing};
use serde::Serialize;

use super::lifecycles::start::{Begun, begin};
use super::lifecycles::told;
use crate::app::App;
use crate::http::{Json, Query, SiteInPath, json};
use crate::problem::{Described, Kind, Problem};
use backstitch_api::time::{Time, rfc3339};

request! {
    /// A site that somebody wants. Whatever else there is, its actions can read.
    pub(in crate::routes) struct NewSite as "NewSite" example { "site_id": "site-1", "repository": "acme/docs" } {
        /// Anything that can be seen, up to 200 bytes, with blanks only between its characters.
        site_id: LifecycleKey,
        /// What links traces. The first one of all requests counts.
        correlation_id: Option<Label>,
        ..more,
    }
}

/// A site as it stands.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Site)]
pub(in crate::routes) struct View<'a> {
    site_id: &'a str,
    /// Where it stands.
    #[schema(value_type = SiteState)]
    state: &'a str,
    /// How often it was asked for.
    attempt: u32,
    correlation_id: Option<&'a str>,
    /// What went wrong; only of one that failed.
    last_error: Option<&'a str>,
    #[schema(value_type = Option<SiteErrorKind>)]
    error_kind: Option<&'a str>,
    /// Whether it was abandoned while it waited for GitHub. Nothing follows.
    abandoned: bool,
    created_at: Time,
    updated_at: Time,
}

/// Where a site stands.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes what is written as text")]
pub(in crate::routes) enum SiteState {
    Requested,
    SourceResolving,
    SourceResolved,
    AwaitingGithub,
    VercelCreating,
    VercelCreated,
    HookCreating,
    HookCreated,
    Live,
    Failed,
}

/// What went wrong with a site.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes what is written as text")]
pub(in crate::routes) enum SiteErrorKind {
    GithubApi,
    VercelApi,
    NoGithubToken,
    QuotaExceeded,
    Internal,
}

impl<'a> From<&'a Standing> for View<'a> {
    fn from(standing: &'a Standing) -> Self {
        let instance = &standing.instance;
        let failure = instance.failure.as_ref();
        Self {
            site_id: &standing.key,
            state: &instance.state,
            attempt: instance.attempt,
            correlation_id: instance.given.correlation_id.as_deref(),
            last_error: failure.map(|failure| failure.message.as_str()),
            error_kind: failure.map(|failure| failure.kind.as_str()),
            abandoned: instance.abandoned,
            created_at: rfc3339(standing.created_at),
            updated_at: rfc3339(instance.updated_at),
        }
    }
}

/// A site that was asked for.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SiteAskedFor)]
pub(in crate::routes) struct AskedFor<'a> {
    #[serde(flatten)]
    site: View<'a>,
    /// Whether anything has changed.
    changed: bool,
    /// Why nothing has.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

/// Asks for a site, or asks again: a start of the machine `site-provisioning`. It is on disk when this answers.
///
/// Where the services of sites are configured, the server goes on from here; otherwise the site is driven by transitions. One
/// that is live or has failed stays so: the answer is 200, `changed` is false, and `detail` says so. One that was abandoned is
/// refused with 409.
#[utoipa::path(post, path = "/v1/sites", tag = "sites", request_body = NewSite,
    responses(
        (status = 202, description = "It is being provisioned", body = AskedFor),
        (status = 200, description = "It is live or has failed, and nothing has changed", body = AskedFor),
        (status = 409, description = "It was abandoned", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn ask_for(
    State(app): State<App>,
    query: Query,
    Json(NewSite { site_id: LifecycleKey(site_id), correlation_id, more }): Json<NewSite>,
) -> Result<Response, Problem> {
    query.finish("")?;
    // What was read as JSON has a JSON form.
    let input = (!more.is_empty()).then(|| Payload::encode(&more).unwrap_or_default());
    let given = Given { correlation_id: correlation_id.map(|Label(id)| id), input };
    let (status, standing, why) = match begin(&app, MACHINE, &site_id, given).await? {
        Begun::Moved(moved) => (StatusCode::ACCEPTED, moved.standing, None),
        Begun::Ended(standing, why) => (StatusCode::OK, *standing, Some(why)),
    };
    let answer = AskedFor { site: View::from(&standing), changed: why.is_none(), detail: why.as_deref() };
    Ok(json(status, &answer))
}

/// A site as it stands.
#[utoipa::path(get, path = "/v1/sites/{id}", tag = "sites",
    params(("id" = inline(LifecycleKey), Path, description = "The site")),
    responses(
        (status = 200, description = "The site", body = View),
        (status = 404, description = "Nobody has asked for it", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    SiteInPath(id): SiteInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    match app.lifecycles.parts.get(MACHINE, &id).await {
        Err(Error::UnknownKey { .. }) => {
            let detail = format!("nobody has asked for the site `{id}`: POST /v1/sites does");
            Err(Problem::new(Kind::LifecycleNotFound, detail))
        }
        found => Ok(json(StatusCode::OK, &View::from(&told(&app, found).await?))),
    }
}
