//! Declared definitions: staged, looked at, applied and discarded.

pub(super) mod apply;
pub(super) mod check;
pub(super) mod document;
pub(super) mod list;
pub(super) mod put;
pub(super) mod show;
pub(super) mod written;

use backstitch::store::InFlight as Counted;
use backstitch::{Declaring, Draft};
use backstitch_modules::declaration::Declaration;
use backstitch_modules::orders;
use serde::Serialize;

use super::documents::DeclaredKind;
use crate::app::App;
use crate::problem::{Kind, Problem};
use apply::Applied;
use document::Document;
use put::Declared;

/// Definitions of sagas.
pub(crate) struct Definitions;

impl DeclaredKind for Definitions {
    type Draft = Draft;

    type Put = Declared;

    type Applied = Applied;

    fn read(body: &Document) -> Result<Draft, Problem> {
        Ok(body.read(Declaration::read).map_err(backstitch::Error::from)?)
    }

    fn name(draft: &Draft) -> &str {
        &draft.name
    }

    /// The definition of orders is made from settings of its own.
    fn refuse_the_servers_own(name: &str) -> Result<(), Problem> {
        if name == orders::DEFINITION {
            let detail = format!("`{name}` is made by this server: change it under /v1/admin/config");
            return Err(Problem::new(Kind::NameTaken, detail));
        }
        Ok(())
    }

    async fn put(app: &App, draft: Draft, apply: bool) -> Result<Declaring, Problem> {
        let put =
            if apply { app.engine.declare_and_apply(draft).await } else { app.engine.declare(draft).await };
        Ok(put?)
    }

    async fn after_put(
        app: &App,
        name: String,
        version: u32,
        standing: &'static str,
        apply: bool,
    ) -> Result<Declared, Problem> {
        let in_flight = if apply { Some(in_flight(&app.engine.in_flight(&name).await?)) } else { None };
        Ok(Declared { name, version, standing, in_flight })
    }

    async fn apply(app: &App, name: &str, expected: Option<u32>) -> Result<Applied, Problem> {
        let applied = app.engine.apply(name, expected).await?;
        let in_flight = in_flight(&applied.in_flight);
        Ok(Applied { name: name.to_owned(), version: applied.version, in_flight })
    }

    async fn discard(app: &App, name: &str, expected: Option<u32>) -> Result<u32, Problem> {
        Ok(app.engine.discard(name, expected).await?)
    }

    async fn staged(app: &App, name: &str) -> Result<Option<u32>, Problem> {
        Ok(app.engine.declared(name).await?.and_then(|declared| declared.staged))
    }
}

/// Sagas that have not ended, on one version.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct InFlight {
    /// The version they were started with and keep.
    version: u32,
    /// How many there are; 10,001 stands for more than 10,000.
    sagas: u64,
}

pub(super) fn in_flight(counted: &[Counted]) -> Vec<InFlight> {
    counted.iter().map(|count| InFlight { version: count.version, sagas: count.sagas }).collect()
}

fn unknown(name: &str) -> Problem {
    let detail = format!("nothing is declared under `{name}`: GET /v1/definitions lists what is");
    Problem::new(Kind::DefinitionNotFound, detail)
}
