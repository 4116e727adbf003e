//! The one list of all pages and forms.

use axum::routing::{get, post};

use super::{assets, find, live, overview, sagas, sign_in};
use crate::auth::Role;
use crate::routes::Routes;

/// Adds them.
pub(crate) fn add(routes: Routes) -> Routes {
    let viewer = Some(Role::Viewer);
    routes
        .page(None, super::assets::STYLE_PLACE, get(assets::style))
        .page(None, super::assets::SCRIPT_PLACE, get(assets::script))
        .page(None, "/login", get(sign_in::show))
        .unrecorded_form(None, "/login", post(sign_in::take))
        .unrecorded_form(viewer, "/logout", post(sign_in::leave))
        .page(viewer, "/", get(overview::show))
        .page(viewer, "/find", get(find::find))
        .page(viewer, "/live", get(live::anything))
        .page(viewer, "/sagas", get(sagas::list::show))
        .page(Some(Role::Operator), "/sagas/bulk", get(sagas::bulk::show))
        .form(Role::Operator, "/sagas/bulk", post(sagas::bulk::take))
        .page(viewer, "/sagas/{id}", get(sagas::saga::show))
        .page(viewer, "/sagas/{id}/live", get(live::saga))
        .form(Role::Client, "/sagas/{id}/cancel", post(sagas::operate::cancel))
        .form(Role::Operator, "/sagas/{id}/pause", post(sagas::operate::pause))
        .form(Role::Operator, "/sagas/{id}/resume", post(sagas::operate::resume))
        .form(Role::Operator, "/sagas/{id}/steps/{step}/resolve", post(sagas::operate::resolve))
}
