//! The one list of all pages and forms.

use axum::routing::{get, post};

use super::{
    alerts, assets, audit, definitions, doctor, find, lifecycles, live, orders, outbox, outcomes, overview,
    parked, sagas, sign_in, webhooks,
};
use crate::auth::Role;
use crate::routes::Routes;
use backstitch_modules::orders::{ServiceSetting, TimeoutSetting};

/// Adds them.
pub(crate) fn add(routes: Routes) -> Routes {
    of_lifecycles(of_webhooks(of_definitions(of_sagas(routes))))
        .page(VIEWER, "/outbox", get(outbox::list::show))
        .page(VIEWER, "/outbox/{id}", get(outbox::message::show))
        .form(Role::Operator, "/outbox/{id}/retry", post(outbox::message::retry))
        .page(VIEWER, "/alerts", get(alerts::show))
        .form(Role::Operator, "/alerts/{id}/acknowledge", post(alerts::acknowledge))
        .page(ADMIN, "/audit", get(audit::show))
        .page(VIEWER, "/doctor", get(doctor::show))
        .page(VIEWER, "/parked", get(parked::show))
        .form(Role::Operator, "/parked/retry", post(parked::retry_all))
        .form(Role::Operator, "/parked/{id}/retry", post(parked::retry))
        .form(Role::Operator, "/parked/{id}/remove-conflict", post(parked::remove_conflict))
}

const VIEWER: Option<Role> = Some(Role::Viewer);
const OPERATOR: Option<Role> = Some(Role::Operator);
const ADMIN: Option<Role> = Some(Role::Admin);

fn of_definitions(routes: Routes) -> Routes {
    routes
        .page(VIEWER, "/definitions", get(definitions::list::show))
        .page(VIEWER, "/definitions/{name}", get(definitions::definition::show))
        .form(Role::Admin, "/definitions/{name}/apply", post(definitions::change::apply))
        .form(Role::Admin, "/definitions/{name}/discard", post(definitions::change::discard))
        .page(ADMIN, "/new-definition", get(definitions::write::show))
        .form(Role::Admin, "/new-definition", post(definitions::write::take))
        .page(VIEWER, "/orders", get(orders::show))
        .form(Role::Admin, "/orders/services", post(orders::stage_services))
        .form(Role::Admin, "/orders/services/apply", post(orders::apply::<ServiceSetting>))
        .form(Role::Admin, "/orders/services/discard", post(orders::discard::<ServiceSetting>))
        .form(Role::Admin, "/orders/timeouts", post(orders::stage_timeouts))
        .form(Role::Admin, "/orders/timeouts/apply", post(orders::apply::<TimeoutSetting>))
        .form(Role::Admin, "/orders/timeouts/discard", post(orders::discard::<TimeoutSetting>))
}

fn of_webhooks(routes: Routes) -> Routes {
    routes
        .page(VIEWER, "/webhooks", get(webhooks::subscriptions::show))
        .page(VIEWER, "/webhooks/subscriptions/{id}", get(webhooks::subscription::show))
        .form(Role::Admin, "/webhooks/subscriptions/{id}/enable", post(webhooks::operate::enable))
        .form(Role::Admin, "/webhooks/subscriptions/{id}/disable", post(webhooks::operate::disable))
        .form(Role::Admin, "/webhooks/subscriptions/{id}/test", post(webhooks::operate::test))
        .form(Role::Operator, "/webhooks/subscriptions/{id}/replay", post(webhooks::operate::replay))
        .page(VIEWER, "/webhooks/deliveries", get(webhooks::deliveries::show))
        .page(VIEWER, "/webhooks/deliveries/{id}", get(webhooks::delivery::show))
        .page(VIEWER, "/webhooks/dead-letters", get(webhooks::dead_letters::show))
        .page(OPERATOR, "/webhooks/dead-letters/requeue", get(webhooks::requeue::show))
        .form(Role::Operator, "/webhooks/dead-letters/requeue", post(webhooks::requeue::many))
        .form(Role::Operator, "/webhooks/dead-letters/{id}/requeue", post(webhooks::requeue::one))
}

fn of_lifecycles(routes: Routes) -> Routes {
    routes
        .page(VIEWER, "/lifecycles", get(lifecycles::list::show))
        .page(VIEWER, "/lifecycle-dead-letters", get(lifecycles::dead_letters::show))
        .page(VIEWER, "/lifecycles/{machine}", get(lifecycles::machine::show))
        .form(Role::Admin, "/machines/{machine}/apply", post(lifecycles::change::apply))
        .form(Role::Admin, "/machines/{machine}/discard", post(lifecycles::change::discard))
        .page(VIEWER, "/lifecycles/{machine}/{key}", get(lifecycles::instance::show))
        .page(VIEWER, "/lifecycles/{machine}/{key}/whole", get(lifecycles::whole::show))
        .form(Role::Client, "/lifecycles/{machine}/{key}/start", post(lifecycles::operate::start))
        .form(Role::Operator, "/lifecycles/{machine}/{key}/transition", post(lifecycles::operate::transition))
        .form(Role::Operator, "/lifecycles/{machine}/{key}/fail", post(lifecycles::operate::fail))
        .form(Role::Operator, "/lifecycles/{machine}/{key}/abandon", post(lifecycles::operate::abandon))
}

fn of_sagas(routes: Routes) -> Routes {
    routes
        .page(None, super::assets::STYLE_PLACE, get(assets::style))
        .page(None, super::assets::SCRIPT_PLACE, get(assets::script))
        .page(None, "/login", get(sign_in::show))
        .unrecorded_form(None, "/login", post(sign_in::take))
        .unrecorded_form(VIEWER, "/logout", post(sign_in::leave))
        .page(VIEWER, "/", get(overview::show))
        .page(VIEWER, "/find", get(find::find))
        .page(VIEWER, "/live", get(live::anything))
        .page(VIEWER, "/outcomes/{id}", get(outcomes::show))
        .page(VIEWER, "/sagas", get(sagas::list::show))
        .page(OPERATOR, "/sagas/bulk", get(sagas::bulk::show))
        .form(Role::Operator, "/sagas/bulk", post(sagas::bulk::take))
        .page(VIEWER, "/sagas/{id}", get(sagas::saga::show))
        .page(VIEWER, "/sagas/{id}/live", get(live::saga))
        .page(VIEWER, "/sagas/{id}/whole", get(sagas::whole::show))
        .form(Role::Client, "/sagas/{id}/cancel", post(sagas::operate::cancel))
        .form(Role::Operator, "/sagas/{id}/pause", post(sagas::operate::pause))
        .form(Role::Operator, "/sagas/{id}/resume", post(sagas::operate::resume))
        .form(Role::Operator, "/sagas/{id}/steps/{step}/resolve", post(sagas::operate::resolve))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::http::Method;

    use crate::auth::Access;
    use crate::routes::assemble;

    /// What the tests over HTTP go through with every role.
    const TRIED: &str = include_str!("../../../cli/tests/it/console/routes.txt");

    #[test]
    fn every_page_and_form_is_among_those_that_are_tried_with_every_role() {
        let access = assemble().access;
        let pages = access.all().filter(|(.., rule)| matches!(rule.access, Access::Page(_)));
        let found: BTreeSet<String> =
            pages.map(|(path, method, rule)| format!("{method} {} {path}", rule.access.as_str())).collect();
        assert_eq!(found, TRIED.lines().map(str::to_owned).collect::<BTreeSet<String>>());
    }

    #[test]
    fn every_form_is_audited_but_for_signing_in_and_out() {
        for (path, method, rule) in assemble().access.all() {
            let is_page = matches!(rule.access, Access::Page(_));
            if is_page {
                let changes = method == Method::POST && path != "/login" && path != "/logout";
                assert_eq!(rule.audited, changes, "{method} {path}");
            }
        }
    }
}
