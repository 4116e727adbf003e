//! Lifecycles: the machines that are declared, and what each of their instances is asked and told.

pub(super) mod apply;
pub(super) mod dead_letters;
mod event;
pub(super) mod events;
pub(super) mod list;
pub(super) mod log;
pub(super) mod look;
mod problems;
pub(super) mod put;
pub(super) mod show;
pub(super) mod start;
pub(super) mod steer;
mod stuck;
mod view;
mod written;

use backstitch::Declaring;
use backstitch_modules::lifecycles::{Draft, Error, declaration, sites};

use super::definitions::document::Document;
use super::documents::DeclaredKind;
use crate::app::App;
use crate::problem::Problem;
use apply::Applied;
use put::Declared;
use show::{COUNTED, VersionItem};

pub(super) use event::LifecycleEvent;
pub(crate) use problems::told;
pub(crate) use show::written_for;
pub(super) use stuck::StuckLifecycles;
pub(super) use view::View;

/// Machines.
pub(crate) struct Machines;

impl DeclaredKind for Machines {
    type Draft = Draft;

    type Put = Declared;

    type Applied = Applied;

    fn read(body: &Document) -> Result<Draft, Problem> {
        Ok(body.read(declaration::read).map_err(Error::from)?)
    }

    fn name(draft: &Draft) -> &str {
        &draft.name
    }

    /// The server makes the machine of sites from its configuration.
    fn refuse_the_servers_own(name: &str) -> Result<(), Problem> {
        if name == sites::MACHINE {
            return Err(Error::BuiltIn(name.to_owned()).into());
        }
        Ok(())
    }

    async fn put(app: &App, draft: Draft, apply: bool) -> Result<Declaring, Problem> {
        Ok(app.lifecycles.parts.machines.put(draft, apply).await?)
    }

    async fn after_put(
        app: &App,
        name: String,
        version: u32,
        standing: &'static str,
        _: bool,
    ) -> Result<Declared, Problem> {
        let diagram = app.lifecycles.parts.machines.machine(&name, version).await?.diagram();
        Ok(Declared { name, version, standing, diagram })
    }

    async fn apply(app: &App, name: &str, expected: Option<u32>) -> Result<Applied, Problem> {
        let machines = &app.lifecycles.parts.machines;
        let version = told(app, machines.apply(name, expected).await).await?;
        let versions = machines.versions(name, COUNTED).await?.iter().map(VersionItem::from).collect();
        Ok(Applied { name: name.to_owned(), version, versions })
    }

    async fn discard(app: &App, name: &str, expected: Option<u32>) -> Result<u32, Problem> {
        told(app, app.lifecycles.parts.machines.discard(name, expected).await).await
    }

    async fn staged(app: &App, name: &str) -> Result<Option<u32>, Problem> {
        Ok(told(app, app.lifecycles.parts.machines.declared(name).await).await?.staged)
    }
}
