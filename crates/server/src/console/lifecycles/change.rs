//! Applies or discards the staged version of a machine.

use axum::extract::State;
use axum::response::Response;

use super::machine_place;
use crate::app::App;
use crate::console::documents;
use crate::console::form::Form;
use crate::http::MachineInPath;
use crate::problem::Problem;
use crate::routes::Machines;

/// New lifecycles take the version that the page showed as staged.
pub(in crate::console) async fn apply(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    form: Form,
) -> Result<Response, Problem> {
    documents::apply::<Machines>(&app, &name, &form, &machine_place(&name)).await
}

/// It is forgotten.
pub(in crate::console) async fn discard(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    form: Form,
) -> Result<Response, Problem> {
    documents::discard::<Machines>(&app, &name, &form, &machine_place(&name)).await
}
