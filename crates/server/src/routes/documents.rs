//! What definitions and machines are asked alike, as versioned documents: put one in, apply it, discard it, list them.

use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Declaring;
use backstitch::store::documents::Document;
use serde::Serialize;

use super::definitions::document::Document as Body;
use crate::app::App;
use crate::http::{Query, json};
use crate::problem::Problem;

/// Documents of a page, unless a limit is given.
const LIMIT: usize = 100;
const MOST: usize = 1000;

/// A kind of documents that people declare.
pub(crate) trait DeclaredKind {
    /// What is declared.
    type Draft: Send;

    /// The answer to a draft that was put in.
    type Put: Serialize;

    /// The answer to an apply.
    type Applied: Serialize;

    /// Reads a draft, and all of its mistakes.
    fn read(body: &Body) -> Result<Self::Draft, Problem>;

    fn name(draft: &Self::Draft) -> &str;

    /// Refuses the document that the server makes itself.
    fn refuse_the_servers_own(name: &str) -> Result<(), Problem>;

    async fn put(app: &App, draft: Self::Draft, apply: bool) -> Result<Declaring, Problem>;

    /// What is answered to a draft that was put in; `standing` is `staged` or `active`.
    async fn after_put(
        app: &App,
        name: String,
        version: u32,
        standing: &'static str,
        apply: bool,
    ) -> Result<Self::Put, Problem>;

    async fn apply(app: &App, name: &str, expected: Option<u32>) -> Result<Self::Applied, Problem>;

    async fn discard(app: &App, name: &str, expected: Option<u32>) -> Result<u32, Problem>;

    /// The version that waits to be applied or discarded.
    async fn staged(app: &App, name: &str) -> Result<Option<u32>, Problem>;
}

/// A version that was not applied.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Discarded {
    name: String,
    /// Its number, which is not used again.
    discarded: u32,
}

/// Stages a document as the next version of its name, or lets it be taken at once.
pub(super) async fn put<K: DeclaredKind>(
    app: &App,
    name: String,
    mut query: Query,
    body: &Body,
) -> Result<Response, Problem> {
    let apply = query.read("apply", |text| text.parse().ok(), "use true or false")?.unwrap_or(false);
    query.finish("apply")?;
    K::refuse_the_servers_own(&name)?;
    let draft = K::read(body)?;
    if K::name(&draft) != name {
        let written = K::name(&draft);
        let message = format!("is `{written}`, but the address says `{name}`: make them the same");
        return Err(Problem::field("name", message));
    }
    let Declaring { version, is_new, is_active } = K::put(app, draft, apply).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let standing = if is_active { "active" } else { "staged" };
    Ok(json(status, &K::after_put(app, name, version, standing, apply).await?))
}

/// Lets the staged version be taken from now on.
pub(super) async fn apply<K: DeclaredKind>(app: &App, name: &str, query: Query) -> Result<Response, Problem> {
    let expected = expected_version(query)?;
    K::refuse_the_servers_own(name)?;
    Ok(json(StatusCode::OK, &K::apply(app, name, expected).await?))
}

/// Forgets which version is staged.
pub(super) async fn discard<K: DeclaredKind>(
    app: &App,
    name: String,
    query: Query,
) -> Result<Response, Problem> {
    let expected = expected_version(query)?;
    K::refuse_the_servers_own(&name)?;
    let discarded = K::discard(app, &name, expected).await?;
    Ok(json(StatusCode::OK, &Discarded { name, discarded }))
}

/// The version that is to be applied or discarded; whichever is staged unless given.
fn expected_version(mut query: Query) -> Result<Option<u32>, Problem> {
    let version = query.number("version", 1, i32::MAX.unsigned_abs())?;
    query.finish("version")?;
    Ok(version)
}

/// Which documents of a list are asked for.
pub(crate) struct DocumentPage {
    limit: usize,
    after: String,
}

impl DocumentPage {
    pub(super) fn read(mut query: Query) -> Result<Self, Problem> {
        let limit = query.number("limit", 1, MOST)?.unwrap_or(LIMIT);
        let after = query.text("cursor").unwrap_or_default();
        query.finish("limit or cursor")?;
        Ok(Self { limit, after })
    }

    /// A page of the console, which gives no limit.
    pub(crate) fn after(name: String) -> Self {
        Self { limit: LIMIT, after: name }
    }

    /// These documents, and the cursor of the next page.
    pub(crate) fn of<'a>(&self, all: &'a [Document]) -> (&'a [Document], Option<String>) {
        let first = all.partition_point(|document| *document.name <= *self.after);
        let rest = &all[first..];
        let page = &rest[..self.limit.min(rest.len())];
        let next = page.last().filter(|_| page.len() < rest.len());
        (page, next.map(|last| last.name.to_string()))
    }
}
