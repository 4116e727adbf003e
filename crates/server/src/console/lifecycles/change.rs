//! Lets new instances take the version that is staged, or forgets it.

use axum::extract::State;
use axum::response::Response;

use super::machine_place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::http::MachineInPath;
use crate::problem::Problem;
use crate::routes::{refuse_the_servers_own_machine, told_of_lifecycle as told};

/// New ones take the version that the page showed as staged.
pub(in crate::console) async fn apply(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    form: Form,
) -> Result<Response, Problem> {
    let staged = as_it_was_seen(&app, &name, &form).await?;
    told(&app, app.lifecycles.parts.machines.apply(&name, staged).await).await?;
    Ok(Done::Applied.and_back_to(&machine_place(&name)))
}

/// It is forgotten.
pub(in crate::console) async fn discard(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    form: Form,
) -> Result<Response, Problem> {
    let staged = as_it_was_seen(&app, &name, &form).await?;
    told(&app, app.lifecycles.parts.machines.discard(&name, staged).await).await?;
    Ok(Done::Discarded.and_back_to(&machine_place(&name)))
}

async fn as_it_was_seen(app: &App, name: &str, form: &Form) -> Result<Option<u32>, Problem> {
    refuse_the_servers_own_machine(name)?;
    let staged = told(app, app.lifecycles.parts.machines.declared(name).await).await?.staged;
    form.was_made_for(&staged.map_or_else(|| "nothing staged".to_owned(), |staged| staged.to_string()))?;
    Ok(staged)
}
